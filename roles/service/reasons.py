"""Why a service must be (re)started, in words; and what stands in its way."""

from __future__ import annotations

import itertools
import re

from roles.host import HostSeen
from roles.model.observe import ModelSeen
from roles.service import sandbox
from roles.service.command import UNIT, words_of
from roles.service.directives import held, pairs
from roles.service.observe import ServiceSeen
from roles.service.options import is_option
from roles.service.unit import Unit
from roles.settings import Benchmark, Service


def reasons(unit: Unit, seen: ServiceSeen) -> list[str]:
    """Nothing where the service is as wanted."""
    if seen.unit is None and seen.elsewhere:
        return [f"start llama-server: {UNIT} is in the other manager, where it stops and is removed"]
    if seen.unit is None:
        return [f"start llama-server: {UNIT} is not on this host yet"]
    found = []
    if seen.unit != unit.text:
        found.append(f"restart llama-server: {changes(seen.unit, unit.text)}")
    if told := not_as_wanted_at_boot(unit, seen):
        found.append(told)
    if not seen.active:
        why = " (the kernel killed it, as it outgrew its cap: oom-kill)" if seen.shown("Result") == "oom-kill" else ""
        found.append(f"start llama-server: it is {seen.shown('ActiveState') or 'not loaded'}{why}")
    elif seen.running_stamp != unit.stamp and seen.unit == unit.text:
        found.append("restart llama-server: what runs is older than the unit on disk")
    elif seen.proved != unit.stamp and not found:
        found.append("restart llama-server: the run that started it did not see it answer")
    # The user's own drop-in may say otherwise, and has the last word.
    own = f"/{UNIT}.d/" in seen.shown("DropInPaths")
    for name, value in {} if own or found else held(unit.text).items():
        if seen.shown(name) != value and not found:
            found.append(f"{name} is {seen.shown(name) or 'unknown to this systemd'} and not {value}")
    if seen.elsewhere and not found:
        found.append(f"{UNIT} is in the other manager too, which gives way")
    if seen.shown("NeedDaemonReload") == "yes" and not found:
        found.append("systemd has not loaded the unit as it is on disk")
    if found and seen.switch and seen.switch.why and seen.switch.stamp == unit.stamp:
        found[0] += f" (the last time: {seen.switch.why})"
    return found


def taken_back(unit: Unit, seen: ServiceSeen, benchmark: Benchmark) -> str | None:
    """Why what is wanted was measured and is not taken again, as long as what ran before it does run."""
    if benchmark.benchmark_on_regression != "rollback" or not seen.active or seen.running_stamp == unit.stamp:
        return None
    return seen.rejected.get(unit.stamp)


def not_as_wanted_at_boot(unit: Unit, seen: ServiceSeen) -> str | None:
    """Whether it starts at boot as the inventory says; what somebody disabled stays disabled."""
    enabled = seen.shown("UnitFileState") == "enabled"
    if enabled == unit.autostart or (unit.autostart and disabled_by_hand(seen)):
        return None
    return f"{UNIT} is not enabled" if unit.autostart else f"{UNIT} is enabled, and service_autostart is False"


def changes(old: str, new: str) -> str:
    """The options that differ, as `-c 65536 -> 122880`; the model's change where none does."""
    before, after = options(old), options(new)
    if "UnsetEnvironment" not in after:  # a release that is still to be built has not told its variables
        before.pop("UnsetEnvironment", None)
    if (was := sandbox.told(old)) != (becomes := sandbox.told(new)):
        before, after = ({k: v for k, v in each.items() if k not in sandbox.NAMES} for each in (before, after))
        before["sandbox"], after["sandbox"] = was.removeprefix("sandbox: "), becomes.removeprefix("sandbox: ")
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    told = [f"{name} {before.get(name, 'absent')} -> {after.get(name, 'absent')}" for name in changed]
    return ", ".join(told) or "another model file"


def options(text: str) -> dict[str, str]:
    """The options and limits in a unit file."""
    start = next((line for line in text.splitlines() if line.startswith("ExecStart=")), "")
    words = words_of(start)
    found = {
        word: "set" if is_option(following) else following
        for word, following in itertools.zip_longest(words, words[1:], fillvalue="")
        if is_option(word)
    }
    for name, value in pairs(text):
        if name == "UnsetEnvironment":
            found[name] = f"{len(value.split()) + int(found.get(name, '0').split()[0])} names"
        elif name == "ExecStartPre" and " wait-device " in value:  # without the paths, which are told as the release
            seconds, _, *devices = value.partition(" wait-device ")[2].split()
            found["wait-device"] = f"{' '.join(devices)} ({seconds} s)"
        elif name not in ("ExecStart", "Description", "Environment"):
            found[name] = value
    release = re.search(r"/releases/([^/]+)/bin/", start)
    return {**found, "release": release[1] if release else "another"}


def stopped_by_hand(seen: ServiceSeen) -> bool:
    """Somebody stopped, disabled or masked it: the unit is ours and once answered, and is inactive without a failure.

    systemd forgets when a disabled unit was last active, so that one is known by having been proved.
    """
    if seen.masked:
        return True
    if seen.unit is None or seen.shown("ActiveState") != "inactive" or seen.shown("Result") != "success":
        return False
    since = seen.shown("InactiveEnterTimestampMonotonic")
    if seen.switch and seen.switch.stopped and seen.switch.stopped == since:
        return False  # paddock-switch did, as it did not pass
    return since not in ("", "0") or disabled_by_hand(seen)


def disabled_by_hand(seen: ServiceSeen) -> bool:
    """Every unit that once answered was enabled, where service_autostart is not False."""
    proved = bool(seen.unit and seen.proved and f"PADDOCK_STAMP={seen.proved}\n" in seen.unit)
    return proved and seen.shown("UnitFileState") == "disabled"


def refused(wanted: Service, seen: ServiceSeen, host: HostSeen) -> str | None:
    """What of the host stands in the service's way: asked before anything is changed, and again before it starts."""
    if wanted.memory_cap_required is True and (why := uncapped(wanted, host)):
        return f"{why}; boot with cgroup v2, or set memory_cap_required='warn'"
    return privileged_port(wanted, seen, host) or bad_key_file(wanted, seen, host) or stolen_port(wanted, seen)


def stolen_port(wanted: Service, seen: ServiceSeen) -> str | None:
    """The sentence about a port that is somebody else's."""
    holder = seen.port_holder
    if seen.elsewhere and (holder is None or holder.name == "llama-server"):
        return None  # it gives way
    if not seen.port_taken or (holder and holder.pid == seen.main_pid):
        return None
    who = f"{holder.name} (pid {holder.pid})" if holder else f"a process of {seen.port_owner or 'another user'}"
    return f"port={wanted.port} is taken by {who}; stop it, or set another port"


def unfit_model(wanted: Service, model: ModelSeen) -> str | None:
    """The sentence about settings that this model cannot have. Nothing is known of one that is still to come."""
    name = model.path.rsplit("/", 1)[-1]
    if model.trained_context and wanted.context > model.trained_context:
        return f"context={wanted.context} is more than the {model.trained_context} tokens that {name} was trained for"
    if model.mla and wanted.cache_type_k != wanted.cache_type_v:
        return (
            f"cache_type_k={wanted.cache_type_k!r} with cache_type_v={wanted.cache_type_v!r}: {name} has compressed"
            " attention (MLA), and llama.cpp wants equal types for it"
        )
    return None


def privileged_port(wanted: Service, seen: ServiceSeen, host: HostSeen) -> str | None:
    """The sentence about a port that only root may open."""
    if wanted.port >= seen.first_port or host.uid == 0:
        return None
    return f"port={wanted.port} may be opened by root only; take one from {seen.first_port} up"


def bad_key_file(wanted: Service, seen: ServiceSeen, host: HostSeen) -> str | None:
    """The sentence about API keys that the server could not read, or that others can."""
    if wanted.api_key_file is None:
        return None
    file, name = seen.key_file, f"api_key_file={wanted.api_key_file!r}"
    if file is not None and (file.uid != host.uid or file.mode & 0o077):
        return f"{name} belongs to another user or can be read by others; it must be {host.user}'s own with mode 0600"
    if file is None:
        return f"{name} does not exist on the host"
    if file.kind != "file" or file.keys == 0:
        return f"{name} is not a file with a key in it that can be used; write one, without quotes, with mode 0600"
    return None


def uncapped(wanted: Service, host: HostSeen) -> str | None:
    """The sentence about a cap that systemd accepts and the kernel would not enforce."""
    if wanted.service_scope == "system":
        told = "the memory controller is not systemd's here, so MemoryMax would be accepted and not enforced"
        return None if host.system_capped else told
    if not host.user_manager or host.memory_capped:
        return None
    return (
        f"the memory controller is not delegated to {host.user}'s systemd manager, so MemoryMax would be accepted and"
        " not enforced"
    )
