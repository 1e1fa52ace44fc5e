"""What needs to see all roles: the start of a run, the preflight, and how it ended."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

from pyinfra.api import Host, State, operation
from pyinfra.api.command import PyinfraCommand

from roles import lock, observation, remote, settings, trouble
from roles.benchmark import table
from roles.benchmark.observe import BENCHMARK
from roles.browser import decide as browser
from roles.browser.observe import BROWSER
from roles.host import HOST, HostSeen
from roles.llama_cpp import pin as llama_cpp_pin
from roles.llama_cpp.observe import LLAMA_CPP
from roles.model import pin as model_pin
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.operation import Decision, converge
from roles.packages import decide as packages
from roles.service import decide as service
from roles.service.command import UNIT
from roles.service.observe import SERVICE
from roles.settings import Settings
from roles.wishes import Wishes

FRAGMENTS = (HOST, LLAMA_CPP, MODEL, BROWSER, SERVICE, BENCHMARK)
_checked: list[State] = []
_locks: list[lock.Lock] = []


def begin() -> Wishes | None:
    """Check every host's settings, resolve this host's pins, say what the probe reads. None: the host is out."""
    state, host = observation.context()
    trouble.watch(state)
    if state not in _checked:
        _checked.append(state)
        check_all(state)
    try:
        wishes = resolved(settings.of(data_of(host)), the_lock(state))
    except (llama_cpp_pin.CannotPin, model_pin.CannotPin) as error:
        trouble.failed(host, str(error))
        state.failed_hosts.add(host)
        state.active_hosts.discard(host)
        return None
    observation.require(FRAGMENTS, wishes)
    return wishes


def data_of(host: Host) -> dict[str, Any]:
    """A host's data, from every place that pyinfra takes it from."""
    return dict(host.data.dict())  # type: ignore[no-untyped-call]


def check_all(state: State) -> None:
    """All that is wrong with any host's data, in one go and before any command; ends the run where anything is."""
    found = [f"{host.name}: {problem}" for host in state.inventory for problem in settings.errors(data_of(host))]
    if "@local" in {host.name for host in state.inventory} and os.geteuid() == 0 and os.environ.get("SUDO_USER"):
        found.append("@local: run this as yourself and not with sudo, or everything would be root's; root is asked for")
    try:
        the_lock(state)
    except lock.LockError as error:
        found.append(str(error))
    if found:
        trouble.refuse_all(found)


def the_lock(state: State) -> lock.Lock:
    """The one lock of this run. Raises LockError."""
    if not _locks:
        _locks.append(lock.Lock(lock.beside(state.inventory)))
    return _locks[0]


def resolved(wanted: Settings, known: lock.Lock) -> Wishes:
    """Raises CannotPin."""
    return Wishes(wanted, llama_cpp_pin.commit(wanted.llama_cpp, known), model_pin.model(wanted.model, known))


@operation()
def checked(wishes: Wishes) -> Generator[PyinfraCommand]:
    """Nothing about the host stands in the way: judged before any role has changed anything."""
    state, _ = observation.context()
    if state.is_executing:
        the_lock(state).save()

    def decide(seen: Observation) -> Decision:
        if seen[HOST].root == "password" and needs_root(wishes, seen):
            remote.ask_password()
        return preflight(wishes, seen)

    yield from converge(decide)


@operation()
def ended(wishes: Wishes) -> Generator[PyinfraCommand]:
    """The run's last line for this host says what it serves. Changes nothing."""
    state, host = observation.context()

    def decide(seen: Observation) -> Decision:
        if state.is_executing:
            trouble.last_word(host, summary(wishes, seen))
        return Decision(seen)

    yield from converge(decide)


def needs_root(wishes: Wishes, seen: Observation) -> bool:
    """Whether anything that is due needs root."""
    due = [
        packages.installed(wishes.settings.llama_cpp, True, seen),
        browser.policy_set(wishes.settings.browser, True, seen),
        service.lingering(True, seen),
    ]
    return any(step.script.root for decision in due for step in decision.steps)


def preflight(wishes: Wishes, seen: Observation) -> Decision:
    """Refuse the host, or say what will not be as one might think."""
    host, wanted = seen[HOST], wishes.settings.service
    left_out = None
    refusal = _unfit(host) or service.stolen_port(wanted, seen[SERVICE])
    cap = service.memory_max(wanted, host)
    if refusal is None and cap > host.memory_total:
        refusal = (
            f"service_memory_max={wanted.service_memory_max} is more than the {host.memory_total >> 20} MiB of RAM"
        )
    if host.user_manager and not host.memory_capped:
        uncapped = (
            f"the memory controller is not delegated to {host.user}'s systemd manager, so MemoryMax would be accepted"
            " and not enforced"
        )
        if wanted.memory_cap_required is True:
            refusal = refusal or f"{uncapped}; boot with cgroup v2, or set memory_cap_required='warn'"
        elif wanted.memory_cap_required == "warn":
            left_out = uncapped
    return Decision(seen, refusal=refusal, left_out=left_out)


def _unfit(host: HostSeen) -> str | None:
    if not host.systemd:
        return "systemd does not run this host, and the service is a systemd unit"
    return None


def summary(wishes: Wishes, seen: Observation) -> str:
    """What the host serves, where, and within which cap."""
    unit = seen[SERVICE]
    if not unit.active:
        return f"{UNIT} is {unit.shown('ActiveState') or 'not there'}"
    model = seen[MODEL].path.rsplit("/", 1)[-1]
    cap = f"capped at {int(held) >> 20} MiB" if (held := unit.shown("MemoryMax")).isdigit() else "without a cap"
    release = f"llama.cpp {wishes.commit[:9]}"
    last = seen[BENCHMARK].last
    figures = f"; {table.line(last)}" if last and last.stamp == unit.running_stamp else ""
    return f"serving {model} at {service.url(wishes.settings.service)} with {release}, {cap}{figures}"
