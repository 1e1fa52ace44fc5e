"""The start of a run of this role alone: its own settings checked, of all hosts, before any command runs."""

from __future__ import annotations

from typing import Any

from pyinfra.api import Host, State

from roles import observation, preview, remote, settings, trouble
from roles.browser.observe import BROWSER
from roles.browser.observe_models import MODELS
from roles.gpu.observe import GPU
from roles.host import HOST
from roles.settings import Browser

FRAGMENTS = (HOST, GPU, BROWSER, MODELS)
_checked: list[State] = []


def begin() -> Browser:
    """What this host's inventory says about browsers; nothing about llama.cpp or a model need be there."""
    state, host = observation.context()
    trouble.watch(state)
    preview.decide_ahead(state)
    if state not in _checked:
        _checked.append(state)
        check_all(state)
    remote.tune(host)
    observation.require(FRAGMENTS, None)
    return settings.part_of(Browser, data_of(host))


def data_of(host: Host) -> dict[str, Any]:
    return dict(host.data.dict())  # type: ignore[no-untyped-call]


def check_all(state: State) -> None:
    """What is wrong with any host's keys for browsers, and unknown keys; ends the run where anything is."""
    found = []
    for host in state.inventory:
        found += [f"{host.name}: {problem}" for problem in settings.errors(data_of(host), Browser)]
    if found:
        trouble.refuse_all(found)
