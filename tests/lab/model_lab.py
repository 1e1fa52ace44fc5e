"""What the model's lab tests share: repositories of small real GGUFs, a deploy of the model alone, kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab import models, small_gguf
from tests.lab.common import Lab, run
from tests.lab.deploying import Run, deploy, start, target, write_inventory
from tests.lab.host import LabHost
from tests.lab.hub.repo import File, Repo
from tests.lab.hub.server import Hub

SMALL = "small-F32.gguf"
GEMMA = {"model_repo": "paddock/gemma-270m", "model_file": models.GEMMA_FILE}
ROOT = "/home/dev/.local/share/paddock/models"
PART = f"{ROOT}/paddock--gemma-270m/*/{models.GEMMA_FILE}.part"


def as_dev(host: LabHost, script: str, check: bool = True) -> str:
    return host.sh(f"export XDG_RUNTIME_DIR=/run/user/1000\n{script}", user="dev", check=check).stdout.strip()


@dataclass(frozen=True)
class Bench:
    """A deployed host, the Hub, and a folder with an inventory of its own."""

    lab: Lab
    host: LabHost
    hub: Hub
    folder: Path

    def write(self, **changes: Any) -> Path:
        return write_inventory(self.folder, [target(self.host.name, **{"model_file": SMALL, **changes})])

    def run(self, *words: str, **changes: Any) -> Run:
        """A deploy of the model alone."""
        return deploy(self.lab, self.write(**changes), "-y", "--data", "only=model", *words)

    def start(self, **changes: Any) -> subprocess.Popen[str]:
        return start(self.lab, self.write(**changes), "-y", "--data", "only=model")

    def repo(self, name: str, files: dict[str, Path | bytes] | None = None, gated: bool = False) -> Repo:
        """A new repository; by default with a small model that no other has."""
        made = Repo(f"paddock/{name}", gated=gated)
        if files is None:
            seed = random.Random(name).randrange(1, 1 << 20)
            files = {SMALL: small_gguf.write(self.folder / f"{name}.gguf", fill=seed)}
        made.commit(dict(files))
        self.hub.add(made)
        return made

    def sent(self) -> int:
        """Bytes that the CDN has sent."""
        return sum(self.hub.counters()["cdn"]["bytes"].values())

    def on_host(self, name: str) -> list[str]:
        """The files of a repository on the host, by their names."""
        return as_dev(
            self.host, f"find {ROOT}/paddock--{name} -type f -printf '%f\\n' 2>/dev/null | sort", False
        ).split()

    def right(self, repo: Repo, *paths: str) -> None:
        """The files are on the host with the sha256 of the repository, and nothing unfinished is."""
        commit = repo.branches["main"]
        name = repo.name.rpartition("/")[2]
        for path in paths or (SMALL,):
            file: File = repo.commits[commit][path]
            at = f"{ROOT}/paddock--{name}/{commit[:12]}/{path}"
            assert self.host.sh(f"sha256sum '{at}'").stdout.split()[0] == file.sha256
        assert not [one for one in self.on_host(name) if one.endswith((".part", ".bad"))]


def part_size(host: LabHost) -> int:
    """Of the Gemma that is coming; its whole size once it is there."""
    done = host.sh(f"stat -c %s {PART} 2>/dev/null || stat -c %s {PART.removesuffix('.part')} 2>/dev/null", check=False)
    return int(done.stdout or 0)


def kill(bench: Bench, what: str, process: subprocess.Popen[str]) -> None:
    """The controller, sshd's child on the host, curl, or the whole unit, as soon as it is there."""
    if what == "controller":
        os.killpg(process.pid, signal.SIGKILL)
    elif what == "sshd":
        bench.host.sh("until pkill -KILL -u dev sshd; do sleep 0.1; done")
    elif what == "curl":
        bench.host.sh("until pkill -KILL -u dev curl; do sleep 0.1; done")
    else:
        as_dev(bench.host, "until systemctl --user -q is-active paddock-download; do sleep 0.1; done")
        as_dev(bench.host, "systemctl --user kill -s KILL paddock-download")


def series(bench: Bench, what: str, points: int, rate: int, seed: int) -> tuple[int, int, int]:
    """One download of Gemma, killed at random points until it is there: bytes on the wire, kills, runs."""
    size = models.cached_gemma().stat().st_size
    as_dev(bench.host, f"systemctl --user -q stop paddock-download; rm -rf {ROOT}/paddock--gemma-270m", False)
    bench.hub.reset()
    bench.hub.fault("slow", rate=rate, times=None)
    chance = random.Random(f"{what} {seed}")
    # What is left after the last takes two seconds: it must not have come before the kill.
    at = sorted(chance.uniform(0.02, 0.85) * size for _ in range(points))
    kills, runs = 0, 1
    process = bench.start(**GEMMA)
    for point in at:
        end = time.monotonic() + 120
        while (there := part_size(bench.host)) < point:
            assert time.monotonic() < end, f"{there} bytes of {point:.0f}"
            if process.poll() is not None:
                process.communicate()
                process, runs = bench.start(**GEMMA), runs + 1
            time.sleep(0.05)
        if there >= size:
            break
        kill(bench, what, process)
        kills += 1
        if what != "curl":
            process.communicate(timeout=60)
            process, runs = bench.start(**GEMMA), runs + 1
    out, err = process.communicate(timeout=300)
    if process.returncode:  # this one was still under way when the connection went
        last = bench.run(**GEMMA)
        assert last.code == 0, out + err + last.text
    bench.right(bench.hub.repo("paddock/gemma-270m"), models.GEMMA_FILE)
    return bench.sent(), kills, runs


@contextmanager
def small_disk(bench: Bench, size: int) -> Iterator[None]:
    """A disk of its own for the host's models, of so many bytes; what was there is hidden as long."""
    image = bench.folder / "disk.img"
    with image.open("wb") as file:
        file.truncate(size)
    run(["mkfs.ext4", "-q", "-m", "0", str(image)])
    device = run(["losetup", "--find", "--show", str(image)]).stdout.strip()
    number = os.minor(Path(device).stat().st_rdev)
    try:
        bench.host.sh(f"mknod /dev/paddock-disk b 7 {number}; mount /dev/paddock-disk {ROOT} && chown dev: {ROOT}")
        yield
    finally:
        bench.host.sh(f"umount {ROOT}; rm -f /dev/paddock-disk", check=False)
        run(["losetup", "--detach", device], check=False)
        image.unlink()
