"""The start of a run: all hosts' settings checked, this host's pins resolved, the probe told what to look for."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from pyinfra import logger
from pyinfra.api import Host, State

from roles import lock, observation, preview, remote, settings, trouble
from roles.benchmark.observe import BENCHMARK
from roles.browser.observe import BROWSER
from roles.browser.observe_models import MODELS
from roles.gpu.observe import GPU
from roles.host import HOST
from roles.llama_cpp import pin as llama_cpp_pin
from roles.llama_cpp import source, wheels
from roles.llama_cpp.observe import LLAMA_CPP
from roles.machine import MACHINE
from roles.memory.observe import MEMORY
from roles.model import pin as model_pin
from roles.model.observe import MODEL
from roles.overview.record import RECORD
from roles.service.observe import SERVICE
from roles.service.observe_sandbox import SANDBOX
from roles.settings import Settings, page
from roles.wishes import Wishes

FRAGMENTS = (HOST, MACHINE, GPU, LLAMA_CPP, MODEL, MEMORY, BROWSER, MODELS, SERVICE, SANDBOX, BENCHMARK, RECORD)
_checked: list[State] = []
_locks: list[lock.Lock] = []
_resolving = threading.Lock()  # hosts prepare at the same time, and a moving ref must be one commit for all of them


def begin() -> Wishes | None:
    """Check every host's settings, resolve this host's pins, say what the probe reads. None: the host is out."""
    state, host = observation.context()
    if not state.initialised:
        trouble.refuse_all(["this is no inventory but the deploy; the order is: pyinfra INVENTORY deploy.py"])
    trouble.watch(state)
    preview.decide_ahead(state)
    if state not in _checked:
        _checked.append(state)
        check_all(state)
    remote.tune(host)
    try:
        with _resolving:
            wishes = resolved(settings.of(data_of(host)), the_lock(state))
    except (lock.CannotPin, lock.LockError) as error:
        trouble.out(state, host, str(error))
        return None
    observation.require(FRAGMENTS, wishes)
    return wishes


def data_of(host: Host) -> dict[str, Any]:
    """A host's data, from every place that pyinfra takes it from."""
    return dict(host.data.dict())  # type: ignore[no-untyped-call]


def check_all(state: State) -> None:
    """All that is wrong with any host's data, in one go and before any command; ends the run where anything is."""
    found = [*traps(state)]
    for host in state.inventory:
        problems = settings.errors(data_of(host))
        found += [f"{host.name}: {problem}" for problem in problems]
        if problems and (hint := stray(state, host)):
            found[-1] += hint
        if not problems and (unread := unread_patch(state, host)):
            found.append(f"{host.name}: {unread}")
    try:
        the_lock(state)
    except lock.LockError as error:
        found.append(str(error))
    if found:
        trouble.refuse_all(found)


def unread_patch(state: State, host: Host) -> str | None:
    """The sentence about a patch that is not there; what is named by valid settings is a file of this machine's."""
    names = settings.of(data_of(host)).llama_cpp.llama_patches
    try:
        source.patches(names, lock.beside(state.inventory).parent)
    except lock.CannotPin as error:
        return str(error)
    return None


def traps(state: State) -> list[str]:
    """What pyinfra takes without a word, and people do not mean."""
    found = []
    names = {host.name for host in state.inventory}
    if "@local" in names and os.geteuid() == 0 and os.environ.get("SUDO_USER"):
        found.append("@local: run this as yourself and not with sudo, or everything would be root's; root is asked for")
    for group, hosts in state.inventory.groups.items():
        letters = [host.name for host in hosts]
        if len(letters) > 1 and all(len(name) == 1 for name in letters):
            found.append(
                f"{group}: its hosts are {', '.join(letters)}, the letters of one name; a list of hosts has brackets,"
                f" as in {group} = [({''.join(letters)!r}, {{...}})]"
            )
    if ignored := ignored_defaults(state):
        found.append(ignored)
    return found


def stray(state: State, host: Host) -> str:
    """A hint for a host that says nothing of itself: perhaps it was never meant to be one."""
    file = lock.inventory_file(state.inventory)
    if file is None or host.host_data:
        return ""
    groups = [group for group in dict.fromkeys(host.groups) if group not in ("all", file.stem) and group[0] != "@"]
    if not groups:
        return ""
    return (
        f" (it has no data of its own, and comes from the list {' or '.join(groups)}: in an inventory file every list"
        " is a list of hosts, unless its name begins with _)"
    )


def ignored_defaults(state: State) -> str | None:
    """group_data/ is read where pyinfra is run and beside the inventory; an edited one elsewhere is passed over."""
    inventory = lock.inventory_file(state.inventory)
    read = [Path.cwd(), *([inventory.resolve().parent] if inventory else [])]
    asked = any(word.startswith("--group-data") for word in sys.argv)
    edited = page.GROUP_DATA.read_text("utf-8") != page.group_data()
    if asked or not edited or page.GROUP_DATA.parent in [folder / "group_data" for folder in read]:
        return None
    return (
        f"{page.GROUP_DATA} was edited, and pyinfra does not read it from {Path.cwd()}; run this in"
        f" {page.ROOT}, or add --group-data {page.GROUP_DATA.parent}"
    )


def the_lock(state: State) -> lock.Lock:
    """The one lock of this run. Raises LockError."""
    if not _locks:
        _locks.append(lock.Lock(lock.beside(state.inventory)))
    return _locks[0]


def resolved(wanted: Settings, known: lock.Lock) -> Wishes:
    """Raises CannotPin and LockError."""
    build = wanted.llama_cpp
    return Wishes(
        wanted,
        llama_cpp_pin.commit(build, known),
        model_pin.model(wanted.model, known, logger.info),
        source.patches(build.llama_patches, known.path.parent),
        source.page(wanted, known),
        wheels.toolkit(build, known),
        model_pin.locked(known),
    )
