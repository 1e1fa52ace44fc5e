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
def toolkit_there(wishes: Wishes) -> Generator[PyinfraCommand]:
    """NVIDIA's CUDA toolkit of that version is on the host, where the inventory asks for its wheels."""
    yield from converge(partial(decide.toolkit_there, wishes))


@operation()
def built(wishes: Wishes) -> Generator[PyinfraCommand]:
    """A release of that commit, built for this host, stands beside the others."""
    yield from converge(partial(decide.built, wishes))


@operation()
def collected(wishes: Wishes) -> Generator[PyinfraCommand]:
    """No more old releases than wanted lie on the host."""
    yield from converge(partial(decide.collected, wishes))
