"""Removal: `pyinfra -y INVENTORY roles.remove`, with `--data keep_models=true` or `--data remove_packages=true`."""

from __future__ import annotations

import difflib

from pyinfra.api import Host, State

from roles import observation, preview, remote, trouble
from roles.host import HOST
from roles.removal import operations
from roles.removal.decide import Wanted
from roles.removal.observe import MADE

WORDS = ("keep_models", "remove_packages")
_checked: list[State] = []


def removal() -> None:
    """No setting is needed but these two: what is removed is what the host's own record says."""
    state, host = observation.context()
    trouble.watch(state)
    preview.decide_ahead(state)
    if state not in _checked:
        _checked.append(state)
        if found := [f"{each.name}: {problem}" for each in state.inventory for problem in problems(each)]:
            trouble.refuse_all(found)
    remote.tune(host)
    observation.require((HOST, MADE), None)
    wanted = Wanted(bool(host.data.get("keep_models")), bool(host.data.get("remove_packages")))
    operations.removed(name="Remove what Paddock made", wanted=wanted)
    operations.gone(name="Look whether it is gone", wanted=wanted)


def problems(host: Host) -> list[str]:
    """What is wrong with the two words. One that is nearly right would cost the models."""
    said = {name: host.data.get(name) for name in WORDS}
    near = {name: difflib.get_close_matches(name, WORDS, n=1, cutoff=0.75) for name in host.inventory.override_data}
    slips = [f"{name}: no such word; {match[0]}?" for name, match in near.items() if match and name not in WORDS]
    bad = {name: value for name, value in said.items() if value not in (None, True, False)}
    return slips + [f"{name}={value!r}: it is true or false" for name, value in bad.items()]
