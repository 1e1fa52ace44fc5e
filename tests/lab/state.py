"""What the lab remembers: one JSON file per host in the run directory, and the known_hosts file made from them.

A record is written before the host it describes exists, so that `down` finds whatever a killed process left behind.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tests.lab.common import FIRST_HOST, LAST_HOST, Lab, LabError, run

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Record:
    """A host of the lab. `index` is the last byte of its address; `host_key` the public key that sshd shows."""

    name: str
    index: int
    host_key: str


def records(lab: Lab) -> list[Record]:
    """All hosts on record, in the order of their addresses."""
    found = []
    for path in (lab.run_dir / "hosts").glob("*.json"):
        try:
            found.append(Record(**json.loads(path.read_text())))
        except FileNotFoundError:  # destroyed at this moment
            continue
    return sorted(found, key=lambda record: record.index)


def remember(lab: Lab, record: Record) -> None:
    write(lab.run_dir / "hosts" / f"{record.name}.json", json.dumps(asdict(record)))
    write_known_hosts(lab)


def forget(lab: Lab, name: str) -> None:
    (lab.run_dir / "hosts" / f"{name}.json").unlink(missing_ok=True)
    write_known_hosts(lab)


def write_known_hosts(lab: Lab) -> None:
    """The keys of all hosts, read from their disks: nothing is trusted on first use."""
    lines = [f"{lab.net}.{record.index} {record.host_key}\n" for record in records(lab)]
    write(lab.known_hosts, "".join(lines))


def write(path: Path, text: str) -> None:
    """Replace a file at once, so that a reader without the lock sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}.new")
    beside.write_text(text)
    beside.rename(path)


def free_index(lab: Lab) -> int:
    taken = {record.index for record in records(lab)}
    for index in range(FIRST_HOST, LAST_HOST + 1):
        if index not in taken:
            return index
    raise LabError(
        f"All {LAST_HOST - FIRST_HOST + 1} addresses of the lab are taken; `python -m tests.lab down` frees them."
    )


def ensure_key(lab: Lab) -> None:
    """The key pair that logs in to every host of this lab."""
    if not lab.key.exists():
        lab.run_dir.mkdir(parents=True, exist_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "paddock-lab", "-f", str(lab.key)])
