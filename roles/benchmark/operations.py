"""Operations of the benchmark role."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from roles import remote, trouble
from roles.benchmark import decide, home, trial
from roles.benchmark.observe import BENCHMARK
from roles.observation import Observation, context
from roles.operation import Decision, converge
from roles.wishes import Wishes


@operation()
def measured(wishes: Wishes) -> Generator[PyinfraCommand]:
    """What is served has been measured, and the figures are in the host's history."""
    report = partial(home.arrived, context()[1])
    yield from converge(partial(decide.measured, wishes, report))


@operation()
def alternated(wishes: Wishes) -> Generator[PyinfraCommand]:
    """Where the inventory wants it: what was measured just now is measured beside what was there before, in turns."""
    state, host = context()

    def in_turns(seen: Observation) -> Decision:
        due = home.measured(host) if state.is_executing else trial.to_come(seen)
        return trial.alternated(wishes, remote.has_password(), partial(home.known, state, host), due, seen)

    yield from converge(in_turns)


@operation()
def judged(wishes: Wishes) -> Generator[PyinfraCommand]:
    """New figures are on the controller and compared with those of what was there before; a slower release may go."""
    state, host = context()
    told = partial(trouble.remark, host)

    def kept(seen: Observation) -> Decision:
        return trial.kept(wishes, remote.has_password(), home.news(state, host, seen[BENCHMARK].last), told, seen)

    yield from converge(kept)


@operation()
def measured_in_full(wishes: Wishes) -> Generator[PyinfraCommand]:
    """The whole table is measured now, however long it takes."""
    report = partial(home.arrived, context()[1])
    yield from converge(partial(decide.measured_in_full, wishes, report))
