"""What the probe tells of a machine: the computer and its disks, and its NVIDIA cards with their driver."""

from __future__ import annotations

from typing import Any

from roles.machine import CACHE, DATA, MODELS

ROOM = 500 << 30  # bytes free on a disk that is no worry
KERNEL = "6.12.48-amd64"


def machine(cache: dict[str, Any] | None = None, models: dict[str, Any] | None = None, **place: Any) -> dict[str, Any]:
    """A plain PC; `place` changes the disk that Paddock writes to, `cache` and `models` those parts of it."""
    disk = {
        "free": ROOM,
        "inodes_free": 1 << 24,
        "type": "ext4",
        "noexec": False,
        "read_only": False,
        "writable": True,
        "device": 1,
        **place,
    }
    return {
        "kernel": KERNEL,
        "cpu": "AMD Ryzen 5 7535HS",
        "systemd_version": 257,
        "oomd": False,
        "secure_boot": None,
        "user_namespaces": True,
        "battery": False,
        "places": {DATA: disk, CACHE: {**disk, **(cache or {})}, MODELS: {**disk, **(models or {})}},
    }


def nvidia(*cards: tuple[str, str], driver: str = "580.119.02", used: int = 750) -> dict[str, Any]:
    """What a healthy driver tells of cards by name and compute capability; without any there is no driver."""
    rows = [
        f"{at}, GPU-{at:08}, {capability}, {driver}, 6144, {used}, 4, 4, 8, 8, [N/A], Enabled, {name}"
        for at, (name, capability) in enumerate(cards)
    ]
    version = driver if cards else None
    return {
        "cards": [{"address": f"0000:0{at}:00.0", "power": "active"} for at in range(len(cards))],
        "loaded": version,
        "libraries": {"libcuda.so.1": version, "libnvidia-ml.so.1": version},
        "kernel": KERNEL,
        "kernel_newest": KERNEL,
        "modules": {KERNEL: version} if cards else {},
        "nodes": ["nvidia0", "nvidiactl", "nvidia-uvm"] if cards else [],
        "table": {"rc": 0, "out": "".join(row + "\n" for row in rows), "err": ""} if cards else None,
        "xml": None,
    }
