"""The cheap part of the gate, every few minutes: is the service still what was proved, and would a start mend it?"""

from __future__ import annotations

import re
import time
from typing import Any

from roles.probe_tools import read
from roles.service.gate.causes import cause, explained
from roles.service.gate.devices import SILENT, is_cuda, lost, missing, slept, suspend_fix, unfit_driver
from roles.service.gate.host import Served, Server, Trouble, alone, load, save, say
from roles.service.gate.switch import DEATHS, brought_up, cut_off, switch

STARTS, WITHIN = 3, 3600.0  # no more starts than that in so many seconds


def problem(served: Served, known: dict[str, Any]) -> tuple[str, bool]:
    """What is wrong, as a sentence, and whether it is of a kind that another start mends. Nothing where all is well,
    where a person stopped the service, or where it is on its way."""
    now = served.show("ActiveState", "Result", "MainPID", "UnitFileState")
    record, state, pid = served.record, now.get("ActiveState"), now.get("MainPID", "0")
    if state == "failed":
        log = served.journal("--lines=100")
        found = cause(log)
        return f"llama-server has failed ({now['Result']}){explained(log)}", not found or found["helps"]
    if state != "active":
        return "", False
    if "PADDOCK_STAMP=" + record["stamp"] not in (read("/proc/" + pid + "/environ") or "").split("\0"):
        return "what runs is another process than the one that was proved", False
    gone = lost(pid, record["devices"])
    if gone and asleep(record):
        return "", False
    if gone == SILENT:  # a busy card, or a driver that was updated below a service that works
        return SILENT + ", so whether llama-server has its device is not known", False
    if gone:
        return "llama-server has lost its device: " + gone, True
    if record["devices"] and known.get("pid") != pid and on_cpu(served, pid):
        return "llama-server runs on the CPU since its last start", True
    return "", False


def asleep(record: dict[str, Any]) -> bool:
    """Whether it has given its model back, as nobody asks (--sleep-idle-seconds). This question does not wake it."""
    _, props = Server(record).ask("/props")
    return isinstance(props, dict) and bool(props.get("is_sleeping"))


def on_cpu(served: Served, pid: str) -> bool:
    """Whether a process has loaded its model, and none of it onto a device. The journal of before may be gone, and
    a process of before the boot may have had the same number."""
    log = "\n".join(served.journal("--boot", "_PID=" + pid, "--lines=3000"))
    sizes = re.findall(r"(\S+) +model buffer size", log)
    return bool(sizes) and not any(re.match(r"(CUDA|RPC)\d", device) for device in sizes)


def judged(served: Served, found: str, helps: bool, starts: list[float]) -> tuple[str, bool]:
    """The whole sentence, and whether to start the service now: never against a driver that needs a reboot, never
    without the devices, never again and again."""
    record = served.record
    cuda = any(map(is_cuda, record["devices"]))
    unfit = unfit_driver() if cuda else None
    if unfit:
        return f"reboot: {found}, and {unfit}", False
    if not helps:
        return found, False
    # The process that has lost its device still holds on to it: what is asked is whether another would find it.
    gone = missing(record["server"], record["devices"]) if record["devices"] else None
    hint = "; " + suspend_fix() if cuda and slept() > 60 else ""
    if gone:
        return found + "; a start would not help: " + gone + hint, False
    if len([one for one in starts if one > time.time() - WITHIN]) >= STARTS:
        return f"{found}; it was started {STARTS} times within an hour, and is left alone now{hint}", False
    return found + hint, True


def watch(data: str, act: bool) -> str:
    """Look, and start the service where that can help; what was found, or nothing. `watchdog.json` keeps it."""
    left = cut_off(data)
    if left and act:
        return finished(data, left)
    record, known = load(data + "/proved.json"), load(data + "/watchdog.json") or {}
    if record is None:
        return ""
    served = Served(record)
    try:
        with alone(data, 0):
            if not served.holds(record):
                return ""  # a person's own unit, or one that was never proved
            found, helps = problem(served, known)
            if not act:
                return found
            told, start = judged(served, found, helps, known.get("starts", [])) if found else ("", False)
            pid = None if found else served.show("MainPID").get("MainPID")
            starts = [one for one in known.get("starts", []) if one > time.time() - WITHIN]
            if start:
                starts.append(time.time())
                told += started(served)
            note = {"schema": 1, "stamp": record["stamp"], "said": told, "starts": starts, "pid": pid}
            if any(known.get(name) != value for name, value in note.items()):
                save(data + "/watchdog.json", {**note, "time": time.time()})
            return told
    except Trouble as why:  # a switch is at work, or systemd is too busy
        say("nothing was looked at: " + str(why))
        return ""


def finished(data: str, left: dict[str, Any]) -> str:
    """How a switch ended that a power cut had ended before. One that is at work has the lock, and is left alone."""
    try:
        switch(data, left, wait=0)
    except Trouble as why:
        return str(why)
    return ""


def started(served: Served) -> str:
    """How another start went, as the end of a sentence."""
    try:
        brought_up(served, DEATHS)
    except Trouble as why:
        return "; it was started again, and does not pass: " + str(why)
    return "; it was started again and answers"
