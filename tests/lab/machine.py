"""Starts and ends the systemd-nspawn of a host, and finds its processes again from any other process."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

from tests.lab import network
from tests.lab.common import Lab, LabError, processes, run, spawn

BOOT_SECONDS = 90
STOP_SECONDS = 120

# Used where PID 1 is not systemd. Every boot runs in a control group of its own: two systemd in one group would end
# each other's services. Status 133 is nspawn's word for "reboot".
KEEPER = """
while :; do
  sh -c '
    for top in /sys/fs/cgroup/unified /sys/fs/cgroup/systemd /sys/fs/cgroup; do
      if [ -w "$top/cgroup.procs" ]; then mkdir -p "$top/$0" && echo $$ > "$top/$0/cgroup.procs"; fi
    done
    exec "$@"' "$0" "$@"
  status=$?
  echo "systemd-nspawn ended with status $status"
  [ "$status" = 133 ] || exit "$status"
done
"""
# The same contract in systemd's own words, as its systemd-nspawn@.service has it.
UNIT = ["Delegate=yes", "KillMode=mixed", "SuccessExitStatus=133", "RestartForceExitStatus=133", "TasksMax=16384"]


def start(lab: Lab, name: str, root: Path) -> None:
    """Boot a host in the background; it outlives this process and comes up again after its own reboot."""
    machine = lab.unit(name)
    ccache = lab.cache / "ccache"
    ccache.mkdir(parents=True, exist_ok=True)
    ccache.chmod(0o777)
    space = f"/run/netns/{machine}"
    nspawn = [
        # nspawn itself too is in the host's network namespace: the /sys that it mounts shows the interfaces of its own.
        "nsenter",
        f"--net={space}",
        "systemd-nspawn",
        "--quiet",
        "--boot",
        "--register=no",
        "--keep-unit",
        f"--directory={root}",
        f"--machine={machine}",
        f"--hostname={name}",
        f"--network-namespace-path={space}",
        f"--bind={ccache}:/var/cache/lab-ccache",
        "--resolv-conf=off",
        "--timezone=off",
        "--console=read-only",
        "systemd.show_status=yes",
        "systemd.log_color=no",
    ]
    log = console(lab, name)
    log.parent.mkdir(parents=True, exist_ok=True)
    if Path("/run/systemd/system").exists():
        output = [f"StandardOutput=append:{log}", f"StandardError=append:{log}"]
        properties = [f"--property={value}" for value in (*UNIT, *output)]
        setenv = "--setenv=SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1"
        run(["systemd-run", "--quiet", "--collect", f"--unit={machine}", setenv, *properties, *nspawn])
        return
    spawn(["sh", "-c", KEEPER, machine, *nspawn], log, env={"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"})


def console(lab: Lab, name: str) -> Path:
    return lab.work / "consoles" / f"{name}.log"


def outside_pids(lab: Lab, name: str) -> list[int]:
    """The keeper and nspawn of a host, the keeper first."""
    mark = f"--machine={lab.unit(name)}"
    return sorted(pid for pid, argv in processes().items() if mark in argv)


def leader(lab: Lab, name: str) -> int | None:
    """The host's own PID 1 as this machine sees it, or None while it is down."""
    pids = network.namespace_pids(lab, name)
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        inner = next((line.split() for line in status.splitlines() if line.startswith("NSpid:")), [])
        if inner[-1:] == ["1"] and len(inner) > 2:
            return pid
    return None


def wait_for_sshd(lab: Lab, name: str, address: str, but_not: int | None = None) -> None:
    """Return once sshd greets, and refuses nobody any more because the host still boots (pam_nologin); `but_not` is the
    PID 1 of a boot before. Fails with the last lines of the console."""
    begin = time.monotonic()
    while time.monotonic() < begin + BOOT_SECONDS:
        # A process that was just started shows no command line yet.
        if time.monotonic() > begin + 2 and not outside_pids(lab, name):
            raise LabError(f"The host {name} went down instead of up: {last_words(lab, name)}")
        pid = leader(lab, name)
        up = pid is not None and pid != but_not and greets(address)
        if up and not Path(f"/proc/{pid}/root/run/nologin").exists():
            return
        time.sleep(0.1)
    raise LabError(f"The host {name} did not answer on SSH within {BOOT_SECONDS} seconds: {last_words(lab, name)}")


def greets(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def last_words(lab: Lab, name: str, lines: int = 6) -> str:
    log = console(lab, name)
    text = log.read_text(errors="replace") if log.exists() else ""
    kept = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(kept[-lines:]) or "its console said nothing"


def wait_until_gone(lab: Lab, name: str, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not outside_pids(lab, name) and not network.namespace_pids(lab, name):
            return True
        time.sleep(0.05)
    return False


def kill(lab: Lab, name: str) -> None:
    """End a host at once, as a cut of the power does. The keeper goes first, or it would boot the host again."""
    end = time.monotonic() + 20
    while pids := [*outside_pids(lab, name), *network.namespace_pids(lab, name)]:
        if time.monotonic() > end:
            raise LabError(f"Processes of the host {name} do not end: {', '.join(map(str, pids))}.")
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    sweep_groups(lab.unit(name))


def sweep_groups(machine: str, seconds: float = 5) -> None:
    """Remove what a killed nspawn leaves behind: control groups and a propagation directory.

    A group stays busy for a moment after its last process; one that stays so for longer is left to the next `down`.
    """
    tops = [Path("/sys/fs/cgroup", kind, machine) for kind in ("unified", "systemd", "")]
    tops.append(Path("/run/systemd/nspawn/propagate", machine))
    end = time.monotonic() + seconds
    while (left := [top for top in tops if top.exists()]) and time.monotonic() < end:
        for top in left:
            for directory in (*sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True), top):
                with suppress(OSError):
                    directory.rmdir()
        time.sleep(0.02)
