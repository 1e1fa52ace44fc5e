"""What a whole deploy would do to a host, decided without acting: the roles' own decisions, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from roles.benchmark import decide as benchmark
from roles.benchmark import trial
from roles.browser import decide as browser
from roles.browser import freed
from roles.host import HOST, no_root
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
    """The reasons of every role; the last is a refusal where there is one."""
    told: list[str] = []
    for decision in decisions(wishes, has_password, seen):
        told += [*decision.reasons, *([f"refuse it: {decision.refusal}"] if decision.refusal else [])]
    return told


def needs_root(wishes: Wishes, seen: Observation) -> bool:
    """Whether anything that is due needs root, or may once there are figures: nobody is asked for a password after an
    hour, and no later run would judge them."""
    for decision in decisions(wishes, True, seen):
        if any(step.script.root for step in decision.steps) or trial.may_switch(wishes, decision.after):
            return True
    return False


def without_root(wishes: Wishes, has_password: bool, seen: Observation) -> str | None:
    """The sentence about what is due and cannot be done, as nobody may be root here: before an hour of building."""
    host = seen[HOST]
    if host.can_be_root(has_password):
        return None
    due = (step for decision in decisions(wishes, has_password, seen) for step in decision.steps if step.script.root)
    what = next((step.what for step in due if not (step.optional or step.minor)), None)
    return no_root(host, f"what is due cannot be done ({what})") if what else None


def decisions(wishes: Wishes, has_password: bool, seen: Observation) -> Iterator[Decision]:
    """What every role decides, in deploy.py's order, on the host as those before it leave it; up to a refusal."""
    wanted = wishes.settings
    every: list[tuple[str, Callable[[Observation], Decision]]] = [
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
    for role, decide in every:
        if not wanted.runs(role):
            continue
        decision = decide(seen)
        yield decision
        if decision.refusal:
            return
        seen = decision.after
