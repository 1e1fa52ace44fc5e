"""Operations of the benchmark role."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from roles.benchmark import decide, home
from roles.observation import Observation, context
from roles.operation import Decision, converge
from roles.wishes import Wishes


@operation()
def measured(wishes: Wishes) -> Generator[PyinfraCommand]:
    """What is served has been measured, and the figures are in the host's history."""
    report = partial(home.arrived, context()[1])
    yield from converge(partial(decide.measured, wishes, report))


@operation()
def judged(wishes: Wishes) -> Generator[PyinfraCommand]:
    """New figures are copied to the controller and compared with those of what was there before."""
    state, host = context()

    def decide(seen: Observation) -> Decision:
        home.news(state, host)
        return Decision(seen)

    yield from converge(decide)


@operation()
def measured_in_full(wishes: Wishes) -> Generator[PyinfraCommand]:
    """The whole table is measured now, however long it takes."""
    report = partial(home.arrived, context()[1])
    yield from converge(partial(decide.measured_in_full, wishes, report))
