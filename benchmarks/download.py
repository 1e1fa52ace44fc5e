"""What Paddock's download costs beside curl and sha256sum: `make bench-download`. Needs root; boots a lab host.

Method: the real 253 MB Gemma from the lab's Hub, to the disk of one host: the download's own unit, from its start to
its exit status, with the memory of its processes sampled; and `curl` then `sha256sum` as plain commands. In turn, so
that a busy moment hits both. Medians and spreads over ROUNDS.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from roles import job
from roles.job import Job
from roles.model import decide
from roles.remote import command, stdin
from tests.lab import models
from tests.lab.common import DEPLOY_LAB, processes, the_lab
from tests.lab.host import LabHost, boot, down
from tests.lab.hub import Hub
from tests.lab.hub.__main__ import repositories

ROUNDS = 7
FOLDER = "/home/dev/bench"


def main() -> int:
    """Print one table; 1 where the download takes more than 1.1 times the plain way, or 100 MB of memory."""
    os.environ.update(DEPLOY_LAB)  # the lab of the tests, which goes away whole: beside a demo on this machine
    lab = the_lab()
    host = boot("bench", lab=lab)
    host.sh("apt-get update -qq && apt-get install -qq -y curl >/dev/null && loginctl enable-linger dev", timeout=300)
    with Hub(repositories(), (lab.gateway, 8010), (lab.cdn, 8011)) as hub:
        try:
            plain, ours, memory = [], [], []
            for _ in range(ROUNDS):
                plain.append(by_hand(host, hub))
                seconds, most = by_paddock(host, hub)
                ours.append(seconds)
                memory.append(most)
        finally:
            down()
    show(plain, ours, memory)
    return int(statistics.median(ours) > 1.1 * statistics.median(plain) or max(memory) > 100e6)


def url(hub: Hub) -> str:
    commit = hub.repo("paddock/gemma-270m").branches["main"]
    return f"{hub.url}/paddock/gemma-270m/resolve/{commit}/{models.GEMMA_FILE}"


def by_hand(host: LabHost, hub: Hub) -> float:
    """Seconds of curl, then sha256sum, to the same disk."""
    fetch = f"rm -rf {FOLDER}; mkdir {FOLDER}; cd {FOLDER}; sync; s=$(date +%s.%N)"
    fetch += f"; curl -sSfL -o a.gguf '{url(hub)}' && sha256sum a.gguf >sum; e=$(date +%s.%N); echo $s $e; cat sum"
    start, end, digest, _ = host.sh(fetch, user="dev", timeout=300).stdout.split()
    assert digest == models.GEMMA_SHA256
    return float(end) - float(start)


def by_paddock(host: LabHost, hub: Hub) -> tuple[float, float]:
    """Seconds of the unit, and the most memory that its processes held together, in bytes."""
    path, size = f"{FOLDER}/{models.GEMMA_FILE}", models.cached_gemma().stat().st_size
    told = {
        "files": [{"path": path, "size": size, "sha256": models.GEMMA_SHA256}],
        "revision": "bench",
        "source": "bench",
        "rate": 0,
        "again": False,
        "stall": decide.STALL,
        "pauses": decide.PAUSES,
    }
    secret = json.dumps({"token": "", "urls": [url(hub)]})
    wanted = Job("download", "bench", decide.DOWNLOAD, (json.dumps(told),), 600, 1 << 30, (path,), size, secret)
    script = job.follow(wanted)
    (host.root / "home/dev/follow.py").write_text(stdin(script))
    host.sh(f"rm -rf {FOLDER}; sync", user="dev")
    watch = Watch()
    watch.start()
    run = f"export XDG_RUNTIME_DIR=/run/user/1000; ( {command(script).get_raw_value()} ) <follow.py"
    host.sh(run, user="dev", timeout=300)
    watch.over.set()
    watch.join()
    # Its script is written right before the unit starts, its exit status right after it ends.
    times = host.sh("cd ~/.local/share/paddock/jobs; stat -c %.Y download.sh download.exit", user="dev").stdout.split()
    assert host.sh(f"sha256sum {path}").stdout.split()[0] == models.GEMMA_SHA256
    return float(times[1]) - float(times[0]), watch.most


class Watch(threading.Thread):
    """Samples the resident memory of the download's processes, from outside of the host."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.over, self.most = threading.Event(), 0.0

    def run(self) -> None:
        while not self.over.is_set():
            held = [resident(pid) for pid, argv in processes().items() if ours(argv)]
            self.most = max(self.most, sum(held))
            time.sleep(0.02)


def ours(argv: list[str]) -> bool:
    return argv[:3] == ["curl", "-q", "--config"] or argv[:3] == ["python3", "-ISB", "-"]


def resident(pid: int) -> float:
    """Bytes in memory, shared pages counted in full."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    except (OSError, IndexError):
        return 0


def show(plain: list[float], ours: list[float], memory: list[float]) -> None:
    table = Table(title=f"253 MB from the lab's Hub, {ROUNDS} rounds; memory at most {max(memory) / 1e6:.0f} MB")
    for column in ("what", "median s", "least s", "most s", "times curl + sha256sum"):
        table.add_column(column)
    base = statistics.median(plain)
    for name, values in {"curl, then sha256sum": plain, "paddock-download": ours}.items():
        middle = statistics.median(values)
        row = (f"{middle:.2f}", f"{min(values):.2f}", f"{max(values):.2f}", f"{middle / base:.2f}")
        table.add_row(name, *row)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
