"""Runs on the host: tries a release inside the service's sandbox, and keeps which groups of directives hold.

Argument: JSON with `server` (the release's llama-server), `groups` (directives by name), `digest`, `path` (where the
finding goes), `flags` (of systemd-run: the manager, the account). A group holds where the kernel shows it in force and
llama-server lists the same devices as outside.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from typing import Any

SECONDS = 60
# Runs inside: what the kernel says of this process and its mounts, then what llama-server sees.
INSIDE = """
import json, os, subprocess, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
try:
    done = subprocess.run([sys.argv[1], "--list-devices"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=50)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
except (OSError, subprocess.TimeoutExpired) as error:
    lines = [str(error)]
at = next((n for n, line in enumerate(lines) if line.startswith("Available devices")), None)
print(json.dumps({
    "calls": status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == "2",
    "files": bool(os.statvfs("/usr").f_flag & os.ST_RDONLY),
    "devices": None if at is None else [line.split("(")[0].strip() for line in lines[at + 1:]],
    "said": " ".join(lines[-1:])[:200],
}))
"""


def tried(wanted: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """What the inside tells with these groups; `problem` where it did not come to it."""
    lines = [line for name in names for line in wanted["groups"][name]]
    unit = f"paddock-sandbox-{os.getpid()}-{time.monotonic_ns()}"
    command = ["systemd-run", *wanted["flags"], "--unit=" + unit, "--wait", "--pipe", "--collect", "--quiet"]
    command += [f"--property=RuntimeMaxSec={SECONDS}"]
    command += ["--property=" + line for line in lines]
    try:
        done = subprocess.run(
            [*command, "--", sys.executable or "/usr/bin/python3", "-ISc", INSIDE, wanted["server"]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SECONDS + 20,
        )
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"problem": "it does not come to an end"}
    except (ValueError, IndexError):
        return {"problem": f"it does not start (status {done.returncode})"}
    return answer if isinstance(answer, dict) else {"problem": "it answers " + str(answer)}


def unfit(names: tuple[str, ...], found: dict[str, Any], outside: Any) -> str:
    """What is wrong with a sandbox; empty where nothing is."""
    if "problem" in found:
        return str(found["problem"])
    if found["devices"] != outside:
        told = "no answer" if found["devices"] is None else " and ".join(found["devices"]) or "none"
        return "llama-server sees other devices in it: " + (found["said"] if told == "no answer" else told)
    ignored = [name for name in names if found.get(name) is False]
    return " and ".join(ignored) + " would be ignored by this systemd" if ignored else ""


def most(wanted: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """The groups that hold together, as many as can be, and what was wrong with more."""
    outside = tried(wanted, ())
    if outside.get("devices") is None:
        why = str(outside.get("problem") or outside["said"])
        if "invalid argument" in why:  # a release from before --list-devices; it will be no other at the next run
            return (), why
        sys.exit("paddock: the release cannot be tried: " + why)
    every, why = tuple(wanted["groups"]), ""
    sizes = range(len(every), 0, -1)
    for names in itertools.chain.from_iterable(itertools.combinations(every, size) for size in sizes):
        problem = unfit(names, tried(wanted, names), outside["devices"])
        if not problem:
            return names, why
        why = why or problem
    return (), why


def main(wanted: dict[str, Any]) -> None:
    names, why = most(wanted)
    path = os.path.expanduser(wanted["path"])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({"digest": wanted["digest"], "groups": names, "why": why}, file)
    os.replace(path + ".new", path)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
