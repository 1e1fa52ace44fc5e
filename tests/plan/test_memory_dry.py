"""What a dry run says of the split: of one that is still to be found, and of one that was found not to fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plan import runs
from tests.plan.runs import Run, host
from tests.unit import hosts

RPC: dict[str, Any] = {"backend": "rpc", "rpc_servers": ["127.0.0.1:50052"]}


@pytest.fixture(scope="module")
def dry(tmp_path_factory: pytest.TempPathFactory) -> Run:
    wishes = hosts.wishes(**RPC)
    good = hosts.converged_answers(wishes)
    unfit = {**good, "memory": {"plans": hosts.plans(wishes, good, problem="n_cpu_moe=48 does not fit")}}
    machines = {
        "bare": host(hosts.bare_answers(), **RPC),
        "good": host(good, **RPC),
        "smaller": host(good, **RPC, vram_limit_mib=4096),
        "unfit": host(unfit, **RPC),
        "own": host(good, **RPC, fit="on"),
    }
    return runs.run(Path(tmp_path_factory.mktemp("split")), machines, "--dry", "--diff")


def changes(run: Run, name: str) -> list[str]:
    return [operation for operation, machines in run.changes().items() if f"@fake/{name}" in machines]


def test_on_a_bare_host_the_split_is_known_after_the_plan(dry: Run) -> None:
    assert changes(dry, "bare").index("Memory | Plan the memory") < changes(dry, "bare").index(
        "Service | Run llama-server"
    )
    assert changes(dry, "good") == []


def test_another_limit_is_another_plan_and_the_service_follows_it(dry: Run) -> None:
    assert changes(dry, "smaller")[0] == "Memory | Plan the memory"
    assert any("--n-cpu-moe 44 -> known-after-the-plan" in line for line in dry.said("smaller"))


def test_a_split_that_did_not_fit_is_refused_without_another_question(dry: Run) -> None:
    assert changes(dry, "unfit") == []
    assert dry.last_words("unfit")[-1] == (
        "n_cpu_moe=48 does not fit. Change that, or take the risk with memory_check='warn'"
    )


def test_llama_cpps_own_fit_is_said_to_be_unchecked(dry: Run) -> None:
    assert "Memory | Plan the memory" not in changes(dry, "own")
    assert any(line.startswith("fit='on' leaves the split to llama.cpp") for line in dry.last_words("own"))
