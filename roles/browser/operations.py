"""Operations of the browser role."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from roles import remote
from roles.browser import decide
from roles.operation import converge
from roles.settings import Browser


@operation()
def policy_set(wanted: Browser) -> Generator[PyinfraCommand]:
    """The managed policy that keeps a browser's local AI model away is in force."""
    yield from converge(partial(decide.policy_set, wanted, remote.has_password()))
