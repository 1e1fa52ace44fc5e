"""Operations of the memory role."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from roles import remote
from roles.host import HOST
from roles.memory import cap, decide, report, table
from roles.memory.alternatives import quantizations
from roles.memory.plan import Plan
from roles.memory.question import asks_on
from roles.model import header
from roles.model.decide import holds
from roles.model.observe import MODEL
from roles.observation import Observation, context
from roles.operation import Decision, converge
from roles.wishes import ModelPin, Wishes


@operation()
def planned(wishes: Wishes) -> Generator[PyinfraCommand]:
    """llama.cpp itself has said what the model takes of each device, and it fits."""
    yield from _plan(wishes, False)


@operation()
def replanned(wishes: Wishes) -> Generator[PyinfraCommand]:
    """It is asked anew, though a plan is recorded: what the runtime was measured to take is counted then."""
    yield from _plan(wishes, True)


def _plan(wishes: Wishes, again: bool) -> Iterator[PyinfraCommand]:
    """One command on the host; where no split fits, the Hub is asked what smaller quantizations it has, and the host is
    asked about those."""
    unfit: list[dict[str, Any]] = []
    yield from converge(partial(_planned, wishes, again, unfit))
    if unfit and wishes.model:
        yield from converge(partial(_asked_on, wishes, wishes.model, unfit[0]))


def _asked_on(wishes: Wishes, now: ModelPin, plan: dict[str, Any], seen: Observation) -> Decision:
    _, host = context()
    known = header.informed(wishes, seen, None)
    host.log(f"no split of {now.file} fits; looking for a smaller quantization in {now.source}")
    others, advice = quantizations(wishes.settings.model, now, Plan.model_validate(plan), host.log)
    headers = [(one, header.bytes_of(one)) for one in others]
    return decide.asked_on(known, plan, headers, advice, report.teller(host.log, None), seen)


def _planned(wishes: Wishes, again: bool, unfit: list[dict[str, Any]], seen: Observation) -> Decision:
    state, host = context()
    known = header.informed(wishes, seen, None)
    to_come = known.model is not None and not holds(known.model, seen[MODEL])
    headers = header.bytes_of(known.model) if state.is_executing and to_come and known.model else ()
    tell = report.teller(host.log, unfit if asks_on(wishes) else None)
    decision = decide.planned(known, headers, tell, seen, again)
    if seen[HOST].root == "password" and any(step.script.root for step in decision.steps):
        remote.ask_password()
    return decision


@operation()
def held(wishes: Wishes) -> Generator[PyinfraCommand]:
    """The RAM holds what was planned, and so does the unit's cap; where not, the table says why."""
    _, host = context()

    def judged(seen: Observation) -> Decision:
        decision = cap.held(wishes, seen)
        if decision.refusal:
            table.show(table.of_host(host.name, wishes, seen, table.NOTHING))
        return decision

    yield from converge(judged)
