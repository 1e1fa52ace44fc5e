"""What a whole deploy would do to a host, decided without acting: the roles' own decisions, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
from roles.packages import decide as packages
from roles.service import decide as service
from roles.service import sandbox
from roles.wishes import Wishes


def forecast(wishes: Wishes, has_password: bool, seen: Observation) -> list[str]:
    """The reasons of every role, in deploy.py's order; the last is a refusal where there is one."""
    wanted = wishes.settings
    decisions: list[tuple[str, Callable[[Observation], Decision]]] = [
        ("packages", partial(packages.installed, wanted.llama_cpp, has_password)),
        ("browser", partial(browser.policy_set, wanted.browser, has_password)),
        ("browser", partial(freed.models_freed, wanted.browser, None)),
        ("service", partial(service.lingering, has_password)),
        ("service", partial(service.placed, wishes, has_password)),
        ("llama_cpp", partial(llama_cpp.toolkit_there, wishes)),
        ("llama_cpp", partial(llama_cpp.built, wishes)),
        ("memory", partial(memory.planned, wishes, (), None)),
        ("memory", partial(cap.held, wishes)),
        ("model", partial(model.present, wishes, None)),
        ("memory", partial(memory.planned, wishes, (), None)),
        ("memory", partial(cap.held, wishes)),
        ("service", partial(service.brought_home, wishes)),
        ("service", partial(sandbox.sandboxed, wishes)),
        ("service", partial(service.guarded, wishes)),
        ("service", partial(service.running, wishes)),
        ("llama_cpp", partial(llama_cpp.collected, wishes)),
        ("benchmark", partial(benchmark.measured, wishes, lambda lines: None)),
        ("model", partial(collect.collected, wishes)),
    ]
    told: list[str] = []
    for role, decide in decisions:
        if not wanted.runs(role):
            continue
        decision = decide(seen)
        told += decision.reasons
        if decision.refusal:
            return [*told, f"refuse it: {decision.refusal}"]
        seen = decision.after
    return told
