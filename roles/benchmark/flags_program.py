"""Runs on the host: why the figures of a run may not be trusted. Pure: what was seen in, flags out."""

from __future__ import annotations

import glob
import os
import statistics
from typing import Any

from roles.benchmark.sampler_program import read

SPREAD = 0.10  # of the median: samples further apart than that are few for a verdict
DROP = 0.85  # of the clock at the start
LATE = 0.05, 0.25  # a share of the server's own time, and seconds: more than both is a disagreement
OFTEN = 0.05  # of all samples
OTHERS = 0.5, 0.1  # processors that others keep busy, and a share of the cores: more than both is a doubt
FULL = 0.9  # of the cores: where fewer are busy, nobody waits for one. llama.cpp's threads wait for the slowest of them
REFAULTS = 256 << 20  # bytes
# NVML's nvmlClocksEventReasons: what slows a card down against its will.
SLOWED_BY = {0x8: "hardware slowdown", 0x20: "heat", 0x40: "heat", 0x80: "a power brake"}


def flag(name: str, why: str) -> dict[str, str]:
    return {"flag": name, "why": why}


def on_battery(root: str = "/sys/class/power_supply") -> bool:
    """Whether a battery of this machine's own is being emptied."""
    for folder in glob.glob(root + "/*"):
        own = read(folder + "/scope").strip() != "Device"
        if own and read(folder + "/type").strip() == "Battery" and read(folder + "/status").strip() == "Discharging":
            return True
    return False


def of_machine(resources: dict[str, Any], counts: dict[str, Any], quota: str | None, battery: bool) -> list[Any]:
    """What the samples tell."""
    found = [flag("battery", "the machine ran on its battery")] if battery else []
    if quota:
        found.append(flag("cpu_quota", f"the unit may use {quota} of one processor (CPUQuota)"))
    swapped, other = resources.get("peak_swap_bytes") or 0, resources.get("host_swap_bytes") or 0
    if swapped or other > 10 << 20:
        told = f"{swapped >> 20} MiB of llama-server were in swap" if swapped >> 20 else "the machine swapped"
        found.append(flag("swap", told + (f"; {other >> 20} MiB went to swap or came from it" if other else "")))
    if (refaults := (resources.get("refaults") or 0) * 4096) > REFAULTS:
        found.append(flag("refaults", f"{refaults >> 20} MiB of the model were read from the disk again: RAM is short"))
    if others := counts["others"]:
        found.append(flag("other_gpu_process", "the GPU was shared with " + ", ".join(sorted(others)[:5])))
    found += other_work(counts, physical_cores())
    slowed = dict.fromkeys(SLOWED_BY.values(), 0)
    for bit, why in SLOWED_BY.items():
        slowed[why] = max(slowed[why], counts["reasons"].get(str(bit), 0))
    for why, times in slowed.items():
        if counts["card"] and times > OFTEN * counts["card"]:
            found.append(
                flag("throttled", f"{why} slowed the GPU down in {times * 100 // counts['card']} % of the time")
            )
    return found + clock_drops(resources)


def other_work(counts: dict[str, Any], cores: int) -> list[Any]:
    """Cores that the server had to share."""
    (least, share), watched = OTHERS, counts.get("watched", 0.0)
    others, whole = counts.get("others_worked", 0.0), counts.get("worked", 0.0)
    if others <= max(least, share * cores) * watched or whole <= FULL * cores * watched:
        return []
    told = f"others kept {others / watched:.1f} processors busy meanwhile, and none of {cores} cores was free"
    return [flag("other_cpu_work", told)]


def physical_cores(root: str = "/sys/devices/system/cpu") -> int:
    """As many threads as llama.cpp has by itself; two that share a core are no faster than one and a bit."""
    siblings = {read(path) for path in glob.glob(root + "/cpu[0-9]*/topology/thread_siblings_list")} - {""}
    return len(siblings) or os.cpu_count() or 1


def clock_drops(resources: dict[str, Any]) -> list[Any]:
    """Clocks at the end against those at the start, while the same was done: reading prompts."""
    found, phases = [], resources.get("phases", [])

    def reading(second: float) -> bool:
        now = [phase["what"] for phase in phases if phase["second"] <= second]
        return bool(now) and now[-1] == "pp"

    for name, what in {"gpu_clock_mhz": "the GPU's clock", "cpu_mhz": "the processor's clock"}.items():
        values = resources.get("series", {}).get(name, [])
        beside = zip(resources.get("seconds", []), values)  # noqa: B905 - strict= came with Python 3.10
        known = [value for second, value in beside if value and reading(second)]
        quarter = len(known) // 4
        if quarter >= 2:
            first, last = statistics.median(known[:quarter]), statistics.median(known[-quarter:])
            if last < DROP * first:
                found.append(flag("clock_drop", f"{what} fell from {first:.0f} to {last:.0f} MHz"))
    return found


def of_rows(rows: list[dict[str, Any]]) -> list[Any]:
    """Samples that are far apart."""
    found = []
    for row in rows:
        for name, figure in row.items():
            samples = figure["samples_ts"] if isinstance(figure, dict) and "samples_ts" in figure else []
            if len(samples) < 2 or not statistics.median(samples):
                continue
            spread = (max(samples) - min(samples)) / statistics.median(samples)
            if spread > SPREAD:
                where = f"{name} at {row['n_depth']}"
                told = f"{min(samples):.4g} to {max(samples):.4g} tokens per second"
                found.append(flag("wide_spread", f"{where}: {told}, {spread * 100:.0f} % apart"))
    return found


def late(disagreement: float, total: float, n_depth: int) -> Any:
    """Where our clock and the server's do not agree on one pass; seconds."""
    share, least = LATE
    if abs(disagreement) <= max(share * total, least):
        return None
    more = "more" if disagreement > 0 else "less"
    why = f"at {n_depth}: our clock saw {abs(disagreement):.1f} s {more} than the {total:.1f} s of the server's"
    return flag("wall_clock", why)
