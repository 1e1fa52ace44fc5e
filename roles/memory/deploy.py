"""The memory role: the model's split over the devices, planned by llama.cpp itself before a weight is there."""

from pyinfra.api import deploy

from roles.memory import operations
from roles.wishes import Wishes


@deploy("Memory")
def memory(wishes: Wishes) -> None:
    operations.planned(name="Plan the memory", wishes=wishes)
    operations.held(name="Hold it in the RAM", wishes=wishes)


@deploy("Memory")
def memory_of_the_file(wishes: Wishes) -> None:
    """For a model that the host can reach and this machine cannot: its header was not known ahead."""
    operations.planned(name="Plan the memory of a model that is there", wishes=wishes)
    operations.held(name="Hold that in the RAM", wishes=wishes)
