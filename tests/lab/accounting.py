"""Which processes ran on a host, by the kernel's own process accounting: not what a clock suggests."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.host import LabHost

# struct acct_v3 of linux/acct.h: 64 bytes a process; times in a floating point of 13 bits by 3, ticks of 1/100 s.
RECORD = struct.Struct("<bbHIIIIIIf8H16s")
TICKS = 100
FILE = "/var/log/lab-accounting"
# What works when something is compiled or linked; the probe asks g++ for its version, which starts none of them.
COMPILERS = ("cc1", "cc1plus", "as", "ld", "collect2", "ccache", "nvcc", "cicc", "ptxas")
SWITCH = """python3 -c '
import ctypes, os, sys
path = sys.argv[1].encode() if len(sys.argv) > 1 else None
libc = ctypes.CDLL(None, use_errno=True)
if libc.acct(path):
    sys.exit(os.strerror(ctypes.get_errno()))' """


@dataclass
class Processes:
    """Seconds of CPU by the name of the command (15 characters), and how often each ran."""

    seconds: dict[str, float] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)

    @property
    def compilers(self) -> dict[str, int]:
        return {name: self.runs[name] for name in COMPILERS if name in self.runs}

    @property
    def compiler_seconds(self) -> float:
        return sum(self.seconds.get(name, 0.0) for name in COMPILERS)


@contextmanager
def accounted(host: LabHost) -> Iterator[Processes]:
    """What ran on the host in the meantime; filled in at the end. A process counts when it has ended."""
    found = Processes()
    host.sh(f": > {FILE}; {SWITCH} {FILE}")
    try:
        yield found
    finally:
        host.sh(SWITCH)
    read(host.root / FILE.lstrip("/"), found)


def read(path: Path, found: Processes) -> None:
    """Add up the records of an accounting file."""
    content = path.read_bytes()
    for at in range(0, len(content) - RECORD.size + 1, RECORD.size):
        values = RECORD.unpack_from(content, at)
        name = values[-1].rstrip(b"\0").decode(errors="replace")
        found.seconds[name] = found.seconds.get(name, 0.0) + seconds(values[10]) + seconds(values[11])
        found.runs[name] = found.runs.get(name, 0) + 1


def seconds(ticks: int) -> float:
    return ((ticks & 0x1FFF) << 3 * (ticks >> 13)) / TICKS
