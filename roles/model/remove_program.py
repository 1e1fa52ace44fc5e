"""Runs on the host: removes downloaded models. Arguments: the folder of all models, then folders below it.

Only what a download leaves goes: a file with its sidecar, its part, a bad one. What else lies there stays.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys


def ours(path: str) -> bool:
    """Whether a download wrote this."""
    if path.endswith((".part", ".bad", ".json.new")):
        return True
    name = path[:-5] if path.endswith(".json") else path
    try:
        with open(name + ".json") as sidecar:
            return "sha256" in json.load(sidecar)
    except (OSError, ValueError, TypeError):
        return False


def remove(folder: str) -> None:
    gone = []
    for at, _, files in os.walk(folder):
        paths = [os.path.join(at, name) for name in files]
        # Sidecars last: a run that is cut off here leaves no file that nobody knows.
        gone += sorted(filter(ours, paths), key=lambda path: path.endswith(".json"))
    for path in gone:
        os.unlink(path)
    for at, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(at)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(folder))


def main() -> None:
    root = os.path.realpath(os.path.expanduser(sys.argv[1]))
    for folder in sys.argv[2:]:
        path = os.path.realpath(os.path.join(root, folder))
        if not path.startswith(root + os.sep) or path == root:
            sys.exit("paddock: " + path + " is not below " + root)
        remove(path)


try:
    main()
except OSError as error:
    sys.exit("paddock: " + str(error.filename) + " cannot be removed: " + str(error.strerror))
