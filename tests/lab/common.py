"""Where the lab keeps its things, its names and addresses, and the one way it runs a command."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_HOST = 10  # last byte of the first host's address; .1 and .2 are the machine that runs the lab
LAST_HOST = 99
USERS = {"root": 0, "dev": 1000, "fisher": 1001, "pat": 1002, "guest": 1003}
PAT_PASSWORD = "correct horse battery"  # what `pat` types for sudo; a fixture, it protects nothing

# A prefix for a command that must not go on writing after this process was killed.
MORTAL = ["setpriv", "--pdeathsig", "KILL"]


class LabError(Exception):
    """Something that a person can act on, in one sentence."""


def lab_for_tests(offset: int) -> dict[str, str]:
    """The environment of a lab for tests, beside a demo on the same machine.

    198.18.0.0/15 is for benchmarks (RFC 2544). PADDOCK_TEST_LAB (0 to 9) keeps checkouts apart that test at one time.
    """
    number = os.environ.get("PADDOCK_TEST_LAB", "0")
    if not re.fullmatch(r"\d", number):
        raise LabError(f"PADDOCK_TEST_LAB is {number!r}: it must be one digit.")
    name = "dt"[offset] + (number if number != "0" else "")
    return {
        "PADDOCK_LAB_RUN": f"/run/paddock-lab-{name}",
        "PADDOCK_LAB_BRIDGE": f"paddock{name}",
        "PADDOCK_LAB_NET": f"198.18.{54 - offset + 2 * int(number)}",
    }


DEPLOY_LAB = lab_for_tests(0)
TEST_LAB = lab_for_tests(1)


@dataclass(frozen=True)
class Lab:
    """One lab: its directories and its network."""

    run_dir: Path
    cache: Path
    bridge: str
    net: str

    @property
    def work(self) -> Path:
        """Roots, snapshots and console logs of this lab's hosts; gone after `down`."""
        return self.cache / "labs" / self.bridge

    @property
    def gateway(self) -> str:
        """The address of the machine that runs the lab: the hub and the git server."""
        return f"{self.net}.1"

    @property
    def cdn(self) -> str:
        """A second address of the same machine, for what must be another host than the hub."""
        return f"{self.net}.2"

    @property
    def subnet(self) -> str:
        return f"{self.net}.0/24"

    @property
    def table(self) -> str:
        """The nft table of this lab."""
        return "paddock_lab" if self.bridge == "paddock0" else f"paddock_lab_{self.bridge}"

    @property
    def key(self) -> Path:
        """The private key that logs in to every host; its public half lies beside it."""
        return self.run_dir / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.run_dir / "known_hosts"

    def unit(self, name: str) -> str:
        """The name of a host wherever the machine outside sees it: machine, network namespace, cgroup."""
        return f"{self.bridge}-{name}"


def the_lab() -> Lab:
    """The lab that the environment names: PADDOCK_LAB_{RUN,BRIDGE,NET}. Fails on a value that cannot work."""
    bridge = os.environ.get("PADDOCK_LAB_BRIDGE", "paddock0")
    net = os.environ.get("PADDOCK_LAB_NET", "198.51.100")  # TEST-NET-2 of RFC 5737: routed nowhere
    if not re.fullmatch(r"paddock[a-z0-9]{1,4}", bridge):
        raise LabError(f"PADDOCK_LAB_BRIDGE is {bridge!r}: it must be 'paddock' and 1 to 4 letters or digits.")
    if not re.fullmatch(r"(\d{1,3}\.){2}\d{1,3}", net):
        raise LabError(f"PADDOCK_LAB_NET is {net!r}: it must be the first three numbers of a /24, as 198.51.100.")
    return Lab(
        run_dir=Path(os.environ.get("PADDOCK_LAB_RUN", "/run/paddock-lab")),
        cache=Path.home() / ".cache/paddock/lab",
        bridge=bridge,
        net=net,
    )


def run(
    argv: list[str],
    *,
    timeout: float = 60,
    check: bool = True,
    stdin: str | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end within `timeout` seconds; `env` is added to the environment.

    A failure (unless `check` is off) raises LabError with the last line it said; so do a command that is not there and
    a timeout.
    """
    name = " ".join(argv[:3])
    try:
        done = subprocess.run(
            argv,
            input=stdin or "",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},
            check=False,
        )
    except FileNotFoundError:
        raise LabError(f"{argv[0]} is not installed on this machine.") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"`{name}` was not done within {timeout:.0f} seconds.") from None
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise LabError(f"`{name}` failed with status {done.returncode}: {said}")
    return done


def processes() -> dict[int, list[str]]:
    """The command lines of all processes by pid; kernel threads and processes that just ended are left out."""
    found: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            argv = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if argv:
            found[int(entry.name)] = argv.decode(errors="replace").rstrip("\0").split("\0")
    return found


def spawn(argv: list[str], log: Path, *, cwd: Path | str = "/", env: dict[str, str] | None = None) -> None:
    """Start a process that outlives this one, in a session of its own, its output appended to `log`."""
    with log.open("a") as file:
        subprocess.run(
            ["setsid", "--fork", *argv],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            timeout=20,
            check=True,
        )


@contextmanager
def locked(path: Path, timeout: float = 900) -> Iterator[None]:
    """Hold the lock file `path`; a process that dies lets go of it. Fails when it is taken for `timeout` seconds."""
    end = time.monotonic() + timeout
    while (file := try_lock(path)) is None:
        if time.monotonic() > end:
            raise LabError(f"Another process has been at work on this lab for {timeout:.0f} seconds ({path}).")
        time.sleep(0.2)
    with file:
        yield


def try_lock(path: Path) -> TextIO | None:
    """The file, locked; None while another process holds it or when `down` removed it in the meantime."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    file.close()
    return None
