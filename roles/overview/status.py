"""The table of a fleet: `pyinfra -y INVENTORY roles.overview.status`. One probe per host, and nothing is changed."""

from __future__ import annotations

import atexit

from rich.console import Console
from rich.table import Table

from roles import observation
from roles.benchmark import table as benchmark
from roles.benchmark.observe import BENCHMARK
from roles.gpu.classify import classify
from roles.gpu.observe import GPU
from roles.machine import MACHINE
from roles.observation import Observation, Unreadable
from roles.overview import start
from roles.overview.preflight import preflight, verdict
from roles.service.observe import SERVICE
from roles.service.reasons import options
from roles.wishes import Wishes

COLUMNS = ("Host", "Kernel", "GPU", "VRAM", "Release", "Model", "Service", "Memory", "Benchmark", "A deploy would")
_rows: dict[str, tuple[str, ...]] = {}


def status() -> None:
    """One row for this host; the table is printed when pyinfra ends."""
    state, host = observation.context()
    wishes = start.begin()
    if not _rows:
        atexit.register(show, [each.name for each in state.inventory if state.is_host_in_limit(each)])
    _rows[host.name] = ("", *["-"] * (len(COLUMNS) - 2))
    if wishes is not None:
        try:
            _rows[host.name] = row(wishes, observation.read())
        except Unreadable as error:
            _rows[host.name] = (*["-"] * (len(COLUMNS) - 2), f"refuse it: {error}")


def row(wishes: Wishes, seen: Observation) -> tuple[str, ...]:
    """The cells of a host, without its name."""
    nvidia, service, last = classify(seen[GPU]), seen[SERVICE], seen[BENCHMARK].last
    told = options(service.unit or "")
    refusal = preflight(wishes, seen).refusal
    return (
        seen[MACHINE].kernel,
        f"{', '.join(gpu.name for gpu in nvidia.gpus)}, driver {nvidia.driver}" if nvidia.gpus else nvidia.state,
        vram(seen),
        told.get("release", "none"),
        told.get("-m", "none").rsplit("/", 1)[-1],
        f"{service.shown('ActiveState') or 'absent'}, {service.shown('NRestarts') or 0} restarts",
        memory(seen),
        benchmark.line(last) if last and last.stamp == service.running_stamp else "none of what runs",
        f"refuse it: {refusal}" if refusal else str(verdict(wishes, seen)),
    )


def vram(seen: Observation) -> str:
    """Used of total in MiB, and by whom."""
    nvidia = classify(seen[GPU])
    cards = [f"{gpu.memory_used} of {gpu.memory_total} MiB" for gpu in nvidia.gpus]
    holders = [f"{holder.name.rsplit('/', 1)[-1].split(' ')[0]} {holder.used}" for holder in nvidia.holders[:3]]
    return ", ".join(cards + holders) or "-"


def memory(seen: Observation) -> str:
    """Now, at most, and the cap, in MiB."""
    values = [seen[SERVICE].shown(name) for name in ("MemoryCurrent", "MemoryPeak", "MemoryMax")]
    return " / ".join(f"{int(value) >> 20}" if value.isdigit() else "?" for value in values) + " MiB"


def show(names: list[str]) -> None:
    """All hosts of the run, those that could not be reached too."""
    table = Table(title="now / peak / cap for memory; VRAM with those who hold most", title_justify="left")
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for name in names:
        table.add_row(name, *_rows.get(name, ("unreachable", *["-"] * (len(COLUMNS) - 2))))
    Console(stderr=True, highlight=False).print(table)
