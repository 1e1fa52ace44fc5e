"""Operations of the packages role."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from roles import remote
from roles.operation import converge
from roles.packages import decide
from roles.settings import LlamaCpp


@operation()
def installed(wanted: LlamaCpp) -> Generator[PyinfraCommand]:
    """What Paddock needs of the distribution is installed; nothing is upgraded."""
    yield from converge(partial(decide.installed, wanted, remote.has_password()))
