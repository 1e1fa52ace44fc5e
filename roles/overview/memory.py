"""When the table of the memory plan is shown, and what the last benchmark measured beside it."""

from __future__ import annotations

import contextlib

from pyinfra.api import Host, State

from roles import claim
from roles.benchmark.observe import BENCHMARK
from roles.llama_cpp.cuda import CannotBuild
from roles.memory import table
from roles.memory.ram import MIB
from roles.memory.table import NOTHING, Measured
from roles.observation import Observation
from roles.service.observe import SERVICE
from roles.wishes import Wishes


def measured(seen: Observation) -> Measured:
    """The peaks of what is served, where it is what was measured last. The kernel's own peak (memory.peak) goes first,
    which newer versions of systemd tell; then what the benchmark saw of the unit, or else of the process."""
    last, peak = seen[BENCHMARK].last, seen[SERVICE].shown("MemoryPeak")
    if last is None or last.stamp != seen[SERVICE].running_stamp:
        return NOTHING
    took, anonymous = last.resources, last.resources.peak_anon_bytes
    ram = int(peak) if peak.isdigit() else took.peak_current_bytes or took.peak_ram_bytes
    return Measured(took.peak_vram_mib, ram // MIB if ram else None, anonymous // MIB if anonymous else None)


def show(state: State, host: Host, wishes: Wishes, seen: Observation) -> None:
    """With the plan of a run that waits for a word or is dry, and at the end of one that has changed the host."""
    if claim.held(host) or not state.is_executing:
        with contextlib.suppress(CannotBuild):  # told by the roles
            table.show(table.of_host(host.name, wishes, seen, measured(seen)))
