"""The one operation of a removal."""

from __future__ import annotations

from collections.abc import Generator
from weakref import WeakSet

from pyinfra.api import Host, operation
from pyinfra.api.command import PyinfraCommand

from roles import observation, preview, remote, trouble
from roles.host import HOST
from roles.observation import Observation
from roles.operation import Decision, converge
from roles.removal import decide
from roles.removal.decide import Wanted
from roles.removal.observe import MADE

_acted: WeakSet[Host] = WeakSet()


@operation()
def removed(wanted: Wanted) -> Generator[PyinfraCommand]:
    """What Paddock made on the host is gone from it."""
    _, host = observation.context()

    def decided(seen: Observation) -> Decision:
        if seen[HOST].root == "password" and decide.needs_root(wanted, seen):
            remote.ask_password()
        decision = decide.removed(wanted, remote.has_password(), seen)
        if decision.steps:
            _acted.add(host)
        return decision

    yield from converge(decided)


@operation()
def gone(wanted: Wanted) -> Generator[PyinfraCommand]:
    """Nothing is left that should not be; the last line says what became of the host."""
    state, host = observation.context()

    def decided(seen: Observation) -> Decision:
        left = decide.removed(wanted, True, seen)
        if left.steps:
            return Decision(seen, refusal=f"not all of it is gone: {'; '.join(left.reasons)}; run it again")
        word = "removed" if host in _acted else "nothing of Paddock's is on this host"
        word += ", but for the models that were kept" if wanted.keep_models and seen[MADE].stored else ""
        if state.is_executing:
            trouble.last_word(host, word)
        else:
            preview.show(host, "remove Paddock from this host" if host in _acted else word)
        return Decision(seen)

    yield from converge(decided)
