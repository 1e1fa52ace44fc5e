"""Which browsers are installed and how, and everything that stands where they read policies."""

from __future__ import annotations

from typing import Any, Literal

from roles.browser.table import FOLDERS, as_asked
from roles.observation import Fragment, Seen
from roles.probe_tools import entries, find_command, read, run

Packaging = Literal["deb", "rpm", "pacman", "snap", "flatpak", "other"]
MOST = 1 << 20  # bytes of a policy file, and
FILES = 200  # files in a folder; with more of either nothing is judged


def browser_mark(row: dict[str, Any]) -> str | None:
    """Runs on the host. The file that tells that a browser is there, the newest by name."""
    import glob
    import os

    for path in row["marks"]:
        found: list[str] = sorted(glob.glob(os.path.expanduser(path)))
        if found:
            return found[-1]
    command = find_command(row["command"]) if row["command"] else None
    if command and "/snap" in os.path.realpath(command) + command:
        return None  # the snap has a row of its own
    return command


def browser_packages(names: list[str]) -> dict[str, tuple[str, str]]:
    """Runs on the host. Version and kind of the packages that are installed, by name."""
    import os

    found: dict[str, tuple[str, str]] = {}
    told: list[tuple[str, dict[str, Any] | None]] = []
    if names and os.path.exists("/var/lib/dpkg/status"):
        told.append(("deb", run(["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\\n", *names])))
    if names and (os.path.isdir("/usr/lib/sysimage/rpm") or os.path.isdir("/var/lib/rpm")):
        told.append(("rpm", run(["rpm", "-q", "--qf", "%{NAME} %{VERSION} installed\\n", *names])))
    for kind, answer in told:
        for line in (answer or {}).get("out", "").splitlines():
            word = line.split()
            if len(word) == 3 and word[2] == "installed":
                found[word[0]] = (word[1], kind)
    for entry in entries("/var/lib/pacman/local") if names else []:
        part = entry.rsplit("-", 2)
        if len(part) == 3 and part[0] in names:
            found[part[0]] = (part[1], "pacman")
    return found


def browser_shares_etc(app: str, place: str) -> bool | None:
    """Runs on the host. Whether a Flatpak may see the host's /etc, where its launcher looks; None: not known."""
    import os
    import re

    texts = [read(place + "/active/metadata")]
    if texts[0] is None:
        return None
    for base in ("/var/lib/flatpak", os.path.expanduser("~/.local/share/flatpak")):
        texts += [read(base + "/overrides/global"), read(base + "/overrides/" + app)]
    shares: dict[str, bool] = {}
    for text in texts:
        for line in re.findall(r"^filesystems=(.*)$", text or "", re.M):
            for word in map(str.strip, line.split(";")):
                if word in ("!host:reset", "!host-reset"):
                    shares.clear()
                name = word.partition(":")[0]
                if name.lstrip("!") in ("host", "host-etc"):  # each is taken away by its own name
                    shares[name.lstrip("!")] = not name.startswith("!")
    return any(shares.values())


def browser_plugged(name: str) -> bool | None:
    """Runs on the host. Whether the snap's plug for policies is connected; None where snapd does not tell."""
    told = run(["snap", "connections", name])
    for line in (told or {}).get("out", "").splitlines():
        field = line.split()
        if len(field) > 2 and field[1].endswith("-browser-policies"):
            return bool(field[2] != "-")
    return None


def browser_folder(folder: str, files: int, most: int) -> dict[str, Any]:
    """Runs on the host. What a browser would read in a folder, in byte order, and the modes on the way to it."""
    import os
    import stat

    modes: dict[str, int | None] = {}
    found, part = [], folder
    while part not in ("/etc", "/"):
        try:
            modes[part] = stat.S_IMODE(os.stat(part).st_mode)
        except OSError:
            modes[part] = None
        part = os.path.dirname(part)
    names = sorted(os.fsencode(name) for name in entries(folder))
    for name in names[:files]:
        path = os.path.join(os.fsencode(folder), name)
        try:
            mode = os.stat(path).st_mode
            # Root reads what a browser cannot: its users are others.
            if not stat.S_ISREG(mode) or (os.getuid() == 0 and not mode & 0o004):
                continue
            own = os.lstat(path)
            with open(path, "rb") as file:
                raw = file.read(most + 1)
        except OSError:
            continue
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            text = None
        found.append(
            {
                "name": name.decode("utf-8", "backslashreplace"),
                "text": text,
                "whole": len(raw) <= most,
                "mode": stat.S_IMODE(own.st_mode),
                "uid": own.st_uid,
            }
        )
    return {"modes": modes, "files": found, "more": len(names) > files}


def look_at_browser(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import re

    there = [(row, path) for row in ask["rows"] for path in [browser_mark(row)] if path]
    native = [name for row, _ in there if row["packaging"] == "native" for name in row["packages"]]
    known = browser_packages(native)
    installs = []
    for row, path in there:
        version, kind, reaches = None, row["packaging"], None
        if kind == "native":
            version, kind = next((known[name] for name in row["packages"] if name in known), (None, "other"))
        elif kind == "snap":
            found = re.search(r"^version:\s*['\"]?([\w.-]+)", read(path + "/meta/snap.yaml") or "", re.M)
            version = found.group(1) if found else None
            reaches = browser_plugged(row["packages"][0]) if row["folder"] else None
        elif row["folder"]:
            reaches = browser_shares_etc(row["packages"][0], path)
        installs.append({"id": row["id"], "packaging": kind, "version": version, "reaches": reaches})
    folders = {folder: browser_folder(folder, ask["files"], ask["most"]) for folder in ask["folders"]}
    return {"installs": installs, "folders": folders}


class Install(Seen):
    """One browser in one packaging. `reaches`: whether a snap or Flatpak may read the folder; None: not known."""

    id: str
    packaging: Packaging
    version: str | None = None
    reaches: bool | None = None


class PolicyFile(Seen):
    """A file that the browser reads. `text`: None where it is not UTF-8; `whole`: not cut off; mode and uid are the

    link's own where it is one.
    """

    name: str
    text: str | None
    whole: bool = True
    mode: int = 0o644
    uid: int = 0


class Folder(Seen):
    """`modes`: of the folders that lead to the files, None where one is missing; `files`: in byte order."""

    modes: dict[str, int | None]
    files: tuple[PolicyFile, ...] = ()
    more: bool = False

    @property
    def closed(self) -> str | None:
        """A folder on the way that somebody closed to ordinary users."""
        return next((path for path, mode in self.modes.items() if mode is not None and mode & 0o005 != 0o005), None)

    def file(self, name: str) -> PolicyFile | None:
        """The file of this name."""
        return next((file for file in self.files if file.name == name), None)


class BrowserSeen(Seen):
    installs: tuple[Install, ...] = ()
    folders: dict[str, Folder]


UNKNOWN = BrowserSeen(folders={folder: Folder(modes={}) for folder in FOLDERS})

BROWSER = Fragment(
    "browser",
    look_at_browser,
    lambda _: {"rows": as_asked(), "folders": FOLDERS, "most": MOST, "files": FILES},
    BrowserSeen,
    UNKNOWN,
    (browser_mark, browser_packages, browser_shares_etc, browser_plugged, browser_folder),
)
