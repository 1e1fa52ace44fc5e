"""Whether the benchmark's runner tells what llama-bench tells: `make bench-truth`. Needs root; boots a lab host.

Method: one lab host with the tiny MoE, split over two devices, then with Gemma; each a full run, and llama-bench of the
same release right after it, at the same depths, with the same options. Medians of ROUNDS passes and their extremes.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.host import bench_host
from roles.benchmark.record import Result, history
from tests.lab.deploying import deploy, target, write_inventory
from tests.lab.host import LabHost
from tests.lab.inventory import GEMMA

ROUNDS = 5
NEAR = 0.75, 1.33  # as often as two cores that others use too agree with themselves
SHARED: dict[str, Any] = {
    "context": 4096,
    "benchmark_tokens": 64,
    "benchmark_repetitions": ROUNDS,
    "benchmark_depths": [0, 512, 2048],
    "benchmark_llama_bench": True,
}
Compared = tuple[str, int, tuple[float, ...], tuple[float, ...]]


def main() -> int:
    """Print one table; 1 where a median of the runner is far from llama-bench's."""
    with bench_host() as host, tempfile.TemporaryDirectory() as folder:
        return shown_of(host, Path(folder))


def shown_of(host: LabHost, folder: Path) -> int:
    """The table of both models on one host."""
    table = Table(title=f"tokens per second, medians of {ROUNDS} (least to most)")
    for column in ("model", "figure", "depth", "runner", "llama-bench", "ratio"):
        table.add_column(column, justify="left" if column in ("model", "figure") else "right")
    far = False
    for name, changes in {"tiny MoE": SHARED, "Gemma 270M": {**SHARED, **GEMMA}}.items():
        for figure, depth, ours, theirs in compared(measured(host, folder, changes)):
            ratio = statistics.median(ours) / statistics.median(theirs)
            far = far or not NEAR[0] <= ratio <= NEAR[1]
            table.add_row(name, figure, str(depth), shown(ours), shown(theirs), f"{ratio:.2f}")
    Console(width=100).print(table)
    return int(far)


def measured(host: LabHost, folder: Path, changes: dict[str, Any]) -> Result:
    """A deploy without figures, then a full run."""
    for depths, to in (([], "deploy.py"), (changes["benchmark_depths"], "roles.benchmark.full")):
        inventory = write_inventory(folder, [target(host.name, **{**changes, "benchmark_depths": depths})])
        run = deploy(host.lab, inventory, "-y", seconds=3600, to=to)
        if run.code:
            sys.exit(run.text)
    lines = host.sh("cat ~/.local/share/paddock/benchmarks.jsonl", user="dev").stdout.splitlines()
    return history(lines)[-1]


def compared(result: Result) -> Iterator[Compared]:
    """Our figures beside the rows of llama-bench for the same thing."""
    rows = {
        (row["n_prompt"], row["n_gen"], row["n_depth"]): tuple(map(float, row["samples_ts"]))
        for row in result.llama_bench
    }
    for row in result.rows:
        if row.pp:
            yield "pp", row.n_depth, row.pp.samples_ts, rows[row.n_depth, 0, 0]
        if row.pp_at:
            yield "pp at", row.n_depth, row.pp_at.samples_ts, rows[result.n_ubatch, 0, row.n_depth]
        yield "tg", row.n_depth, row.tg.samples_ts, rows[0, result.tokens, row.n_depth]


def shown(samples: tuple[float, ...]) -> str:
    return f"{statistics.median(samples):.4g} ({min(samples):.4g} to {max(samples):.4g})"


if __name__ == "__main__":
    sys.exit(main())
