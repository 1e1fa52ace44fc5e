"""Moving the pins: `pyinfra -y INVENTORY roles.overview.update_pins` resolves every ref and file anew."""

from __future__ import annotations

import sys

from pyinfra import logger
from pyinfra.api import State

from roles import observation, settings, trouble
from roles.lock import CannotPin, Lock, LockError
from roles.overview import start

_updated: list[State] = []


def update_pins() -> None:
    """Show old -> new for every host's pins, and write them into the lock; with --dry, show alone. What no
    host of the whole inventory asks for any more is dropped.

    No host is changed, and none needs to be up but one: the next deploy acts on what the lock says then.
    """
    state, _ = observation.context()
    if state in _updated:
        return
    _updated.append(state)
    trouble.watch(state)
    start.check_all(state)
    known = start.the_lock(state)
    anew = Lock(known.path, empty=True)
    for each in filter(state.is_host_in_limit, state.inventory):
        try:
            start.resolved(settings.of(start.data_of(each)), anew)
        except (CannotPin, LockError) as error:
            trouble.out(state, each, str(error))
    # What no host asks for is dropped, as long as all of them were asked.
    told = known.update(anew, whole=not state.failed_hosts and all(map(state.is_host_in_limit, state.inventory)))
    if not told and not state.failed_hosts:
        told = [f"every pin in {known.path} is the newest"]
    for line in told:
        logger.info(f"paddock: {line}")
    if "--dry" not in sys.argv:
        known.save()
    elif told:
        logger.info("paddock: nothing is written in a dry run")
