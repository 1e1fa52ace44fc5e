"""The benchmark: the seed's table of what a host serves.

`pyinfra -y INVENTORY roles.benchmark.full` measures all of it, on all hosts; a deploy measures a little of it.
`roles.benchmark.history` shows all runs, `roles.benchmark.compare` the newest against what was there before, and
`roles.benchmark.report` draws the page again. These three change nothing on a host.
"""

from __future__ import annotations


def full() -> None:
    """The whole of that run, for one host."""
    # A front door, as deploy.py is: what it opens is above this room, which must not know it otherwise.
    from roles.benchmark.deploy import in_full
    from roles.overview.alone import alone

    alone("benchmark", in_full)


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
