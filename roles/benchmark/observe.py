"""The last figures in the host's history."""

from __future__ import annotations

from typing import Any

from roles.observation import Fragment, Seen
from roles.probe_tools import read_end

HISTORY = "~/.local/share/paddock/benchmarks.jsonl"


def look_at_benchmark(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import json
    import os

    last = None
    for line in read_end(os.path.expanduser(ask["history"]), 1 << 20).splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # a writer was killed in the middle of this line
        if isinstance(entry, dict) and entry.get("schema") == 1:
            last = entry
    return {"last": last}


class Row(Seen):
    """Tokens per second at a depth: reading the prompt (pp; None on an empty context) and generating (tg)."""

    n_depth: int
    pp: float | None
    tg: float


class Result(Seen):
    """One run. `stamp` is that of the process measured."""

    time: str
    stamp: str
    config: str
    tokens: int
    driver: str | None = None
    kernel: str = ""
    rows: tuple[Row, ...]
    peak_vram_mib: int | None
    peak_ram_bytes: int

    @property
    def depths(self) -> tuple[int, ...]:
        return tuple(row.n_depth for row in self.rows)


class BenchmarkSeen(Seen):
    last: Result | None


BENCHMARK = Fragment(
    "benchmark", look_at_benchmark, lambda _: {"history": HISTORY}, BenchmarkSeen, BenchmarkSeen(last=None)
)
