"""A whole run for a model of which nothing fits: a smaller quantization is looked for, and no weight is fetched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from roles.memory.decide import SECONDS, SMALLER_SECONDS
from tests.lab import small_gguf
from tests.lab.hub import Hub
from tests.lab.hub.repo import Repo
from tests.lab.hub.sample import sample_hub
from tests.plan import runs
from tests.plan.conftest import CLAIM, TAKEN
from tests.plan.runs import Run, host
from tests.unit import hosts

# Scripts are on standard input, where @fake does not look: what tells them apart is their time limit.
FIRST, SECOND = f"-k 10 {SECONDS} python3", f"-k 10 {SMALLER_SECONDS} python3"
BIG, SMALL = "small-Q8_0.gguf", "small-Q4_0.gguf"
RPC: dict[str, Any] = {"backend": "rpc", "rpc_servers": ["127.0.0.1:50052"], "context": 4096}
PROBLEM = "n_cpu_moe=4 does not fit; no smaller ubatch, cache type or context alone would"
ANSWER = f"{PROBLEM}; model_file={SMALL} fits at n_cpu_moe=4. Change that, or take the risk with memory_check='warn'"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("gguf")
    repo = Repo("lab/quants")
    tokens = {BIG: 2000, SMALL: 100}  # the length of the vocabulary stands for the bits of a weight
    repo.commit({name: small_gguf.write(folder / name, tokens=count) for name, count in tokens.items()})
    with sample_hub(tmp_path_factory.mktemp("repos")) as hub:
        hub.add(repo)
        yield hub


def told(wanted: dict[str, Any], answers: hosts.Answers, context: int, fits: bool = False) -> list[str]:
    """What the planner prints."""
    [plan] = hosts.plans(hosts.wishes(wanted), answers).values()
    share = {"device": "RPC0", "model": 4000, "context": context, "compute": 0}
    tried = [{"gpu_layers": 99, "n_cpu_moe": 4, "devices": [share], "host": plan["host"], "lacking": 1}]
    unfit = {} if fits else {"problem": PROBLEM, "nothing_fits": True}
    return [json.dumps({**plan, "tried": tried, **unfit}), "", "paddock-exit 0"]


@pytest.fixture(scope="module")
def run(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("quantization")
    source = {"model_repo": "lab/quants", "model_file": BIG, "hub_endpoint": hub.url}
    wanted = {**hosts.DATA, **RPC, "model_path": None, **source}
    answers = hosts.converged_answers(hosts.wishes(hosts.DATA, **RPC), model=hosts.ABSENT, memory={"plans": {}})
    refused = ["paddock: " + ANSWER, "", "paddock-exit 1"]

    def machine(context: int, fits: bool = False) -> dict[str, Any]:
        script = {CLAIM: TAKEN, FIRST: told(wanted, answers, context, fits), SECOND: refused}
        return host(answers, script, **{**RPC, "model_path": None, **source})

    machines = {"small": machine(900), "full": machine(4900), "fits": machine(100, fits=True)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("HF_TOKEN", "")
        return runs.run(folder, machines, "-y", "-vv")


def commands(run: Run, name: str) -> list[str]:
    lines = [line for line in run.err.splitlines() if line.startswith(f"[@fake/{name}]") and ">>> " in line]
    return [line.partition(">>> ")[2] for line in lines]


def test_the_run_ends_with_the_quantization_that_would_fit(run: Run) -> None:
    assert run.last_words("small")[-1] == f"plan the memory: {ANSWER}"
    assert f"no split of {BIG} fits; looking for a smaller quantization in lab/quants" in run.said("small")
    assert any(line.startswith(f"no split of the model fits: ask about {SMALL} (") for line in run.said("small"))
    assert run.code == 1


def test_where_cache_and_buffers_are_too_much_no_quantization_is_asked_about(run: Run) -> None:
    assert "no split of the model fits" in run.said("full")


@pytest.mark.parametrize("name", ["small", "full"])
def test_it_is_one_more_command_and_nothing_is_downloaded_after_it(run: Run, name: str) -> None:
    asked = [at for at, command in enumerate(commands(run, name)) if FIRST in command or SECOND in command]
    assert len(asked) == 2
    assert [CLAIM in command for command in commands(run, name)[asked[-1] + 1 :]] == [True], "the host is given back"


def test_where_something_fits_no_quantization_is_looked_for(run: Run) -> None:
    assert [command for command in commands(run, "fits") if FIRST in command]
    assert not [command for command in commands(run, "fits") if SECOND in command]
    assert not [line for line in run.said("fits") if "no split" in line]
