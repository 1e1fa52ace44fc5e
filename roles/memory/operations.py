"""Operations of the memory role."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from roles import remote
from roles.host import HOST
from roles.memory import cap, decide, report, table
from roles.model import header
from roles.model.decide import holds
from roles.model.observe import MODEL
from roles.observation import Observation, context
from roles.operation import Decision, converge
from roles.wishes import Wishes


@operation()
def planned(wishes: Wishes) -> Generator[PyinfraCommand]:
    """llama.cpp itself has said what the model takes of each device, and it fits."""
    yield from converge(partial(_planned, wishes, False))


@operation()
def replanned(wishes: Wishes) -> Generator[PyinfraCommand]:
    """It is asked anew, though a plan is recorded: what the runtime was measured to take is counted then."""
    yield from converge(partial(_planned, wishes, True))


def _planned(wishes: Wishes, again: bool, seen: Observation) -> Decision:
    state, host = context()
    known = header.informed(wishes, seen, None)
    to_come = known.model is not None and not holds(known.model, seen[MODEL])
    headers = header.bytes_of(known.model) if state.is_executing and to_come and known.model else ()
    decision = decide.planned(known, headers, report.teller(host.log), seen, again)
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
