"""The model: pinned, known before it is downloaded, verified before it is used.

`pyinfra -y INVENTORY roles.model.verify` reads every byte of it again on all hosts, and repairs what is damaged.
"""

from __future__ import annotations


def verify() -> None:
    """The whole of that run, for one host."""
    # A front door, as deploy.py is: what it opens is above this room, which must not know it otherwise.
    from dataclasses import replace

    from roles import overview
    from roles.model import operations

    wishes = overview.begin()
    if wishes is None:
        return
    wishes = replace(wishes, settings=wishes.settings.model_copy(update={"only": ("model",)}))
    overview.checked(name="Check the host", wishes=wishes)
    operations.verified(name="Verify the model", wishes=wishes)
    overview.ended(name="Remember and sum up", wishes=wishes)
