"""Runs on the host: the thread that samples while llama-server is measured, and stops the run short of the cap."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from roles.benchmark.sampler_program import PACE, Gpu, Process, Series, busy, cpu_mhz, pairs, read

FRESH = 3.0  # seconds after which nvidia-smi's last word counts no more
NEAR = 0.95  # of the cap: beyond it the run is stopped, before the kernel stops the service
SAY = 5.0  # seconds between two lines of progress
MIB = 1 << 20
PAGE = 4096  # bytes; /proc/vmstat counts pages
PEAKS = {
    "ram": "peak_ram_bytes",
    "peak": "peak_ram_bytes",
    "current": "peak_current_bytes",
    "anon": "peak_anon_bytes",
    "file": "peak_file_bytes",
    "swap": "peak_swap_bytes",
}


class Watch(threading.Thread):
    """`before`: what an interrupted run had seen. `stop` is called as long as the cap is near."""

    def __init__(self, process: Process, before: dict[str, Any], stop: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.process, self.stop, self.over = process, stop, threading.Event()
        self.began: float = time.monotonic() - before.get("duration", 0.0)
        self.seen: dict[str, Any] = before.get("resources", {"samples": 0, "phases": []})
        self.counts: dict[str, Any] = before.get("counts", {"card": 0, "reasons": {}, "others": []})
        self.series = Series(before.get("series", {}))
        self.gpu = Gpu()
        self.first: dict[str, float | None] = {}
        self.worked: tuple[float, float, float] | None = None
        self.near: str | None = None
        self.took: float | None = None
        self.what, self.until, self.said = "the warm-up", time.monotonic(), time.monotonic()

    @property
    def duration(self) -> float:
        """Seconds of measuring, those of an interrupted run included."""
        return time.monotonic() - self.began if self.took is None else self.took

    def phase(self, what: str, n_depth: int) -> None:
        """What the samples from now on are of."""
        self.seen["phases"].append({"second": round(self.duration, 1), "what": what, "n_depth": n_depth})

    def progress(self, what: str, left: float) -> None:
        """What to say now and then; `left` in seconds."""
        self.what, self.until, self.said = what, time.monotonic() + left, 0.0

    def run(self) -> None:
        while not self.over.wait(PACE):
            self.look()
            now = time.monotonic()
            if now - self.said > SAY:
                self.said = now
                sys.stdout.write(self.line(self.until - now) + "\n")
                sys.stdout.flush()

    def line(self, left: float) -> str:
        """What is under way, and how long for, where that is known: no estimate counts once it has passed."""
        minutes, seconds = divmod(int(max(left, 0)), 60)
        return f"{self.what}, about {minutes}:{seconds:02d} left" if minutes or seconds else self.what

    def look(self) -> None:
        memory = self.process.memory()
        values: dict[str, float | None] = {**self.of_gpu(), "cpu_mhz": cpu_mhz()}
        for name in ("ram", "current", "anon", "file", "swap"):
            held = memory[name]
            values[name + "_mib"] = None if held is None else held / MIB
        for name, kept in PEAKS.items():
            self.peak(kept, memory[name])
        self.peak("peak_vram_mib", values["vram_mib"])
        self.peak("peak_vram_others_mib", values["vram_others_mib"])
        self.of_others(time.monotonic(), busy(self.process.workers))
        values["io_pressure"], stalled = self.process.stalled()
        system = pairs(read("/proc/vmstat"))
        swapped = float(PAGE * (system.get("pswpin", 0) + system.get("pswpout", 0)))
        self.grown("refaults", memory["refaults"])
        self.grown("io_stalled", stalled)
        self.grown("host_swap_bytes", swapped)
        values["refaults"] = self.seen.get("refaults")
        self.seen["samples"] += 1
        self.series.add(self.duration, values)
        held, limit = memory["held"] or 0, self.process.limit
        if limit and held > NEAR * limit:
            told = f"llama-server held {int(held) // MIB} of the {limit // MIB} MiB that its unit may take"
            self.near = self.near or told
            self.stop()  # each time: what is under way may be another request of the same pass by now

    def of_others(self, now: float, worked: tuple[float, float] | None) -> None:
        """How long was watched, and the processor seconds of it, on all processors together: in all, and others'."""
        if worked and self.worked:
            then, machine, server = self.worked
            whole, own = worked[0] - machine, worked[1] - server
            for name, seconds in {"watched": now - then, "worked": whole, "others_worked": whole - own}.items():
                self.counts[name] = self.counts.get(name, 0.0) + seconds
        self.worked = (now, *worked) if worked else None

    def of_gpu(self) -> dict[str, float | None]:
        """The server's VRAM, and what others hold of all cards; clocks and so on of the card that the server is on."""
        now = time.monotonic()
        # Copies: nvidia-smi's readers add to them meanwhile.
        cards = {uuid: told for uuid, told in self.gpu.cards.copy().items() if now - told[0] < FRESH}
        rows = {key: told for key, told in self.gpu.processes.copy().items() if now - told[0] < FRESH}
        ours = {uuid: used for (uuid, pid), (_, used, _) in rows.items() if pid == self.process.pid}
        known = [used for used in ours.values() if used is not None]
        used = sum(told[1][5] or 0 for told in cards.values())
        mine = next((cards[uuid] for uuid in ours if uuid in cards), next(iter(cards.values()), None))
        clock, heat, power, gen, width = mine[1][:5] if mine else [None] * 5
        if mine:
            self.counts["card"] += 1
            for bit in range(9):
                if mine[2] >> bit & 1:
                    self.counts["reasons"][str(1 << bit)] = self.counts["reasons"].get(str(1 << bit), 0) + 1
        for (_, pid), (_, _, name) in rows.items():
            if pid != self.process.pid and name not in self.counts["others"]:
                self.counts["others"].append(name)
        vram = sum(known) if known else None
        return {
            "vram_mib": vram,
            # The two were asked at different moments: what was allocated in between is nobody else's.
            "vram_others_mib": max(used - (vram or 0), 0) if cards else None,
            "gpu_clock_mhz": clock,
            "gpu_temperature_c": heat,
            "gpu_power_w": power,
            "pcie_gen": gen,
            "pcie_width": width,
        }

    def peak(self, name: str, value: float | None) -> None:
        if value is not None:
            self.seen[name] = max(int(value), self.seen.get(name) or 0)

    def grown(self, name: str, total: float | None) -> None:
        """How much a counter of the kernel's has grown meanwhile; one that began anew counts from there."""
        last = self.first.get(name)
        self.first[name] = total
        if total is not None and last is not None and total >= last:
            self.seen[name] = self.seen.get(name, 0) + total - last

    def state(self) -> dict[str, Any]:
        """What an interrupted run goes on with."""
        series = {"seconds": self.series.seconds, "series": self.series.values, "stride": self.series.stride}
        return {"duration": self.duration, "resources": self.seen, "counts": self.counts, "series": series}

    def resources(self) -> dict[str, Any]:
        """As the record has them."""
        told: dict[str, Any] = {**self.seen, "memory_max_bytes": self.process.limit}
        for name in ("refaults", "host_swap_bytes"):
            if name in told:
                told[name] = int(told[name])
        known = {name: each for name, each in self.series.values.items() if any(value is not None for value in each)}
        return {**told, "seconds": self.series.seconds, "series": known}

    def end(self) -> None:
        self.over.set()
        self.join(15)
        self.took = self.duration
        self.look()  # a peak at the very end, and a run that is shorter than two samples
        self.gpu.end()
