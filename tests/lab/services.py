"""The lab's background processes on this machine: the git server and the model hub."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from tests.lab import upstream
from tests.lab.common import Lab, LabError, locked, processes, spawn

REPOSITORY = Path(__file__).parents[2]


def start_upstream(lab: Lab) -> None:
    """Serve llama.cpp's source: git://GATEWAY/llama.cpp, read only."""
    folder = upstream.repository(lab).parent
    git = ["git", "-c", "safe.directory=*", "daemon", "--reuseaddr", "--export-all", f"--base-path={folder}"]
    start(lab, "upstream", [*git, f"--listen={lab.gateway}", "--port=9418", str(folder)], [(lab.gateway, 9418)])


def start_hub(lab: Lab) -> None:
    """Serve the model hub and its CDN."""
    argv = [sys.executable, "-m", "tests.lab.hub", "--listen", f"{lab.gateway}:8010", "--cdn", f"{lab.cdn}:8011"]
    start(lab, "hub", argv, [(lab.gateway, 8010), (lab.cdn, 8011)])


def start(lab: Lab, name: str, argv: list[str], ports: list[tuple[str, int]], seconds: float = 60) -> None:
    """Run `argv` in the background until `down`, and return once all its ports take connections; idempotent.

    Fails with the last line of its log when it ends instead or is not ready in time.
    """
    folder = lab.run_dir / "services"
    with locked(lab.run_dir / "lock"):
        folder.mkdir(parents=True, exist_ok=True)
        if running(lab, name) is None:
            (folder / f"{name}.json").write_text(json.dumps(argv))
            # The shell writes its own pid before it becomes the service: no moment without a trace.
            shell = ["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(folder / f"{name}.pid")]
            spawn([*shell, *argv], folder / f"{name}.log", cwd=REPOSITORY)
        end = time.monotonic() + seconds
        while not all(takes_connections(*port) for port in ports):
            gone = time.monotonic() > end - seconds + 1 and running(lab, name) is None
            if gone or time.monotonic() > end:
                said = (folder / f"{name}.log").read_text(errors="replace").strip().splitlines() or ["it said nothing"]
                raise LabError(f"The lab's {name} {'ended' if gone else 'is not ready'}: {said[-1]}")
            time.sleep(0.1)


def running(lab: Lab, name: str) -> int | None:
    """The pid of a service that this lab started and that still runs the same command, or None."""
    folder = lab.run_dir / "services"
    try:
        pid = int((folder / f"{name}.pid").read_text())
        argv = json.loads((folder / f"{name}.json").read_text())
    except (OSError, ValueError):
        return None
    return pid if processes().get(pid) == argv else None


def takes_connections(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=2).close()
    except OSError:
        return False
    return True


def stop(lab: Lab, name: str) -> None:
    """End a service and its children; one that ignores the request for three seconds is killed."""
    pid = running(lab, name)
    for patience, number in ((3.0, signal.SIGTERM), (5.0, signal.SIGKILL)):
        end = time.monotonic() + patience
        if pid is not None and group_lives(pid):
            os.killpg(pid, number)
            while group_lives(pid) and time.monotonic() < end:
                time.sleep(0.05)
    for suffix in ("pid", "json"):
        (lab.run_dir / "services" / f"{name}.{suffix}").unlink(missing_ok=True)


def group_lives(group: int) -> bool:
    """Whether a process of this group still runs; zombies do not count."""
    for pid in processes():
        try:
            if os.getpgid(pid) == group:
                return True
        except ProcessLookupError:
            continue
    return False


def stop_all(lab: Lab) -> None:
    for path in (lab.run_dir / "services").glob("*.json"):
        stop(lab, path.stem)
