"""What a sandbox of the service must reckon with on a host, and what a trial of one found."""

from __future__ import annotations

from typing import Any

from roles.observation import Fragment, Seen
from roles.probe_tools import entries, find_command, read


def look_at_sandbox(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import json
    import os
    import re
    import stat

    def named(folders: list[str]) -> bool:
        """Whether a file of these folders names NVIDIA's module for memory."""
        texts = [read(folder + "/" + name) or "" for folder in folders for name in entries(folder)]
        lines = [line for text in texts for line in text.splitlines() if line[:1] not in ("#", ";")]
        return any(re.search("nvidia[-_]uvm", line) for line in lines)

    modprobe = find_command("nvidia-modprobe")
    rooted = bool(modprobe) and bool(os.stat(modprobe or "").st_mode & stat.S_ISUID)
    places = ("/etc/", "/run/", "/usr/local/lib/", "/usr/lib/")
    loaded = named([place + "modules-load.d" for place in places])
    try:
        trial = json.loads(read(os.path.expanduser(ask["path"])) or "null")
    except ValueError:
        trial = None
    return {
        "modprobe": modprobe if rooted else None,
        "uvm_at_boot": loaded and named([place + "udev/rules.d" for place in places]),
        "trial": trial if isinstance(trial, dict) else None,
    }


class Trial(Seen):
    """The groups of directives in which the release saw the same devices as without. `why`: what was wrong with the
    others."""

    digest: str
    groups: tuple[str, ...]
    why: str = ""


class SandboxSeen(Seen):
    """`modprobe`: NVIDIA's helper that becomes root to make device nodes; `uvm_at_boot`: the nodes come without it."""

    modprobe: str | None = None
    uvm_at_boot: bool = False
    trial: Trial | None = None


NAME = "sandbox.json"
PATH = f"~/.local/share/paddock/{NAME}"
SANDBOX = Fragment("sandbox", look_at_sandbox, lambda _: {"path": PATH}, SandboxSeen, SandboxSeen())
