"""The llama_cpp role: a release of the pinned commit, built for the host it serves on."""

from pyinfra.api import deploy

from roles.llama_cpp import operations
from roles.wishes import Wishes


@deploy("llama.cpp")
def llama_cpp(wishes: Wishes) -> None:
    operations.built(name="Build the pinned release", wishes=wishes)
