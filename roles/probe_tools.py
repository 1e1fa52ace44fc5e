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


def api_keys(path: str) -> list[str]:
    """The keys of a file that llama-server takes and a request can carry: a line each, comments left out."""
    lines = [line.strip() for line in (read(path) or "").splitlines()]
    return [line for line in lines if line and line[0] != "#" and not set('"\\') & set(line)]


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


def user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "uid " + str(uid)


def owner(path: str) -> int | None:
    """The uid that a path belongs to; None where there is none."""
    try:
        return os.stat(path).st_uid
    except OSError:
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


def read_end(path: str, most: int) -> str:
    """The last lines of a file that grows; a line that was cut off is no line. Nothing where it cannot be read."""
    try:
        with open(path, "rb") as file:
            start = max(file.seek(0, os.SEEK_END) - most, 0)
            file.seek(start)
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return text.split("\n", 1)[-1] if start else text


def gguf_metadata(path: str, most: int = 1 << 20) -> dict[str, Any] | None:
    """The scalar metadata at the beginning of a GGUF, up to the tokenizer's; as much as can be read of it.

    None for a file that is no GGUF, or cannot be read.

    Format: github.com/ggml-org/ggml, docs/gguf.md. All numbers are little-endian.
    """
    import struct

    sizes = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
    found: dict[str, Any] = {}
    try:
        with open(path, "rb") as file:
            data = file.read(most)
        version, _, count = (
            struct.unpack_from("<IQQ", data, 4) if data[:4] == b"GGUF" and len(data) >= 24 else (0, 0, 0)
        )
        if not 2 <= version <= 9:
            return None
        at = 24

        def take(form: str) -> Any:
            nonlocal at
            [value] = struct.unpack_from(form, data, at)
            at += struct.calcsize(form)
            return value

        def text() -> str:
            nonlocal at
            size = take("<Q")
            at += size
            if at > len(data):
                raise ValueError("beyond what was read")
            return data[at - size : at].decode("utf-8", "replace")

        for _ in range(count):
            key = text()
            if key.startswith("tokenizer."):
                break
            kind = take("<I")
            if kind == 9:
                item, length = take("<I"), take("<Q")
                if item == 8:
                    for _ in range(length):
                        text()
                else:
                    at += length * struct.calcsize(sizes[item])
            else:
                found[key] = text() if kind == 8 else take(sizes[kind])
    except OSError:
        return None
    except (ValueError, KeyError, struct.error):
        pass  # what was read before stands
    return found
