"""Memory of a process pressed into swap: what a full machine does to it, on one that has room."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import machine
from tests.lab.common import run
from tests.lab.host import LabHost

SWAP = 64  # MiB
MADV_PAGEOUT = 21
SYS_PROCESS_MADVISE = 440  # on every architecture


class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@contextmanager
def swap(folder: Path) -> Iterator[None]:
    """A little swap for the machine that runs the lab, in a file; gone at the end."""
    file = folder / "swap"
    run(["dd", "if=/dev/zero", f"of={file}", "bs=1M", f"count={SWAP}", "status=none"])
    file.chmod(0o600)
    try:
        run(["mkswap", "-q", str(file)])
        run(["swapon", str(file)])
        yield
    finally:
        run(["swapoff", str(file)], check=False)
        file.unlink()


def page_out(pid: int) -> int:
    """Press the anonymous memory of a process into swap; how many bytes of it are there then."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw-p 0+ 00:00 0 ", Path(f"/proc/{pid}/maps").read_text(), re.M)
    descriptor = os.pidfd_open(pid)
    try:
        for begin, end in found:
            vector = Vector(int(begin, 16), int(end, 16) - int(begin, 16))
            libc.syscall(SYS_PROCESS_MADVISE, descriptor, ctypes.byref(vector), 1, MADV_PAGEOUT, 0)
    finally:
        os.close(descriptor)
    status = Path(f"/proc/{pid}/status").read_text()
    return int((re.search(r"^VmSwap:\s+(\d+)", status, re.M) or ["", "0"])[1]) << 10


def outer_pid(host: LabHost, inner: int) -> int:
    """The number that this machine knows a host's process by."""
    space = Path(f"/proc/{machine.leader(host.lab, host.name)}/ns/pid").stat().st_ino
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "ns/pid").stat().st_ino == space:
                numbers = re.search(r"^NSpid:\s+(.*)$", (entry / "status").read_text(), re.M)
                if numbers and int(numbers[1].split()[-1]) == inner:
                    return int(entry.name)
        except OSError:
            continue
    raise AssertionError(f"{host} has no process {inner}")
