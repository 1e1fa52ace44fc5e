"""The unit: what is written, what systemd holds, what runs, and who has the port."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from roles.host import AWAY
from roles.observation import Fragment, Seen
from roles.probe_tools import api_keys, entries, node, owner, read, run, user_name
from roles.service import scope as scopes
from roles.service.command import BENCHMARK, UNIT, WATCHDOG
from roles.service.directives import PROPERTIES


def look_at_service(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import hashlib
    import json
    import os
    import re
    import time

    data, folder = (os.path.expanduser(ask[name]) for name in ("state", "units"))
    theirs = ["--user"] if ask["manager"] == "user" else []

    def kept(name: str, folder: str = data) -> Any:
        """A record that paddock-switch keeps; None where there is none, or it is torn."""
        try:
            told = json.loads(read(folder + "/" + name) or "null")
        except ValueError:
            return None
        return told if isinstance(told, dict) else None

    # That one the deploying user keeps, whosever service it was.
    rejected = kept("rejected.json", os.path.expanduser(ask["kept"])) or {}
    names = ["ActiveState", "SubState", "UnitFileState", "MainPID", "NRestarts", "NeedDaemonReload", "Result"]
    names += ["MemoryCurrent", "MemoryPeak", "InactiveEnterTimestampMonotonic", "LoadState", "DropInPaths"]
    names += ["ExecMainStartTimestampMonotonic"]
    names += ask["properties"]
    shown = run(["systemctl", *theirs, "show", ask["unit"], "--property=" + ",".join(names)])
    properties = dict(line.split("=", 1) for line in (shown or {"out": ""})["out"].splitlines() if "=" in line)
    pid = properties.get("MainPID", "0")
    stamp = re.search(r"\0PADDOCK_STAMP=([0-9a-f]+)", "\0" + (read(f"/proc/{pid}/environ") or ""))
    path = folder + "/" + ask["unit"]
    masked = os.path.realpath(path) == "/dev/null"
    running = stamp.group(1) if stamp else None
    if running is None and not theirs and pid != "0" and properties.get("NeedDaemonReload") == "no":
        # Another account's environment is closed to us. A process that began after the file was written has its stamp.
        began = time.time() - time.monotonic() + int(properties.get("ExecMainStartTimestampMonotonic", "0")) / 1e6
        stamp = re.search(r"PADDOCK_STAMP=([0-9a-f]+)", read(path) or "")
        running = stamp.group(1) if stamp and began > os.stat(path).st_mtime - 1 else None
    elsewhere = read(os.path.expanduser(ask["elsewhere"]) + "/" + ask["unit"], 200) or ""
    if theirs and owner(ask["away"]) not in (None, os.getuid()):
        elsewhere = ""  # the system's service is another user's
    units = folder + "/" + ask["watchdog"]
    program = read(data + "/bin/paddock-switch")
    guard = {
        "program": hashlib.sha256(program.encode()).hexdigest() if program else None,
        "service": read(units + ".service"),
        "timer": "masked" if os.path.islink(units + ".timer") else read(units + ".timer"),
    }

    measuring = run(["systemctl", "--user", "is-active", ask["benchmark"]])
    key_file = node(os.path.expanduser(ask["key_file"])) if ask["key_file"] else None
    if key_file:
        key_file["keys"] = len(api_keys(os.path.expanduser(ask["key_file"])))

    # It has come back since, and systemd's Result is of the last end alone; the journal remembers.
    killed = None
    if properties.get("NRestarts", "0") != "0" or properties.get("Result") == "oom-kill":
        fields = [("USER_UNIT=" if theirs else "UNIT=") + ask["unit"], "UNIT_RESULT=oom-kill"]
        told = run(["journalctl", *theirs, "--boot", "--quiet", "--lines=1", "--output=short-iso", *fields])
        killed = (told or {"out": ""})["out"].partition(" ")[0] or None

    # A listening socket is known by its inode; whose it is, only to its owner and to root.
    inodes, uid = set(), None
    for table in ("tcp", "tcp6"):
        for line in (read("/proc/net/" + table) or "").splitlines()[1:]:
            field = line.split()
            if field[3] == "0A" and int(field[1].rpartition(":")[2], 16) == ask["port"]:
                inodes.add(f"socket:[{field[9]}]")
                uid = int(field[7])
    holder = None
    for process in entries("/proc") if inodes else []:
        for number in entries(f"/proc/{process}/fd") if process.isdigit() else []:
            try:
                link = os.readlink(f"/proc/{process}/fd/{number}")
            except OSError:
                continue
            if link in inodes:
                holder = {"pid": int(process), "name": (read(f"/proc/{process}/comm") or "").strip()}
    main = node("/proc/" + pid)
    if holder is None and not theirs and main and main["uid"] == uid:  # the account is the service's alone
        holder = {"pid": int(pid), "name": (read(f"/proc/{pid}/comm") or "").strip()}
    return {
        "last_good": (kept("last-good.json") or {}).get("text"),
        "unit": None if masked else read(path),
        "masked": masked,
        "properties": properties,
        "outgrew": killed,
        "rejected": {stamp: str(why) for stamp, why in rejected.items()},
        "proved": (kept("proved.json") or {}).get("stamp"),
        "switch": kept("switch.json"),
        "watchdog": kept("watchdog.json"),
        "guard": guard if any(guard.values()) else None,
        "measuring": (measuring or {"out": ""})["out"].strip() == "active",
        "key_file": key_file,
        "running_stamp": running,
        "elsewhere": elsewhere.startswith("# Written by Paddock"),
        "first_port": int((read("/proc/sys/net/ipv4/ip_unprivileged_port_start") or "1024").strip()),
        "port_taken": bool(inodes),
        "port_holder": holder,
        "port_owner": user_name(uid) if uid is not None else None,
        "system_config": os.path.exists("/etc/llama.cpp/config.ini"),
    }


class Process(Seen):
    pid: int
    name: str


class KeyFile(Seen):
    """What stands where the API keys are, and how many it holds; never one of them."""

    kind: str
    mode: int
    uid: int
    size: int
    mtime_ns: int
    keys: int = 0


class Switched(Seen):
    """How the last switch ended: the `stamp` that was wanted, and `why` it did not pass. `stopped`: when, by systemd's
    InactiveEnterTimestampMonotonic, it stopped a service that did not pass; `loaded`: seconds from start to answer."""

    stamp: str
    why: str = ""
    stopped: str = ""
    loaded: float | None = None


class Watched(Seen):
    """What the watchdog found of the service of that `stamp`; nothing where all was well."""

    stamp: str
    said: str = ""


class Guard(Seen):
    """paddock-switch by its sha256, and the texts of the watchdog's units."""

    program: str | None = None
    service: str | None = None
    timer: str | None = None

    def masked(self, wanted: Guard) -> bool:
        """Somebody masked the timer, and the program is there all the same."""
        return self.timer == "masked" and self.program == wanted.program


class ServiceSeen(Seen):
    """`unit`: the text of its file; `properties`: systemd's own, as printed; `running_stamp`: the process's; `proved`:
    the stamp of the last one that was seen to answer; `last_good`: the unit that comes back where a new one fails.
    `rejected`: by stamp, why a service was taken back although it answered.
    `elsewhere`: our unit is in the other manager too, the user's or the system's. `outgrew`: when the kernel killed it
    since the last boot as it outgrew its cap, as journalctl writes it; `system_config`: a file of settings that every
    llama.cpp on this host reads; `measuring`: a benchmark is under way, of an earlier run that was interrupted."""

    unit: str | None
    masked: bool = False
    properties: dict[str, str]
    running_stamp: str | None
    proved: str | None
    last_good: str | None = None
    rejected: dict[str, str] = Field(default_factory=dict)
    outgrew: str | None = None
    switch: Switched | None = None
    watchdog: Watched | None = None
    guard: Guard | None = None
    measuring: bool = False
    key_file: KeyFile | None
    first_port: int
    port_taken: bool
    port_holder: Process | None
    port_owner: str | None = None
    system_config: bool = False
    elsewhere: bool = False

    def shown(self, name: str) -> str:
        return self.properties.get(name, "")

    @property
    def active(self) -> bool:
        return self.shown("ActiveState") == "active"

    @property
    def main_pid(self) -> int:
        return int(self.shown("MainPID") or 0)


def ask_for_service(wishes: Any) -> dict[str, Any]:
    wanted = wishes.settings.service
    scope = scopes.of(wanted)
    return {
        "unit": UNIT,
        "properties": PROPERTIES,
        "watchdog": WATCHDOG,
        "benchmark": BENCHMARK,
        "manager": scope.manager,
        "units": scope.units,
        "state": scope.state,
        "kept": scopes.USER.state,
        "elsewhere": scopes.other(scope).units,
        "away": AWAY,
        "port": wanted.port,
        "key_file": wanted.api_key_file,
    }


SERVICE = Fragment("service", look_at_service, ask_for_service, ServiceSeen)
