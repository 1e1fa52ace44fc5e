"""The model: pinned, known before it is downloaded, verified before it is used.

`pyinfra -y INVENTORY roles.model.verify` reads every byte of it again on all hosts, and repairs what is damaged.
"""

from __future__ import annotations


def verify() -> None:
    """The whole of that run, for one host."""
    # A front door, as deploy.py is: what it opens is above this room, which must not know it otherwise.
    from functools import partial

    from roles.model import operations
    from roles.overview.alone import alone

    alone("model", partial(operations.verified, name="Verify the model"))
