"""A lab host that sees nothing of what else works on this machine: its verdict on a release does not hang on that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.host import LabHost

COPY = "/srv/stat"


@contextmanager
def quiet(host: LabHost) -> Iterator[None]:
    """The kernel's count of the processors' work, which is the whole machine's, stands still for the host meanwhile:
    another's work would be a doubt (`other_cpu_work`), and nothing that is doubted is taken back."""
    host.sh(f"cat /proc/stat >{COPY}; mount --bind {COPY} /proc/stat")
    try:
        yield
    finally:
        host.sh("umount /proc/stat")
