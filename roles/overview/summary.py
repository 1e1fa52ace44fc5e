"""What a host serves, where, and within which cap: what runs, not what is wished."""

from __future__ import annotations

import re

from roles.benchmark import table
from roles.benchmark.observe import BENCHMARK
from roles.host import HOST
from roles.llama_cpp.cuda import CannotBuild
from roles.observation import Observation
from roles.service import reasons
from roles.service.command import BENCHMARK as BENCHMARK_UNIT
from roles.service.command import UNIT
from roles.service.observe import SERVICE, ServiceSeen
from roles.service.unit import url, wanted_unit
from roles.wishes import Wishes

MEASURING = (
    f"a benchmark is under way there: {BENCHMARK_UNIT}; the command that began it rejoins it, and what stops it is"
    f" `systemctl --user stop {BENCHMARK_UNIT}`"
)


def summary(wishes: Wishes, seen: Observation) -> str:
    """One line about the service."""
    unit = seen[SERVICE]
    if not unit.active:
        found = watched(unit)
        return f"{UNIT} is {unit.shown('ActiveState') or 'not there'}" + (f"; {found}" if found else "")
    if not unit.port_taken or (unit.port_holder and unit.port_holder.pid != unit.main_pid):
        return f"{UNIT} is active, but does not listen at {url(wishes.settings.service)}"
    told = reasons.options(unit.unit or "")
    model = told.get("-m", "a model").rsplit("/", 1)[-1]
    release = re.split("-", told.get("release", ""))[0]
    cap = f"{int(held) >> 20} MiB" if (held := unit.shown("MemoryMax")).isdigit() else "nothing"
    uncapped = reasons.uncapped(wishes.settings.service, seen[HOST])
    told_cap = f"its cap of {cap} not enforced here" if uncapped else f"capped at {cap}"
    last = seen[BENCHMARK].last
    figures = f"; {table.line(last)}" if last and last.stamp == unit.running_stamp else ""
    line = f"serving {model} at {url(wishes.settings.service)} with llama.cpp {release}, {told_cap}{figures}"
    try:
        same = unit.running_stamp == wanted_unit(wishes, seen).stamp
    except CannotBuild:
        same = False
    line += f"; {found}" if (found := watched(unit)) else ""
    line += f"; {MEASURING}" if unit.measuring else ""
    return line if same else f"{line}; this is not what the inventory wants"


def watched(unit: ServiceSeen) -> str:
    """What the watchdog found last of the service that is there; nothing where all was well."""
    found = unit.watchdog
    return f"the watchdog: {found.said}" if found and found.said and found.stamp == unit.proved else ""
