"""A quota of one processor for what a systemd of a lab host starts from now on, as CPUQuota would set one.

From outside, since the container's systemd has no controller for processors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab import network
from tests.lab.host import LabHost

CONTROLLER = Path("/sys/fs/cgroup/cpu")
QUOTA = 0.3  # of one processor


@contextmanager
def throttled(host: LabHost, managers: list[int]) -> Iterator[None]:
    """`managers`: the systemds whose children are meant; what runs already is not slowed down."""
    if not (CONTROLLER / "cpu.cfs_quota_us").exists():
        pytest.skip("no cpu controller of cgroup v1 here to set a quota with")
    assert managers
    group = CONTROLLER / f"{host.lab.bridge}-{host.name}"
    group.mkdir(exist_ok=True)
    (group / "cpu.cfs_quota_us").write_text(str(int(QUOTA * 100_000)))
    try:
        for pid in managers:
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for member in (group / "cgroup.procs").read_text().split():
            (CONTROLLER / "cgroup.procs").write_text(member)
        group.rmdir()


def users_managers(host: LabHost) -> list[int]:
    """The systemd of each user that has one."""
    return [pid for pid in network.namespace_pids(host.lab, host.name) if is_users_manager(pid)]


def is_users_manager(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/lib/systemd/systemd\0--user")
