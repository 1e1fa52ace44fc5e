"""What a download finds on the disk: gone on with, verified, repaired, or told of where it is in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from roles.model.transfer_program import size_of
from tests.lab.hub.sample import SIZE, WEIGHTS
from tests.unit import downloading, pinning
from tests.unit.downloading import Host, content, good

running, host = pinning.running, downloading.host


def test_what_has_come_is_kept_and_the_next_run_asks_for_the_rest_alone(host: Host) -> None:
    host.hub.fault("drop", at=2_000_000)
    host.hub.fault("status", host="hub", status=503, skip=1, times=None)
    code, lines = host.run()
    assert code == 1
    assert "; 2.0 MB of 3.0 MB are kept for the next run" in lines[-1]
    host.hub.reset()
    assert host.run()[0] == 0
    good(host)
    assert host.sent() == SIZE - 2_000_000


@pytest.mark.parametrize("killed", ["curl", "python3"])
def test_killed_in_the_middle_it_goes_on_where_it_was(host: Host, killed: str) -> None:
    host.hub.fault("slow", rate=1_000_000, times=None)
    process = host.start()
    part = host.path(f"{WEIGHTS}.part")
    while size_of(str(part)) < 500_000:
        assert process.poll() is None
        time.sleep(0.02)
    pid = (
        process.pid if killed == "python3" else int(subprocess.check_output(["pgrep", "-P", str(process.pid), "curl"]))
    )
    os.kill(pid, signal.SIGKILL)
    said, _ = process.communicate(timeout=30)
    if killed == "curl":
        assert "curl was killed (signal 9)" in said
        assert process.returncode == 0
    else:
        assert process.returncode != 0
        before = part.stat().st_size
        host.hub.reset()
        assert host.run()[0] == 0
        assert host.sent() <= SIZE - before + 300_000
    good(host)


def test_a_file_that_is_known_is_not_read_again_and_one_that_was_touched_is(host: Host) -> None:
    assert host.run()[0] == 0
    assert host.run() == (0, [])
    os.utime(host.path())
    assert host.run() == (0, [f"verifying {WEIGHTS}", f"note: every byte of {WEIGHTS} is as pinned"])
    assert host.run() == (0, [])
    assert host.sent() == SIZE


def test_asked_to_verify_it_reads_everything_and_repairs_what_is_damaged(host: Host) -> None:
    host.run()
    assert host.run(again=True) == (0, [f"verifying {WEIGHTS}", f"note: every byte of {WEIGHTS} is as pinned"])
    before = host.path().stat()
    with host.path().open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\0\0\0")
    os.utime(host.path(), ns=(before.st_atime_ns, before.st_mtime_ns))
    assert host.run() == (0, []), "its size and time are as before"
    code, lines = host.run(again=True)
    assert (code, lines[:2]) == (0, [f"verifying {WEIGHTS}", f"note: {WEIGHTS} was damaged, and is downloaded anew"])
    good(host)


def test_a_part_that_is_longer_than_the_file_is_begun_anew(host: Host) -> None:
    host.path().parent.mkdir()
    host.path(f"{WEIGHTS}.part").write_bytes(b"x" * (SIZE + 1))
    assert host.run()[0] == 0
    good(host)


def test_a_part_that_is_whole_needs_no_server(host: Host) -> None:
    host.path().parent.mkdir()
    host.path(f"{WEIGHTS}.part").write_bytes(content(host))
    assert host.run()[0] == 0
    good(host)
    assert host.hub.counters()["log"] == []


def test_a_folder_that_cannot_be_written_is_told(host: Host) -> None:
    (host.home / "models").write_text("in the way")
    code, lines = host.run()
    assert code == 1
    assert lines[-1].endswith(": File exists") or lines[-1].endswith(": Not a directory")


def test_a_disk_without_room_is_told_before_a_byte_is_asked_for(host: Host) -> None:
    host.changes = {"files": [{"path": str(host.path()), "size": 1 << 60, "sha256": "d" * 64}]}
    code, lines = host.run()
    assert code == 1
    assert " free, and 1152921504.61 GB are still to come" in lines[-1]
    assert host.hub.counters()["log"] == []
