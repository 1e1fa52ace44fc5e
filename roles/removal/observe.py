"""What Paddock made on a host, as its own record there and the places that are always its own tell."""

from __future__ import annotations

from typing import Any

from roles.browser.table import FILE, FOLDERS
from roles.host import AWAY
from roles.model.observe_stored import downloads, sidecar_of
from roles.observation import Fragment, Seen
from roles.probe_tools import entries, owner, read


def look_at_made(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import os

    data, cache = os.path.expanduser("~/.local/share/paddock"), os.path.expanduser("~/.cache/paddock")

    def recorded(name: str) -> list[str]:
        return (read(data + "/created/" + name) or "").splitlines()

    def files(folder: str) -> list[str]:
        """All below a folder; links are files, whatever they lead to."""
        found = []
        for place, folders, names in os.walk(folder):
            links = [name for name in folders if os.path.islink(os.path.join(place, name))]
            found += [os.path.join(place, name) for name in names + links]
        return found

    def size(paths: list[str]) -> int:
        total = 0
        for path in paths:
            try:
                total += os.lstat(path).st_blocks * 512
            except OSError:
                continue
        return total

    models = data + "/models"
    root = os.path.realpath(models)
    stored = [path for paths in downloads(root).values() for path in paths]
    # A link and a mount are the user's too, and what is behind them is not looked through.
    others = os.path.islink(models) or os.path.ismount(models) or bool(set(files(models)) - set(stored))

    units = os.path.expanduser("~/.config/systemd/user")
    names = [name for name in entries(units) if name.startswith("paddock-")]
    ours = [name for name in names if (read(units + "/" + name, 200) or "").startswith("# Written by Paddock")]
    system = [name for name in entries("/etc/systemd/system") if name.startswith("paddock-")]
    heads = [read("/etc/systemd/system/" + name, 200) or "" for name in system]
    there = any(head.startswith("# Written by Paddock") for head in heads) or os.path.isdir("/var/lib/paddock")
    return {
        "system": there and owner(ask["away"]) in (None, os.getuid()),
        "units": ours,
        "drop_ins": [name for name in names if name.endswith(".d")],
        "policies": [path for path in ask["policies"] if os.path.lexists(path)],
        "linger": bool(recorded("linger")),
        "packages": recorded("packages"),
        "unsettled": bool(recorded("packages.before")),
        "paths": [path for path in recorded("paths") if os.path.isdir(path)],
        "data": [name for name in entries(data) if name not in ("models", "created", ".claim")],
        "recorded": os.path.isdir(data) and not (others and entries(data) == ["models"]),
        "cache": os.path.isdir(cache),
        "stored": bool(stored),
        "others": others,
        "models": size(stored),
        "rest": sum(size(files(data + "/" + name)) for name in entries(data) if name != "models") + size(files(cache)),
    }


class MadeSeen(Seen):
    """`system`: a service of the system's that is this user's, or what is kept for it. `units`: files of ours in the
    user's manager; `drop_ins`: the user's own beside them. `policies`: our files in the browsers' folders. `linger`:
    Paddock turned it on. `packages`: those that came by Paddock; `unsettled`: an installation was killed, and its list
    is to be made. `paths`: folders that were absent before the first run and are there now. `data`: what lies in our
    own folder beside models and record; `recorded`: that folder is there, for more than what is not ours. `stored`:
    models that downloads wrote; `others`: something else among them, which is the user's. `models`, `rest`: bytes."""

    system: bool = False
    units: tuple[str, ...] = ()
    drop_ins: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    linger: bool = False
    packages: tuple[str, ...] = ()
    unsettled: bool = False
    paths: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    recorded: bool = False
    cache: bool = False
    stored: bool = False
    others: bool = False
    models: int = 0
    rest: int = 0


def ask_for_made(_: Any) -> dict[str, Any]:
    return {"policies": [f"{folder}/{FILE}" for folder in FOLDERS], "away": AWAY}


MADE = Fragment("made", look_at_made, ask_for_made, MadeSeen, helpers=(sidecar_of, downloads))
