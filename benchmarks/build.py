"""What a one-commit update costs the compiler, against a build from nothing: `make bench-build`. Needs root.

Method: one lab host with a compiler cache of its own, empty at first; the role builds b1000, then b1001, which differs
in one line. Counted is the CPU time of the compilers and linkers, by the kernel's process accounting on that host:
neither the clock nor what else the machine does matters.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.host import bench_host
from tests.lab.accounting import Processes, accounted
from tests.lab.deploying import deploy, target, write_inventory
from tests.lab.host import LabHost

BUILDS = {"b1000, from nothing": "b1000", "b1001, one line later": "b1001"}
OWN_CACHE = "mkdir -p ~/.config/ccache && echo 'cache_dir = /home/dev/bench-ccache' >~/.config/ccache/ccache.conf"


def main() -> int:
    """Print one table; exit status 1 when an update is less than 5 times cheaper."""
    with bench_host() as host, tempfile.TemporaryDirectory() as folder:
        host.sh(OWN_CACHE, user="dev")
        figures = {name: build(host, Path(folder), ref) for name, ref in BUILDS.items()}
    cold, update = (ran.compiler_seconds for ran, _ in figures.values())
    table = Table(title="compilers and linkers, as the role builds llama.cpp for the CPU and RPC")
    for column in ("release", "CPU s", "compilations", "wall s"):
        table.add_column(column, justify="right")
    for name, (ran, wall) in figures.items():
        table.add_row(name, f"{ran.compiler_seconds:.0f}", str(ran.runs.get("cc1plus", 0)), f"{wall:.0f}")
    Console().print(table)
    print(f"a one-line update costs the compiler {cold / max(update, 0.01):.0f} times less")
    return 0 if cold >= 5 * update else 1


def build(host: LabHost, folder: Path, ref: str) -> tuple[Processes, float]:
    """Deploy the roles that build; what ran on the host, and seconds by the clock."""
    inventory = write_inventory(folder, [target(host.name, llama_ref=ref, only=["packages", "llama_cpp"])])
    began = time.monotonic()
    with accounted(host) as ran:
        run = deploy(host.lab, inventory, "-y", seconds=3600)
    if run.code:
        sys.exit(run.text)
    return ran, time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
