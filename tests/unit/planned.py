"""What a test of the memory role begins with: its decision on a host, with a plan or without."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from roles.llama_cpp.release import wanted_release
from roles.memory import decide
from roles.observation import Observation
from roles.wishes import Anatomy, Wishes
from tests.unit import hosts, seed
from tests.unit.deciding import Decide, acting

RPC: dict[str, Any] = {"backend": "rpc", "rpc_servers": ["127.0.0.1:50052"]}
NOT_THERE: dict[str, Any] = {"file": None, "is_gguf": False, "layers": None, "experts": None}
KNOWN = Anatomy("qwen3moe", 4, 128, 8, expert_bytes=(0, 7, 7, 7))


def planned(wishes: Wishes | None = None, headers: tuple[bytes, ...] = (), **data: Any) -> Decide:
    return partial(decide.planned, wishes or hosts.wishes(**data), headers, None)


def unplanned(wishes: Wishes, **changes: dict[str, Any]) -> Observation:
    return hosts.converged(wishes, memory={"plans": {}}, **changes)


def job(decision_on: Decide, seen: Observation) -> Any:
    (step,) = acting(decision_on, seen).steps
    assert step.script.python
    return json.loads(step.script.args[0])


def with_plan(wishes: Wishes, answers: hosts.Answers, **fields: Any) -> Observation:
    return hosts.parsed({**answers, "memory": {"plans": hosts.plans(wishes, answers, **fields)}})


def laptop(**changes: dict[str, Any]) -> hosts.Answers:
    """The seed's machine, built and with its model."""
    answers = seed.laptop_answers(**changes)
    release = wanted_release(seed.wishes(), hosts.parsed(answers))
    return hosts.changed(answers, {"llama_cpp": {"releases": {release.key: release.stamp}}})
