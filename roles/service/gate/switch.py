"""From one service to another, proved; or back to the last good one, proved too.

`proved.json` is the record of the service that was last proved, `last-good.json` of the one before it: unit, release,
model and plan as one. `candidate.json` is there while a switch is at work; where a power cut ended it, the watchdog
takes it up. `switch.json` says how the last one ended, for a controller that may be gone.
"""

from __future__ import annotations

import os
import time
from typing import Any

from roles.service.gate.causes import explained
from roles.service.gate.devices import out_of_reach
from roles.service.gate.host import Served, Trouble, alone, load, save, say, write
from roles.service.gate.proof import patience, prove

DEATHS = 3  # of the last good, which is known to work; a new one that dies is not tried again


def switch(data: str, record: dict[str, Any], wait: float | None = None) -> None:
    """The unit of this record runs and is proved, and is what the next one is compared with. Raises Trouble; then the
    last good one runs, or none. `wait`: seconds for another switch to end."""
    with alone(data, record["seconds"] * 6 if wait is None else wait):
        before, served = load(data + "/proved.json"), Served(record)
        again = before is not None and before["stamp"] == record["stamp"]
        if before and not again and served.holds(before):
            save(data + "/last-good.json", before)
        disabled = by_hand(served, before or load(data + "/last-good.json"))
        outcome: dict[str, Any] = {
            "schema": 1,
            "stamp": record["stamp"],
            "began": time.time(),
            "why": "",
            "stopped": "",
        }
        problem = out_of_reach(record["devices"], 10)
        if problem:  # what works is not stopped for it
            outcome["why"] = problem + "; nothing was changed"
            save(data + "/switch.json", outcome)
            raise Trouble(outcome["why"])
        save(data + "/candidate.json", record)
        try:
            outcome.update(brought_up(served, deaths=1))
            if not served.holds(record):
                raise Trouble("another run has replaced the unit meanwhile")
        except Trouble as why:
            former = None if again else load(data + "/last-good.json")
            outcome["why"] = str(why)
            if served.holds(record):
                outcome["why"] += back_to(data, former, disabled) if former else stopped(served, outcome)
        else:
            # Only now is it what was wanted: one that is cut off before this line is proved again.
            settled(data, served, disabled)
        save(data + "/switch.json", outcome)
        os.unlink(data + "/candidate.json")
    if outcome["why"]:
        raise Trouble(outcome["why"])
    say(f"llama-server answered {outcome['loaded']:.1f} s after its start, and passed")
    for note in outcome["notes"]:
        say("note: " + note)


def cut_off(data: str) -> dict[str, Any] | None:
    """The record of a switch that did not come to its end, if its unit is what is on disk."""
    record = load(data + "/candidate.json")
    return record if record and Served(record).holds(record) else None


def rollback(data: str, reason: str) -> None:
    """The service before the present one is back and proved. Raises Trouble."""
    former, present = load(data + "/last-good.json"), load(data + "/proved.json")
    # After a switch that did not pass they are the same, and a restart would be no way back.
    if former is None or (present and present["stamp"] == former["stamp"] and Served(present).holds(present)):
        raise Trouble("there is no former service to go back to")
    say(f"going back to release {former['release']}: {reason}")
    switch(data, former)


def brought_up(served: Served, deaths: int) -> dict[str, Any]:
    """One restart, and what `prove` tells of it. Raises Trouble."""
    seconds = patience(served.record)
    if served.text() != served.record["text"]:
        write(served.path, served.record["text"])
    served.ctl("daemon-reload")
    served.ctl("reset-failed", served.name)
    since = time.time()
    if served.ctl("restart", served.name, seconds=300) is None:
        time.sleep(0.5)  # the journal's last lines
        raise Trouble("llama-server could not be started" + explained(served.since(since)))
    try:
        return prove(served, since, seconds, deaths)
    except Trouble:
        raise
    except Exception as error:  # whatever was answered: what is not proved must not stay for it
        raise Trouble(f"llama-server answers what Paddock does not understand: {error!r}") from error


def by_hand(served: Served, before: dict[str, Any] | None) -> bool:
    """Somebody disabled it: it was enabled when it was proved. It runs until the next boot then, as they want it."""
    if before is None or not before["autostart"]:
        return False
    return served.show("UnitFileState").get("UnitFileState") == "disabled"


def settled(data: str, served: Served, disabled: bool) -> None:
    """This is the service from now on, and starts at boot where it shall."""
    word = "enable" if served.record["autostart"] else "disable"
    if not disabled and served.ctl(word, "--quiet", served.name) is None:
        say(f"note: systemctl could not {word} {served.name}, and what happens at boot is not what is wanted")
    save(data + "/proved.json", served.record)
    link = data + "/current"
    if os.path.islink(link + ".new"):
        os.unlink(link + ".new")
    os.symlink("releases/" + served.record["release"], link + ".new")
    os.replace(link + ".new", link)


def back_to(data: str, record: dict[str, Any], disabled: bool) -> str:
    """Bring the last good service back, and prove it; how that went, as the end of a sentence."""
    say("going back to the former service")
    served = Served(record)
    try:
        brought_up(served, DEATHS)
    except Trouble as why:
        return "; the former service was started again, and does not pass either: " + str(why)
    settled(data, served, disabled)
    return "; the former service was started again and answers"


def stopped(served: Served, outcome: dict[str, Any]) -> str:
    """A service that was not proved does not run on, where there is no former one. Nobody stopped it by hand."""
    served.ctl("stop", served.name, seconds=120)
    outcome["stopped"] = served.show("InactiveEnterTimestampMonotonic").get("InactiveEnterTimestampMonotonic", "")
    return "; it was stopped"
