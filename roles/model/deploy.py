"""The model role: the pinned GGUF, verified before it has its name."""

from pyinfra.api import deploy

from roles.model import operations
from roles.wishes import Wishes


@deploy("Model")
def model(wishes: Wishes) -> None:
    operations.present(name="Download the pinned model", wishes=wishes)
