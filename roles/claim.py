"""One run at a time changes a host. The claim is a file on the host; its holder is this process, its sign of life the
file's time. A run that died on this machine is no obstacle; one that died elsewhere is, until the claim is stale."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import socket
import time
from functools import cache
from pathlib import Path
from typing import Any

from pyinfra.api import Host, State

from roles import remote
from roles.remote import Failed, Script

PATH = "~/.local/share/paddock/run.lock"
STALE_MINUTES = 45  # installing packages gives no sign of life in between, and may take 30
TAKE = (Path(__file__).parent / "claim.sh").read_text("utf-8")
REMEMBER = (Path(__file__).parent / "remember.sh").read_text("utf-8")
_claimed: set[str] = set()


@cache
def holder() -> str:
    """Who this run is, as one line of JSON: told to people, and enough to see later whether it still lives."""
    return json.dumps(
        {
            "who": f"{user()}@{socket.gethostname()}",
            "since": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
            "pid": os.getpid(),
            "started": started(os.getpid()),
            "place": place(),
        }
    )


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's uid without a name
        return str(os.getuid())


def place() -> str:
    """Which system's process numbers these are: a boot and a pid namespace; where there is no /proc, the machine."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def started(pid: int) -> str | None:
    """When a process began, in clock ticks; None where there is none. A number that is used again has another."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def alive(claim: dict[str, Any]) -> bool:
    """Whether the run that made a claim may still be at work; one on another system always may."""
    if claim.get("place") != place():
        return True
    pid = claim.get("pid")
    if claim.get("started") is None and isinstance(pid, int):  # no /proc here: the number alone must do
        return _exists(pid)
    return isinstance(pid, int) and started(pid) == claim.get("started")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:  # another user's, and alive
        return True
    except (OSError, OverflowError):
        return False
    return True


def take(state: State, host: Host) -> None:
    """Claim the host for this run, once. Raises Failed with the name of the run that has it."""
    if host.name in _claimed:
        return
    dead = ""
    while True:
        answer = "\n".join(remote.run(state, host, Script(TAKE, (holder(), dead, str(STALE_MINUTES)))))
        if answer == "taken":
            _claimed.add(host.name)
            return
        claim = parsed(answer)
        if alive(claim) or answer == dead:
            raise Failed(
                f"another run changes this host: {claim.get('who', 'somebody')} since"
                f" {claim.get('since', 'some time')}; wait for it, or remove {PATH} there if that run is dead"
            )
        dead = answer


def give_back(state: State, host: Host) -> None:
    """After a failure: this run does nothing more there. Without a connection the claim is left to grow stale."""
    if host.name in _claimed:
        _claimed.discard(host.name)
        with contextlib.suppress(Failed):
            remote.run(state, host, end_of_run())


def end_of_run(record: str = "") -> Script:
    """The script that gives the host back, and leaves a record there where there is one."""
    return Script(REMEMBER, (record, holder()))


def held(host: Host) -> bool:
    """Whether this run has claimed the host."""
    return host.name in _claimed


def parsed(text: str) -> dict[str, Any]:
    """A claim's own words; nothing where it has none that can be read."""
    try:
        claim = json.loads(text)
    except ValueError:
        return {}
    return claim if isinstance(claim, dict) else {}
