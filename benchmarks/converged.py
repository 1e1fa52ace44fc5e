"""What a run costs on a host that is as wanted: `make bench`. Needs root; boots a lab host and deploys it first.

Method: one converged host; the probe alone, timed on the host; whole pyinfra runs by wall clock, the modes in turn so
that a busy moment hits all of them; remote commands by the host's own sshd. Medians and spreads over ROUNDS.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.host import bench_host
from roles import settings
from roles.lock import Lock
from roles.observation import program
from roles.overview import FRAGMENTS
from roles.overview.start import resolved
from tests.lab.deploying import Run, deploy, start, target, write_inventory
from tests.lab.host import LabHost
from tests.lab.inventory import entry

ROUNDS = 10
MODES = {"-y": ["-y"], "--dry": ["--dry"], "confirm": [], "-y --json": ["-y", "--json"]}


def main() -> int:
    """Print one table."""
    with bench_host() as host, tempfile.TemporaryDirectory() as folder:
        inventory = write_inventory(Path(folder), [target("bench")])
        first = deploy(host.lab, inventory, "-y", seconds=2400)
        if first.code:
            print(first.text, file=sys.stderr)
            return 1
        show(probe(host, inventory), runs(host, inventory))
    return 0


def probe(host: LabHost, inventory: Path) -> list[float]:
    """Seconds of the probe alone."""
    wishes = resolved(settings.of(entry(host)[1]), Lock(inventory.with_suffix(".lock.yml")))
    (host.root / "home/dev/probe.py").write_text(program(FRAGMENTS, wishes))
    script = 'python3 -c \'import subprocess, time; t = time.time(); subprocess.run(["python3", "-ISB", "probe.py"]'
    script += ", capture_output=True, check=True); print(time.time() - t)'"
    return [float(host.sh(script, user="dev").stdout) for _ in range(ROUNDS)]


def runs(host: LabHost, inventory: Path) -> dict[str, tuple[list[float], int]]:
    """Seconds of each run by mode, and remote commands of one."""
    seconds: dict[str, list[float]] = {mode: [] for mode in MODES}
    commands = dict.fromkeys(MODES, 0)
    for _ in range(ROUNDS):
        for mode, words in MODES.items():
            before, began = host.remote_commands(), time.monotonic()
            assert run(host, inventory, words).code == 0
            seconds[mode].append(time.monotonic() - began)
            commands[mode] = host.remote_commands() - before
    return {mode: (seconds[mode], commands[mode]) for mode in MODES}


def run(host: LabHost, inventory: Path, words: list[str]) -> Run:
    process = start(host.lab, inventory, *words, stdin=subprocess.PIPE)
    out, err = process.communicate("\n", timeout=120)
    return Run(process.returncode, out, err)


def show(alone: list[float], by_mode: dict[str, tuple[list[float], int]]) -> None:
    table = Table(title=f"a converged host, {ROUNDS} rounds")
    for column in ("what", "median s", "least s", "most s", "remote commands"):
        table.add_column(column)
    for name, (values, commands) in {"the probe alone": (alone, 1), **by_mode}.items():
        figures = (statistics.median(values), min(values), max(values))
        table.add_row(name, *(f"{value:.2f}" for value in figures), str(commands))
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
