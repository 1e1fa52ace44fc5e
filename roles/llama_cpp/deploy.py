"""The llama_cpp role: a release of the pinned commit, built for the host it serves on."""

from pyinfra.api import deploy

from roles.llama_cpp import operations
from roles.wishes import Wishes


@deploy("llama.cpp")
def llama_cpp(wishes: Wishes) -> None:
    operations.toolkit_there(name="Install the CUDA toolkit", wishes=wishes)
    operations.built(name="Build the pinned release", wishes=wishes)


@deploy("llama.cpp")
def old_releases(wishes: Wishes) -> None:
    operations.collected(name="Remove old releases", wishes=wishes)
