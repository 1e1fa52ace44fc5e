"""The benchmark: the seed's table of what a host serves.

`pyinfra -y INVENTORY roles.benchmark.full` measures all of it, on all hosts; a deploy measures a little of it.
`roles.benchmark.history` shows all runs, `roles.benchmark.compare` the newest against what was there before, and
`roles.benchmark.report` draws the page again. These three change nothing on a host.
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
    operations.judged(name="Judge the figures", wishes=wishes)
    overview.ended(name="Remember and sum up", wishes=wishes)


def history() -> None:
    """All runs of this host, with what changed in between."""
    from roles.benchmark import verbs

    verbs.fetched(verbs.history)


def compare() -> None:
    """What differs between now and before in what went in, then in what came out."""
    from roles.benchmark import verbs

    verbs.fetched(verbs.compare)


def report() -> None:
    """The page: reports/index.html beside the inventory."""
    from roles.benchmark import verbs

    verbs.fetched(None)
