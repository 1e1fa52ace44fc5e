"""Which files on the host a download wrote, and which models something there uses.

These functions go to the host with the probe, and with the program that removes models: what the one sees and what the
other does must agree. Python 3.8, as all that runs there; probe_tools.py stands ahead of them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from roles.probe_tools import entries, read


def sidecar_of(path: str) -> Any:
    """What a download noted of a file that it had verified; None where it did not."""
    import json

    try:
        told = json.loads(read(path + ".json") or "null")
    except ValueError:
        return None
    kinds = {"sha256": str, "size": int, "mtime_ns": int}
    ours = isinstance(told, dict) and all(isinstance(told.get(name), kind) for name, kind in kinds.items())
    return told if ours else None


def downloads(root: str) -> dict[str, list[str]]:
    """The files that downloads wrote, by their folder below that of all models. Links are somebody's own."""
    import re

    found: dict[str, list[str]] = {}
    for folder in [owner + "/" + name for owner in entries(root) for name in entries(os.path.join(root, owner))]:
        top = os.path.join(root, folder)
        if not re.fullmatch(r"(url|[\w.-]+--[\w.-]+)/[0-9a-f]{12}", folder) or os.path.realpath(top) != top:
            continue
        for at, _, files in os.walk(top):
            for path in [os.path.join(at, file) for file in files]:
                unfinished = path.endswith((".part", ".bad", ".json.new"))
                known = unfinished or sidecar_of(path[:-5] if path.endswith(".json") else path)
                if known and not os.path.islink(path):
                    found.setdefault(folder, []).append(path)
    return found


def paths_in(text: str) -> Iterator[str]:
    """Whatever may be a path in a unit, a script, a list of arguments, absolute. Those of Paddock's models also where
    only a shell could tell what stands before them."""
    import re

    home, models = os.path.expanduser("~"), "/paddock/models"
    for word in {*re.split(r"[\s\"'=:,;\0]+", text), *re.findall(r"[\"'](?:[^\"'\n]*=)?([^\"'\n]*)[\"']", text)}:
        word = word.lstrip("-@+!")
        for short in ("%h", "$HOME", "${HOME}", "~"):
            if word.startswith(short + "/"):
                word = home + word[len(short) :]
        if word.startswith("/"):
            yield word
        elif models in word:
            yield home + "/.local/share" + models + word.partition(models)[2]


def texts_of_units() -> Iterator[str]:
    """Units of this user and of the administrator, and the small files that they name: environments, scripts, lists."""
    run = "/run/user/" + str(os.getuid()) + "/systemd"
    folders = ["~/.config/systemd", "~/.local/share/systemd", "~/.config/containers/systemd", run, "/etc/systemd"]
    folders += ["/etc/containers/systemd", "/run/systemd/system", "/run/systemd/transient", "/usr/local/lib/systemd"]
    seen = set()
    paths = [os.path.expanduser("~/.local/share/paddock/last-good.json"), "/var/lib/paddock/last-good.json"]
    for folder in folders:
        for at, inside, files in os.walk(os.path.expanduser(folder), followlinks=True):
            if os.path.realpath(at) in seen:
                del inside[:]  # a link that leads in a circle
                continue
            seen.add(os.path.realpath(at))
            paths += [os.path.join(at, name) for name in files]
    units = [path for path in paths if not os.path.realpath(path).startswith(("/usr/lib/", "/lib/"))]
    texts = [read(path, 1 << 18) or "" for path in units if os.path.isfile(path)]
    yield from texts
    for path in {path for text in texts for path in paths_in(text)}:
        if path.startswith(("/usr/", "/bin/", "/proc/", "/sys/", "/dev/")):
            continue
        with contextlib.suppress(OSError, ValueError):
            if os.path.isfile(path) and os.path.getsize(path) <= 1 << 16:
                yield read(path) or ""


def used_by_processes(root: str) -> Iterator[str]:
    """The paths that processes were given, hold open or have mapped; of other users only the first can be read."""
    for process in filter(str.isdigit, entries("/proc")):
        yield from paths_in(read("/proc/" + process + "/cmdline") or "")
        for line in (read("/proc/" + process + "/maps", 1 << 22) or "").splitlines():
            if root in line:
                yield line[line.index(root) :]
        for number in entries("/proc/" + process + "/fd"):
            with contextlib.suppress(OSError):
                yield os.readlink("/proc/" + process + "/fd/" + number)


def below(root: str, paths: Any) -> list[str]:
    """The folders of models that paths lead to, links followed: `owner/name`, `owner` or `.` for all of them."""
    found = set()
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            real = os.path.realpath(path)
            if (real + "/").startswith(root + "/"):
                found.add("/".join(os.path.relpath(real, root).split("/")[:2]))
    return sorted(found)


HELPERS: tuple[Callable[..., Any], ...] = (sidecar_of, downloads, paths_in, texts_of_units, used_by_processes, below)
