"""The benchmark: the seed's table of what a host serves.

`pyinfra -y INVENTORY roles.benchmark.full` measures all of it, on all hosts; a deploy measures a little of it.
"""

from __future__ import annotations


def full() -> None:
    """The whole of that run, for one host."""
    # A front door, as deploy.py is: what it opens is above this room, which must not know it otherwise.
    from dataclasses import replace

    from roles import overview
    from roles.benchmark import operations

    wishes = overview.begin()
    if wishes is None:
        return
    wishes = replace(wishes, settings=wishes.settings.model_copy(update={"only": ("benchmark",)}))
    overview.checked(name="Check the host", wishes=wishes)
    operations.measured_in_full(name="Measure the whole table", wishes=wishes)
    overview.ended(name="Remember and sum up", wishes=wishes)
