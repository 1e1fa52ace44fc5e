"""What a unit file says, and what systemd must hold of it once it has read it."""

from __future__ import annotations

from collections.abc import Callable

from roles.memory.words import TO_COME
from roles.settings import size_in_bytes


def _bytes(value: str) -> str:
    return str(size_in_bytes(value))


def _seconds(value: str) -> str:
    """systemd's own way of writing a span of time."""
    return {"300": "5min", "3600": "1h"}.get(value, f"{value}s")


def _same(value: str) -> str:
    return value


# Those of the sandbox that are printed as they are written.
PLAIN = """
    CapabilityBoundingSet DevicePolicy KeyringMode LockPersonality MemoryDenyWriteExecute NoNewPrivileges PrivateDevices
    PrivateTmp PrivateUsers ProtectClock ProtectControlGroups ProtectHome ProtectHostname ProtectKernelLogs
    ProtectKernelModules ProtectKernelTunables ProtectProc ProtectSystem RemoveIPC RestrictRealtime RestrictSUIDSGID
""".split()  # noqa: SIM905
# By directive: the property that `systemctl show` prints, and how it writes the value. Not here: what it prints in a
# form of its own (filters of system calls), and what is proved by other means (the command, the stamp).
READ_BACK: dict[str, tuple[str, Callable[[str], str]]] = {
    "StartLimitIntervalSec": ("StartLimitIntervalUSec", _seconds),
    "StartLimitBurst": ("StartLimitBurst", _same),
    "Restart": ("Restart", _same),
    "RestartSec": ("RestartUSec", _seconds),
    "RestartSteps": ("RestartSteps", _same),
    "RestartMaxDelaySec": ("RestartMaxDelayUSec", _seconds),
    "MemoryMax": ("MemoryMax", _bytes),
    "MemoryHigh": ("MemoryHigh", _bytes),
    "MemorySwapMax": ("MemorySwapMax", _bytes),
    "OOMPolicy": ("OOMPolicy", _same),
    "TasksMax": ("TasksMax", _same),
    "CPUWeight": ("CPUWeight", _same),
    "IOWeight": ("IOWeight", _same),
    "UMask": ("UMask", _same),
    **{name: (name, _same) for name in PLAIN},
}
PROPERTIES = tuple(name for name, _ in READ_BACK.values())


def pairs(text: str) -> list[tuple[str, str]]:
    """The lines of a unit file as name and value."""
    lines = [line.partition("=") for line in text.splitlines() if line[:1].isalpha()]
    return [(name, value) for name, _, value in lines]


def held(text: str) -> dict[str, str]:
    """What `systemctl show` prints, by property, of a unit with this text; nothing of what only a plan will tell."""
    known = [(*READ_BACK[name], value) for name, value in pairs(text) if name in READ_BACK and value != TO_COME]
    return {name: written(value) for name, written, value in known}
