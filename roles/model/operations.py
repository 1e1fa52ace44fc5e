"""Operations of the model role."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from roles.model import decide, pin
from roles.operation import converge
from roles.wishes import Wishes


@operation()
def present(wishes: Wishes) -> Generator[PyinfraCommand]:
    """The pinned model is on the host, verified."""
    yield from converge(partial(decide.present, wishes, pin.token(wishes.settings.model)))
