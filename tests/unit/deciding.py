"""What a decision may be, said once: it acts and then rests, it rests, it refuses, or it leaves something out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from roles.benchmark import decide as benchmark
from roles.browser import decide as browser
from roles.browser import freed
from roles.llama_cpp import decide as llama_cpp
from roles.memory import cap
from roles.memory import decide as memory
from roles.model import collect
from roles.model import decide as model
from roles.observation import Observation
from roles.operation import Decision
from roles.overview import record
from roles.overview.preflight import preflight
from roles.packages import decide as packages
from roles.service import decide as service
from roles.service import sandbox
from roles.wishes import Wishes
from tests.unit import hosts

Decide: TypeAlias = Callable[[Observation], Decision]


def in_order(wishes: Wishes, has_password: bool = True) -> dict[str, Decide]:
    """Every decision of a run, in deploy.py's order."""
    wanted = wishes.settings
    return {
        "preflight": partial(preflight, wishes),
        "packages": partial(packages.installed, wanted.llama_cpp, has_password),
        "browser": partial(browser.policy_set, wanted.browser, has_password),
        "models": partial(freed.models_freed, wanted.browser, None),
        "lingering": partial(service.lingering, has_password),
        "place": partial(service.placed, wishes, has_password),
        "toolkit": partial(llama_cpp.toolkit_there, wishes),
        "llama_cpp": partial(llama_cpp.built, wishes),
        "memory": partial(memory.planned, wishes, (), None),
        "ram": partial(cap.held, wishes),
        "model": partial(model.present, wishes, None),
        "memory of the file": partial(memory.planned, wishes, (), None),
        "ram of the file": partial(cap.held, wishes),
        "home": partial(service.brought_home, wishes),
        "sandbox": partial(sandbox.sandboxed, wishes),
        "guard": partial(service.guarded, wishes),
        "service": partial(service.running, wishes),
        "old releases": partial(llama_cpp.collected, wishes),
        "benchmark": partial(benchmark.measured, wishes, lambda lines: None),
        "collected": partial(collect.collected, wishes),
        "record": partial(record.recorded, wishes),
    }


def judged(**data: Any) -> Decide:
    """The preflight of a host with these settings."""
    return partial(preflight, hosts.wishes(**data))


def smoke(**data: Any) -> Decide:
    """The benchmark that a deploy makes of a host with these settings."""
    return partial(benchmark.measured, hosts.wishes(**data), lambda lines: None)


def full(**data: Any) -> Decide:
    """The benchmark that is asked for by itself."""
    return partial(benchmark.measured_in_full, hosts.wishes(**data), lambda lines: None)


def at_rest(decision: Decision) -> bool:
    return (decision.steps, decision.reasons, decision.refusal) == ((), (), None)


def acting(decide: Decide, seen: Observation) -> Decision:
    """The decision has steps and reasons, and rests on the host that it predicts."""
    decision = decide(seen)
    assert decision.refusal is None
    assert decision.steps
    assert decision.reasons
    assert at_rest(decide(decision.after)), decide(decision.after)
    return decision


def reasons(decide: Decide, seen: Observation) -> str:
    return "; ".join(acting(decide, seen).reasons)


def resting(decide: Decide, seen: Observation) -> Decision:
    """Nothing to do, and nothing to say."""
    decision = decide(seen)
    assert at_rest(decision), decision
    assert decision.left_out is None
    assert decision.after == seen
    return decision


def refusal(decide: Decide, seen: Observation) -> str:
    """The sentence of a refusal; it is one line, and nothing is done or promised beside it."""
    decision = decide(seen)
    assert (decision.steps, decision.reasons) == ((), ())
    assert decision.refusal
    assert "\n" not in decision.refusal
    assert decision.after == seen
    return decision.refusal


def left_out(decide: Decide, seen: Observation) -> str:
    """The sentence about what is not done while the run goes on."""
    decision = decide(seen)
    assert at_rest(decision)
    assert decision.left_out
    assert decision.after == seen
    return decision.left_out
