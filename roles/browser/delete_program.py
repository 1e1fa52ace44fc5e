"""Runs on the host, as the directory's owner: delete a browser's local models, unless the browser runs.

The argument is JSON: the user-data directory, the folders in it, how the browser's processes begin, its Flatpak's name.
"""

from __future__ import annotations

import json
import os
import shutil
import sys


def text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16).replace("\0", " ")
    except OSError:
        return ""


def runs(programs: list[str], app: str) -> bool:
    """By a process of this user. The browser's own lock tells less: it stays after a crash, and numbers come again."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            own = os.stat("/proc/" + pid).st_uid == os.getuid()
        except OSError:
            continue
        line = text("/proc/" + pid + "/cmdline") if own else ""
        if any(line.startswith(os.path.expanduser(program)) for program in programs):
            return True
        if own and app and "app-flatpak-" + app + "-" in text("/proc/" + pid + "/cgroup"):
            return True
    return False


def main() -> None:
    asked = json.loads(sys.argv[1])
    if runs(asked["programs"], asked["app"]):
        sys.exit("paddock: the browser of " + asked["path"] + " runs; close it, and run again")
    for kind in asked["kinds"]:
        folder = os.path.join(asked["path"], kind)
        if os.path.isdir(folder) and not os.path.islink(folder):
            shutil.rmtree(folder)


try:
    main()
except OSError as error:
    sys.exit("paddock: " + str(error))
