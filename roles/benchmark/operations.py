"""Operations of the benchmark role."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from roles.benchmark import decide, table
from roles.observation import context
from roles.operation import converge
from roles.wishes import Wishes


@operation()
def measured(wishes: Wishes) -> Generator[PyinfraCommand]:
    """What is served has been measured, and the figures are in the host's history."""
    report = partial(table.show, context()[1].name)
    yield from converge(partial(decide.measured, wishes, report))


@operation()
def measured_in_full(wishes: Wishes) -> Generator[PyinfraCommand]:
    """The whole table is measured now, however long it takes."""
    report = partial(table.show, context()[1].name)
    yield from converge(partial(decide.measured_in_full, wishes, report))
