"""The verbs of the memory role on @fake hosts: what each answers is shown, and one host's trouble is its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roles.memory.decide import SECONDS
from tests.plan import runs
from tests.plan.runs import Run, host
from tests.unit import hosts

PROGRAM = f"-k 10 {SECONDS} python3"
RPC: dict[str, Any] = {"backend": "rpc", "rpc_servers": ["127.0.0.1:50052"]}
SPLIT = {"gpu_layers": 99, "n_cpu_moe": 44, "n_cpu_ffn": None}
CARDS = [{"size": 6144, "room": 4800, "split": SPLIT, "takes": 4637, "experts": 0.083, "context": 131072}]


def answered(told: object) -> list[str]:
    return [json.dumps(told), "", "paddock-exit 0"]


def rpc_host(told: list[str], plans: bool = True) -> dict[str, Any]:
    """A host with a release and a stand-in device, whose planner answers this."""
    answers = hosts.converged_answers(hosts.wishes(**RPC))
    if not plans:
        answers["memory"] = {"plans": {}}
    return host(answers, {PROGRAM: told}, **RPC)


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Run:
    machines = {
        "card": rpc_host(answered(CARDS)),
        "full": rpc_host(["paddock: RTX 3050 has 90 MiB of VRAM free", "", "paddock-exit 1"]),
        "bare": host(hosts.bare_answers()),
        "garbage": host("Killed"),
    }
    return runs.run(tmp_path_factory.mktemp("explore"), machines, "-y", to="roles.memory.explore")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Run:
    answers = hosts.converged_answers(hosts.wishes(**RPC))
    [plan] = hosts.plans(hosts.wishes(**RPC), answers).values()
    [unfit] = hosts.plans(hosts.wishes(**RPC), answers, problem="n_cpu_moe=48 does not fit: RPC0").values()
    machines = {
        "planned": rpc_host(["nothing is asked"]),
        "asked": rpc_host(answered(plan), plans=False),
        "small": rpc_host(answered(unfit), plans=False),
        "full": rpc_host(["paddock: RTX 3050 has 90 MiB of VRAM free", "", "paddock-exit 1"], plans=False),
        "bare": host(hosts.bare_answers()),
        "garbage": host("Killed"),
    }
    return runs.run(tmp_path_factory.mktemp("fleet"), machines, "-y", to="roles.memory.fleet")


def rows(run: Run) -> dict[str, list[str]]:
    """The fleet's table: a host's cells, each in one line."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in run.err.splitlines():
        if not line.startswith("│"):
            continue
        cells = [cell.strip() for cell in line.strip("│").split("│")]
        name = cells[0].removeprefix("@fake/") or name
        before = found.get(name, ["", "", ""])
        found[name] = [f"{old} {new}".strip() for old, new in zip(before, cells[1:], strict=True)]
    return found


def test_the_cards_are_shown_for_the_host_that_was_asked(explored: Run) -> None:
    table = explored.err.partition("@fake/card: the model on other cards, context 32768, KV f16")[2]
    assert "6144 │ n_cpu_moe=44 │           8 % │ 4637 of 4800 │          131072 │" in table
    assert "@fake/card: asking llama.cpp at most" in explored.err


def test_a_host_that_cannot_tell_says_why_and_the_run_fails(explored: Run) -> None:
    assert explored.last_words("full") == ["RTX 3050 has 90 MiB of VRAM free"]
    assert explored.last_words("bare") == [
        "no release of llama.cpp is on this host to ask about its model; deploy it first"
    ]
    assert "the probe's answer cannot be read" in explored.last_words("garbage")[0]
    assert explored.code == 1


def test_the_fleet_is_one_table_with_a_reason_for_each_host(told: Run) -> None:
    found = rows(told)
    assert found["planned"][1] == found["asked"][1] == "yes"
    assert found["planned"][2].startswith("n_cpu_moe=44 (the experts of 44 of 48 layers on the CPU): RPC0 4600 MiB")
    assert found["small"][1:] == ["no", "n_cpu_moe=48 does not fit: RPC0"]
    assert found["full"][1:] == ["unknown", "RTX 3050 has 90 MiB of VRAM free"], "which says nothing of the model"
    assert found["bare"][1] == "unknown"
    assert found["garbage"][1] == "unknown"
    assert "Traceback" not in told.err


def test_neither_verb_changes_a_host(explored: Run, told: Run) -> None:
    for run in (explored, told):
        assert not run.changes()


@pytest.mark.parametrize("verb", ["explore", "fleet"])
def test_bad_settings_are_refused_by_both(tmp_path: Path, verb: str) -> None:
    run = runs.run(tmp_path, {"first": host(hosts.bare_answers(), contxt=1)}, "-y", to=f"roles.memory.{verb}")
    assert run.code == 2
    assert "contxt" in run.err
