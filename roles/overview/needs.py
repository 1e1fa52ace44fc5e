"""Whether a run will need root, before anybody is asked for a password."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from roles.browser import decide as browser
from roles.host import HOST
from roles.observation import Observation
from roles.operation import Decision
from roles.packages import decide as packages
from roles.service import decide as service_decisions
from roles.service import sandbox
from roles.service.observe import SERVICE
from roles.wishes import Wishes


def needs_root(wishes: Wishes, seen: Observation) -> bool:
    """Whether anything that is due needs root."""
    wanted = wishes.settings
    system: list[Callable[[Observation], Decision]] = [
        partial(service_decisions.placed, wishes, True),
        partial(sandbox.sandboxed, wishes),
        partial(service_decisions.guarded, wishes),
        partial(service_decisions.running, wishes),
    ]
    due = {
        "packages": packages.installed(wanted.llama_cpp, True, seen),
        "browser": browser.policy_set(wanted.browser, True, seen),
        "service": service_decisions.lingering(True, seen),
    }
    if wanted.runs("service") and wanted.service.service_scope == "user" and (seen[HOST].data or seen[HOST].stranded):
        return True  # what is the system's gives way
    if wanted.runs("service") and wanted.service.service_scope == "system":
        steps = [step for decide in system for step in decide(seen).steps]
        if seen[SERVICE].unit is None or any(step.script.root for step in steps):
            return True
    return any(step.script.root for role, decision in due.items() if wanted.runs(role) for step in decision.steps)
