"""Operations of the model role."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from roles.model import decide, header, hub
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.operation import Decision, converge
from roles.wishes import Wishes


@operation()
def present(wishes: Wishes) -> Generator[PyinfraCommand]:
    """The pinned model is on the host, verified."""

    def due(seen: Observation) -> Decision:
        if wishes.model is None or decide.holds(wishes.model, seen[MODEL]):
            return decide.present(wishes, None, seen)
        return decide.present(header.informed(wishes, seen, None), hub.token(wishes.settings.model), seen)

    yield from converge(due)


@operation()
def verified(wishes: Wishes) -> Generator[PyinfraCommand]:
    """Every byte of the model is read again; what is damaged is downloaded anew."""
    yield from converge(partial(decide.verified, wishes, hub.token(wishes.settings.model)))
