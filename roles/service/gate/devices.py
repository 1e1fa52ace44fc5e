"""The devices that a plan counts on: whether they are there, and whether the process still has them.

A device of a record is llama.cpp's name for it (CUDA0) or, for layers over RPC, the server's HOST:PORT.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time

from roles.gpu.libraries import library_versions
from roles.gpu.smi import nvidia_smi
from roles.probe_tools import entries, read, run
from roles.service.gate.causes import explained

NODES = ("nvidiactl", "nvidia-uvm", "nvidia0")
SILENT = "nvidia-smi does not answer"
NOTIFIERS = 595  # the first driver whose open modules save VRAM by the kernel's own suspend notifiers


def wait(program: str, wanted: list[str], seconds: float) -> str | None:
    """Wait for all devices, at most so long. The sentence about what is missing then; None once all are there."""
    end = time.monotonic() + seconds
    while True:
        problem = unfit_driver() if any(map(is_cuda, wanted)) else None
        if problem:
            return problem + "; reboot"
        problem = missing(program, wanted)
        if problem is None or time.monotonic() >= end:
            return problem
        time.sleep(1)


def out_of_reach(wanted: list[str], seconds: float) -> str | None:
    """The sentence about devices that no start would find: seen without a context on a card that may be full."""
    problem = unfit_driver() if any(map(is_cuda, wanted)) else None
    if problem:
        return problem + "; reboot"
    return wait("", [name for name in wanted if not is_cuda(name)], seconds)


def missing(program: str, wanted: list[str]) -> str | None:
    """The sentence about devices that are not there now. Listing CUDA's makes a context: it works where they show."""
    for name in wanted:
        if ":" in name and not reachable(name):
            return "the RPC server " + name + " does not answer"
    listed = [name for name in wanted if ":" not in name]
    if not listed:
        return None
    lacking = ["/dev/" + name for name in NODES if not os.path.exists("/dev/" + name)]
    if os.path.exists("/dev/dxg"):
        lacking = []  # WSL: the driver of Windows has one node for all
    done = run([program, "--list-devices"], 60)
    told = done["out"] + done["err"] if done else ""
    there = re.findall(r"^ *(\w+?\d+): ", told, re.M)
    gone = [name for name in listed if name not in there]
    if not gone:
        return None
    why = explained(told.splitlines()) or (": " + " and ".join(lacking) + " missing" if lacking else "")
    return "llama.cpp sees no " + " and no ".join(gone) + " here" + why


def is_cuda(name: str) -> bool:
    return name.startswith("CUDA")


def reachable(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), 3).close()
    except (OSError, ValueError):
        return False
    return True


def lost(pid: str, wanted: list[str]) -> str | None:
    """The sentence about devices that a running process has not, or has no longer. Cheap, and wakes no card that its
    own process does not keep awake."""
    for name in wanted:
        if ":" in name and not connected(pid, int(name.rpartition(":")[2])):
            return "it has no connection to the RPC server " + name
    if not any(map(is_cuda, wanted)):
        return None
    gone = ["/dev/" + name for name in NODES if not os.path.exists("/dev/" + name)]
    if gone and not os.path.exists("/dev/dxg"):
        return " and ".join(gone) + " went away"
    table = vram()
    if table is None:
        return SILENT
    if pid not in table and not os.path.exists("/dev/dxg"):
        return "it holds no VRAM: nvidia-smi does not list it"
    return None


def connected(pid: str, port: int) -> bool:
    """Whether a process has an established TCP connection to a port."""
    return any(state == "01" and far == port for state, _, far in sockets(pid))


def listens(pid: str, port: int) -> bool:
    """Whether it is this process that is answered from at a port. Its bind may still be to come, and fail."""
    return any(state == "0A" and near == port for state, near, _ in sockets(pid))


def sockets(pid: str) -> list[tuple[str, int, int]]:
    """State, near and far port of a process's own TCP sockets, which are known by their inodes (proc(5))."""
    own, found = set(), []
    for number in entries("/proc/" + pid + "/fd"):
        with contextlib.suppress(OSError):
            own.add(os.readlink("/proc/" + pid + "/fd/" + number))
    for table in ("tcp", "tcp6"):
        for line in (read("/proc/" + pid + "/net/" + table) or "").splitlines()[1:]:
            field = line.split()
            if "socket:[" + field[9] + "]" in own:
                near, far = (int(address.rpartition(":")[2], 16) for address in field[1:3])
                found.append((field[3], near, far))
    return found


def vram() -> dict[str, int | None] | None:
    """MiB of VRAM by pid of what computes, None where the driver does not tell; None at all where nvidia-smi fails."""
    done = run([nvidia_smi(), "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], 10)
    if not done or done["rc"] not in (0, 14):  # 14: a corrupt infoROM, of which it warns beside a table that is whole
        return None
    held: dict[str, int | None] = {}
    for pid, used in re.findall(r"^(\d+), *(\S+)", done["out"], re.M):
        more = int(used) if used.isdigit() else None
        held[pid] = (held.get(pid) or 0) + more if more is not None else held.get(pid)
    return held


def unfit_driver() -> str | None:
    """The sentence about a driver whose loaded module and libraries differ: until a reboot nothing new can use it."""
    loaded = (read("/sys/module/nvidia/version") or "").strip()
    library = library_versions().get("libcuda.so.1")
    if not loaded or library in (None, loaded):
        return None
    return f"the loaded NVIDIA module is {loaded} and the driver's libraries are {library}"


def slept() -> float:
    """Seconds that this machine has been suspended since it booted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def suspend_fix() -> str:
    """What keeps VRAM over a suspend with the driver that runs. Told, never done: the driver is the user's.

    NVIDIA's README, "Configuring Power Management Support"; which branch wants what: reference of this project.
    """
    version = (read("/sys/module/nvidia/version") or "").strip()
    branch = int(version.partition(".")[0]) if version.partition(".")[0].isdigit() else 0
    services = "nvidia-suspend.service, nvidia-resume.service and nvidia-hibernate.service"
    opened = "Open Kernel Module" in (read("/proc/driver/nvidia/version") or "")
    if branch >= NOTIFIERS and opened:
        return (
            "NVreg_UseKernelSuspendNotifiers=1 for the module nvidia (the default from 615.78.08), with"
            f" {services} disabled, keeps VRAM over a suspend with driver {version}"
        )
    return (
        "NVreg_PreserveVideoMemoryAllocations=1 and NVreg_TemporaryFilePath=/var/tmp for the module nvidia, with"
        f" {services} enabled, keep VRAM over a suspend with driver {version or 'of this branch'}"
    )
