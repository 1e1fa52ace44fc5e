"""What runs on the host inside the probe, for every role: Python 3.8's standard library and nothing else.

The source of this file is sent ahead of the roles' own fragments, so it imports nothing of Paddock.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from typing import Any


def run(argv: list[str], seconds: float = 5) -> dict[str, Any] | None:
    """What a tool printed; None where it does not exist. A tool that hangs has the return code None.

    One that cannot even be killed (a lost GPU leaves nvidia-smi in the kernel) is left behind.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        return {"rc": None, "out": "", "err": str(error)}
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)
        return {"rc": None, "out": "", "err": f"no answer within {seconds:g} s"}
    return {"rc": process.returncode, "out": out, "err": err}


def read(path: str, most: int = 1 << 20) -> str | None:
    """The text of a small file; None where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(most)
    except OSError:
        return None


def node(path: str) -> dict[str, Any] | None:
    """What stands at a path, links not followed; None where nothing does."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    kind = "file" if stat.S_ISREG(found.st_mode) else "dir" if stat.S_ISDIR(found.st_mode) else "other"
    return {
        "kind": kind,
        "mode": stat.S_IMODE(found.st_mode),
        "uid": found.st_uid,
        "size": found.st_size,
        "mtime_ns": found.st_mtime_ns,
    }


def find_command(name: str) -> str | None:
    """The absolute path of a command, sbin included: a login's PATH is not a service's."""
    for folder in [*os.environ.get("PATH", "").split(":"), "/usr/local/sbin", "/usr/sbin", "/sbin"]:
        path = os.path.join(folder, name)
        if folder and os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def entries(folder: str) -> list[str]:
    """The names in a folder, sorted; none where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def newest_kernel() -> str:
    """The release of the newest kernel that has modules on disk: what the next boot brings."""
    import re

    def parts(name: str) -> list[tuple[int, str]]:
        return [(int(number or 0), word) for number, word in re.findall(r"(\d+)|([^\d]+)", name)]

    names = [name for name in entries("/lib/modules") if os.path.exists("/lib/modules/" + name + "/modules.dep")]
    return max(names, key=parts) if names else os.uname().release
