"""What a host serves, where, and within which cap: what runs, not what is wished."""

from __future__ import annotations

import re

from roles.benchmark import table
from roles.benchmark.observe import BENCHMARK
from roles.host import HOST
from roles.llama_cpp.cuda import CannotBuild
from roles.observation import Observation
from roles.service.command import UNIT
from roles.service.observe import SERVICE
from roles.service.reasons import options
from roles.service.unit import url, wanted_unit
from roles.wishes import Wishes


def summary(wishes: Wishes, seen: Observation) -> str:
    """One line about the service."""
    unit = seen[SERVICE]
    if not unit.active:
        return f"{UNIT} is {unit.shown('ActiveState') or 'not there'}"
    if not unit.port_taken or (unit.port_holder and unit.port_holder.pid != unit.main_pid):
        return f"{UNIT} is active, but does not listen at {url(wishes.settings.service)}"
    told = options(unit.unit or "")
    model = told.get("-m", "a model").rsplit("/", 1)[-1]
    release = re.split("-", told.get("release", ""))[0]
    cap = f"{int(held) >> 20} MiB" if (held := unit.shown("MemoryMax")).isdigit() else "nothing"
    told_cap = f"capped at {cap}" if seen[HOST].memory_capped else f"its cap of {cap} not enforced here"
    last = seen[BENCHMARK].last
    figures = f"; {table.line(last)}" if last and last.stamp == unit.running_stamp else ""
    line = f"serving {model} at {url(wishes.settings.service)} with llama.cpp {release}, {told_cap}{figures}"
    try:
        same = unit.running_stamp == wanted_unit(wishes, seen).stamp
    except CannotBuild:
        same = False
    return line if same else f"{line}; this is not what the inventory wants"
