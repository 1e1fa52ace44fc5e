"""What the browsers' local AI took already: models on disk, in this user's homes, and processes that hold one."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from roles.browser.table import MODEL_FOLDERS, MODEL_SERVICE, as_asked
from roles.observation import Fragment, Seen
from roles.probe_tools import entries, node, read

MOST = 10_000  # files and folders that are counted; a model has a few dozen


def browser_processes(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host. Which browsers of this user run, with which directories; and whose process holds a model."""
    import os

    running, services, moved = set(), [], {}
    flatpaks = os.path.isdir(os.path.expanduser("~/.var/app"))
    for pid in [name for name in entries("/proc") if name.isdigit()]:
        words = (read("/proc/" + pid + "/cmdline", 1 << 16) or "").split("\0")
        line = " ".join(words).strip()  # a child of the browser's has it in one piece
        holds = "--utility-sub-type=" + ask["service"] in line
        try:
            own = os.stat("/proc/" + pid).st_uid == os.getuid()
        except OSError:
            continue
        if not own and not holds:
            continue
        # The scope that a Flatpak runs in has its name; within it a launcher may stand for the browser.
        scope = (read("/proc/" + pid + "/cgroup") or "") if holds or flatpaks else ""
        known = ""
        for row in ask["rows"]:
            named = row["packaging"] == "flatpak" and "app-flatpak-" + row["packages"][0] + "-" in scope
            if named or any(line.startswith(os.path.expanduser(program)) for program in row["programs"]):
                known = row["id"]
        if holds:
            services.append({"pid": int(pid), "program": line.partition(" -")[0], "id": known})
        if own and known:
            running.add(known)
            for word in words if "--type=" not in line else ():
                if word.startswith("--user-data-dir=/"):
                    moved[word.partition("=")[2]] = known
    return {"running": sorted(running), "services": services, "moved": moved}


def browser_profile(path: str, ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host. A user-data directory: the models in it, and its last version."""
    import os
    import re

    models = {}
    for kind in ask["kinds"]:
        folder, size, left = path + "/" + kind, 0, ask["most"]
        # A browser makes these folders before there is a model, and leaves them when it has deleted one.
        for base, _, names in os.walk(folder) if not os.path.islink(folder) else ():
            sizes = [node(os.path.join(base, name)) for name in names[:left]]
            size += sum(one["size"] for one in sizes if one)
            left -= 1 + len(names)
            if left <= 0:
                break
        if size:
            models[kind] = size
    last = re.match(r"[\d.]+", read(path + "/Last Version") or "")
    return {"path": path, "version": last.group(0) if last else None, "models": models}


def look_at_browser_models(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import os

    home = os.path.expanduser("~")
    config = os.environ.get("CHROME_CONFIG_HOME") or os.environ.get("XDG_CONFIG_HOME") or home + "/.config"
    processes = browser_processes(ask)
    places: dict[str, str] = {}
    for row in ask["rows"]:
        for data in row["data"]:
            path = config + data[7:] if data.startswith(".config/") else home + "/" + data
            places.setdefault(os.path.realpath(path), row["id"])
    for path, name in processes["moved"].items():
        places.setdefault(os.path.realpath(path), name)
    profiles = []
    for path, name in places.items():
        if os.path.isdir(path):
            running = name in processes["running"]
            profiles.append({**browser_profile(path, ask), "id": name, "running": running})
    return {"profiles": profiles, "services": processes["services"]}


class Profile(Seen):
    """A user-data directory. `version`: of the browser that last used it; `models`: bytes by folder;

    `owner`: another user than that of this run.
    """

    path: str
    id: str
    version: str | None = None
    running: bool = False
    models: dict[str, int] = Field(default_factory=dict)
    owner: str = ""

    @property
    def size(self) -> int:
        """Bytes of all models."""
        return sum(self.models.values())


class Service(Seen):
    """A process that holds a local model for a browser, anybody's. `id`: the browser's row; empty: not known."""

    pid: int
    program: str
    id: str = ""


class ModelsSeen(Seen):
    profiles: tuple[Profile, ...] = ()
    services: tuple[Service, ...] = ()


MODELS = Fragment(
    "browser_models",
    look_at_browser_models,
    lambda _: {"rows": as_asked(), "kinds": MODEL_FOLDERS, "most": MOST, "service": MODEL_SERVICE},
    ModelsSeen,
    ModelsSeen(),
    (browser_processes, browser_profile),
)
