"""Long jobs: transient user units on the host, capped, killed as a whole, alive when the connection drops."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path

from roles.remote import Script

PROGRAM = (Path(__file__).parent / "job_program.py").read_text("utf-8")


@dataclass(frozen=True)
class Job:
    """A shell program in the unit `paddock-NAME`.

    `seconds` and `memory` (bytes) cap it. Progress is that of ninja's step counter in its log, or of the files `watch`
    (or their parts, NAME.part) on their way to `total` bytes, with its log's last line. `secret` is text that the
    script finds in the file $XDG_RUNTIME_DIR/paddock-NAME.secret (0600, in memory) and must remove. `after` is a
    command that runs when the unit has ended, however it did: killed, too.
    """

    name: str
    title: str
    text: str
    args: tuple[str, ...]
    seconds: int
    memory: int
    watch: tuple[str, ...] = ()
    total: int = 1
    secret: str = ""
    after: str = ""

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    @property
    def script(self) -> str:
        values = " ".join(shlex.quote(arg) for arg in self.args)
        return (
            "export LC_ALL=C\nfail() { printf 'paddock: %s\\n' \"$*\"; exit 1; }\n"
            f"job() {{\nset -eu\n{self.text}\n}}\njob {values}\n"
        )


def goes_on(job: Job) -> str:
    """What becomes of a job when its follower is interrupted: its own, or one of another run that it waits for."""
    return (
        f"what runs there as paddock-{job.name} goes on; the same command rejoins it, or waits for it where another run"
        f" began it, and what stops it is `systemctl --user stop paddock-{job.name}`"
    )


def follow(job: Job) -> Script:
    """The script that starts the job, or joins it where it runs already, and ends as it ends."""
    wire = {name: value for name, value in asdict(job).items() if name not in ("text", "args")}
    wire["script"] = job.script
    return Script(PROGRAM, (json.dumps(wire),), seconds=job.seconds + 120, python=True, live=True)
