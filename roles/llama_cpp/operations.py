"""Operations of the llama_cpp role."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from roles.llama_cpp import decide
from roles.operation import converge
from roles.wishes import Wishes


@operation()
def built(wishes: Wishes) -> Generator[PyinfraCommand]:
    """A release of that commit, built for this host, stands beside the others."""
    yield from converge(partial(decide.built, wishes))
