"""The machine below the roles: kernel, processor, disks, and what guards it."""

from __future__ import annotations

from typing import Any

from roles.observation import Fragment, Seen
from roles.probe_tools import entries, find_command, read, run


def look_at_machine(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import os
    import re

    info = read("/proc/cpuinfo", 1 << 22) or ""
    model = re.search(r"^model name\s*:\s*(.*)$", info, re.M)
    told = run(["systemctl", "--version"])
    version = re.match(r"systemd (\d+)", told["out"]) if told else None
    oomd = run(["systemctl", "is-active", "systemd-oomd"])
    variables = "/sys/firmware/efi/efivars"
    secure = [name for name in entries(variables) if name.startswith("SecureBoot-")]
    boot = read(variables + "/" + secure[0]) if secure else None

    def place(path: str) -> dict[str, Any]:
        """The disk that a path is on, or will be: the mount with the longest matching prefix."""
        path = os.path.expanduser(path)
        while not os.path.isdir(path):
            path = os.path.dirname(path)
        disk, best = os.statvfs(path), ["", "", "", ""]
        for line in (read("/proc/self/mounts") or "").splitlines():
            field = [part.replace("\\040", " ") for part in line.split()]
            inside = (os.path.realpath(path) + "/").startswith(field[1].rstrip("/") + "/")
            if inside and len(field[1]) >= len(best[1]):
                best = field
        return {
            "free": disk.f_bavail * disk.f_frsize,
            # A file system that counts no inodes (btrfs, say) tells 0 of 0.
            "inodes_free": disk.f_favail if disk.f_files else None,
            "type": best[2],
            "noexec": "noexec" in best[3].split(","),
            "writable": os.access(path, os.W_OK | os.X_OK),
            "read_only": "ro" in best[3].split(","),
            "device": os.stat(path).st_dev,
        }

    return {
        "kernel": os.uname().release,
        "cpu": model.group(1).strip() if model else "",
        "systemd_version": int(version.group(1)) if version else None,
        "oomd": (oomd or {}).get("out", "").strip() == "active",
        "secure_boot": boot.endswith("\x01") if boot is not None else None,
        "battery": any(name.startswith("BAT") for name in entries("/sys/class/power_supply")),
        "user_namespaces": bool((run([find_command("unshare") or "unshare", "-Ur", "true"]) or {}).get("rc") == 0),
        "places": {path: place(path) for path in ask["places"]},
    }


class Place(Seen):
    """Free bytes and inodes (None where the file system does not count them) where Paddock writes. Places with one
    `device` share them."""

    free: int
    inodes_free: int | None
    type: str
    noexec: bool
    read_only: bool
    writable: bool
    device: int = 0


class MachineSeen(Seen):
    """What cannot be told is None."""

    kernel: str
    cpu: str
    systemd_version: int | None
    oomd: bool
    secure_boot: bool | None
    user_namespaces: bool
    battery: bool = False
    places: dict[str, Place]


# Where Paddock writes: releases and notes, sources and builds; and models, which people put on a disk of their own.
DATA, CACHE, MODELS = "~/.local/share/paddock", "~/.cache/paddock", "~/.local/share/paddock/models"

MACHINE = Fragment("machine", look_at_machine, lambda _: {"places": [DATA, CACHE, MODELS]}, MachineSeen)
