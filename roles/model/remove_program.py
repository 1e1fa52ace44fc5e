"""Runs on the host: removes downloaded models. Arguments: the folder of all models, then folders below it.

Only what a download wrote goes; what else lies there stays, and so does all of a model that a process uses. `*` is all
of them, used or not: for a host that is to have none.
"""

from __future__ import annotations

import contextlib
import os
import sys

from roles.model.observe_stored import below, downloads, used_by_processes


def remove(folder: str, paths: list[str]) -> None:
    # Sidecars last: a run that is cut off here leaves no file that nobody knows.
    for path in sorted(paths, key=lambda path: path.endswith(".json")):
        os.unlink(path)
    for at, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(at)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(folder))


def main() -> None:
    root = os.path.realpath(os.path.expanduser(sys.argv[1]))
    there = downloads(root)
    if sys.argv[2:] == ["*"]:
        wanted, used = list(there), []
    else:
        wanted, used = sys.argv[2:], below(root, used_by_processes(root))
    for folder in wanted:
        if folder in there and not {folder, os.path.dirname(folder), "."} & set(used):
            remove(os.path.join(root, folder), there[folder])


try:
    main()
except OSError as error:
    sys.exit("paddock: " + str(error.filename) + " cannot be removed: " + str(error.strerror))
