"""The memory role: what the model takes of each device and of the RAM, planned by llama.cpp before a weight is there.

`pyinfra -y INVENTORY roles.memory.replan` asks it anew on all hosts; the next deploy serves by that plan.
`pyinfra -y INVENTORY roles.memory.explore` tells what the model would be like on other cards, `roles.memory.fleet`
which hosts of the inventory it fits.
"""

from __future__ import annotations


def replan() -> None:
    """The whole of that run, for one host."""
    # A front door, as deploy.py is: what it opens is above this room, which must not know it otherwise.
    from functools import partial

    from roles.memory import operations
    from roles.overview.alone import alone

    alone("memory", partial(operations.replanned, name="Plan the memory anew"))


def explore() -> None:
    """A table for one host: its model on cards of other sizes."""
    from roles.overview.explore import explore as own

    own()


def fleet() -> None:
    """A row for one host; the table is printed when pyinfra ends."""
    from roles.overview.fleet import fleet as own

    own()
