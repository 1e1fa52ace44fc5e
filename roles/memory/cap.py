"""The memory limits of a host's unit, and whether what was planned can be held within them."""

from __future__ import annotations

from dataclasses import replace

from roles.host import HOST
from roles.llama_cpp.cuda import CannotBuild
from roles.machine import MACHINE
from roles.memory import ram
from roles.memory.fitting_program import REMEDY
from roles.memory.plan import Plan
from roles.memory.ram import Limits, Need
from roles.memory.wanted import backend, plan_of, planned_by_us
from roles.observation import Observation
from roles.operation import Decision
from roles.wishes import Wishes


def own_plan(wishes: Wishes, observation: Observation) -> Plan | None:
    """The plan that is recorded for what is wanted, or predicted; None where there is none. Raises CannotBuild."""
    return plan_of(wishes, observation) if planned_by_us(wishes, backend(wishes, observation)) else None


def need_of(wishes: Wishes, observation: Observation) -> Need | None:
    """What the plan takes of the RAM; None where there are no figures. Raises CannotBuild."""
    plan = own_plan(wishes, observation)
    if plan is None or not plan.checked:
        return None
    return ram.needed(wishes.settings.service, backend(wishes, observation), plan)


def limits_of(wishes: Wishes, observation: Observation) -> Limits:
    """The limits of the unit. Raises CannotBuild."""
    settings, plan = wishes.settings, own_plan(wishes, observation)
    total, oomd = observation[HOST].memory_total, observation[MACHINE].oomd
    need = need_of(wishes, observation)
    found = ram.limits(settings.service, settings.memory, total, oomd, need)
    if plan is None or plan.made:
        return found
    known = settings.service.service_memory_max != "auto"
    return replace(found, to_come=("high",) if known else ("maximum", "high"))


def held(wishes: Wishes, observation: Observation) -> Decision:
    """The RAM holds what was planned, and so does the cap."""
    memory, service = wishes.settings.memory, wishes.settings.service
    total, oomd = observation[HOST].memory_total, observation[MACHINE].oomd
    try:
        need = need_of(wishes, observation)
    except CannotBuild:
        return Decision(observation)  # told by what plans it
    if need is None:
        return Decision(observation)
    why = ram.refusal(service, memory, total, need)
    if why and memory.memory_check == "refuse":
        return Decision(observation, refusal=why + REMEDY)
    return Decision(observation, left_out=why or ram.warning(service, memory, total, oomd, need))
