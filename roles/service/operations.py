"""Operations of the service role."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from roles import remote
from roles.operation import converge
from roles.service import decide, sandbox
from roles.wishes import Wishes


@operation()
def lingering() -> Generator[PyinfraCommand]:
    """The user's units start at boot and outlive the login."""
    yield from converge(partial(decide.lingering, remote.has_password()))


@operation()
def placed(wishes: Wishes) -> Generator[PyinfraCommand]:
    """Releases and models are where the service's manager may use them."""
    yield from converge(partial(decide.placed, wishes, remote.has_password()))


@operation()
def brought_home(wishes: Wishes) -> Generator[PyinfraCommand]:
    """Releases and models are in the home again, where a user's service takes over from one of the system's."""
    yield from converge(partial(decide.brought_home, wishes))


@operation()
def sandboxed(wishes: Wishes) -> Generator[PyinfraCommand]:
    """The service's sandbox has been tried with its release on this host."""
    yield from converge(partial(sandbox.sandboxed, wishes))


@operation()
def guarded(wishes: Wishes) -> Generator[PyinfraCommand]:
    """paddock-switch, which proves a service, and the watchdog are on the host."""
    yield from converge(partial(decide.guarded, wishes))


@operation()
def running(wishes: Wishes) -> Generator[PyinfraCommand]:
    """llama-server runs as wanted, within its memory cap, and answers."""
    yield from converge(partial(decide.running, wishes))
