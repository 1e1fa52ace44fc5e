"""paddock-switch: proves a service on the host, and brings the last good one back where it does not pass.

paddock-switch switch              the record on standard input
paddock-switch rollback REASON
paddock-switch check               what is not as it was proved; exit status 1 where anything is not
paddock-switch watch               the same, and starts the service where that can help
paddock-switch wait-device SECONDS PROGRAM DEVICE...
"""

from __future__ import annotations

import json
import os
import signal
import sys

from roles.probe_tools import read
from roles.service.gate.devices import wait
from roles.service.gate.host import Trouble, say
from roles.service.gate.switch import rollback, switch
from roles.service.gate.watch import watch


def main(words: list[str], data: str) -> int:
    """The exit status. What went wrong is the last line."""
    os.environ["LC_ALL"] = "C"
    os.environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # whoever started it may be gone
    found: str | None = None
    try:
        if words[:1] == ["switch"]:
            switch(data, json.loads((read(words[1]) or "null") if words[1:] else sys.stdin.read()))
        elif words[:1] == ["rollback"]:
            rollback(data, " ".join(words[1:]) or "as asked for")
        elif words in (["check"], ["watch"]):
            found = watch(data, act=words == ["watch"])
        elif words[:1] == ["wait-device"] and len(words) > 3:
            found = wait(words[2], words[3:], float(words[1]))
        else:
            found = "what shall be done? One of switch, rollback, check, watch, wait-device"
    except (Trouble, OSError) as error:
        found = str(error)
    except (ValueError, TypeError, KeyError) as error:
        found = f"this is no record of a service: {error!r}"
    if found:
        say("paddock: " + found)
    return 1 if found and words != ["watch"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0])))))
