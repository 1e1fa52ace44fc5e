"""Operations of the packages role."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from roles import remote, trouble
from roles.observation import Observation, context
from roles.operation import Decision, converge
from roles.packages import decide
from roles.settings import LlamaCpp


@operation()
def installed(wanted: LlamaCpp) -> Generator[PyinfraCommand]:
    """What Paddock needs of the distribution is installed; nothing is upgraded."""
    _, host = context()
    has_password = remote.has_password()

    def report(lines: list[str]) -> None:
        if told := decide.without(lines):
            trouble.left_out(host, told)

    def decided(observation: Observation) -> Decision:
        decision = decide.installed(wanted, has_password, observation)
        return replace(decision, steps=tuple(replace(step, report=report) for step in decision.steps))

    yield from converge(decided)
