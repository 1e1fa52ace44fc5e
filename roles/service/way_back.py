"""The way back to the last good service, as a step for whichever manager runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from roles import job
from roles.host import HOST
from roles.observation import Observation
from roles.operation import WAITED_FOR, Step
from roles.remote import Script
from roles.service import candidate
from roles.service import scope as scopes
from roles.service.scope import Scope

USERS = '"$1" rollback "$2"\nshift 2\n'
ROOTS, REMEMBER = ((Path(__file__).parent / f"{name}.sh").read_text("utf-8") for name in ("rollback", "remember"))
Report = Callable[[list[str]], None]


def back(scope: Scope, what: str, reason: str, seen: Observation) -> Step:
    """Go to the last good service, which makes the present one the last good: twice is there and back."""
    return _rollback(scope, what, reason, (), seen)


def for_good(scope: Scope, reason: str, notes: tuple[str, str, str], report: Report, seen: Observation) -> Step:
    """The same, and it is remembered that the present one was not good enough. `notes`: all services that were taken
    back, as rejected.json; this one's line for the history of benchmarks, and that file."""
    words = (seen[HOST].data_dir, *notes)
    return _rollback(scope, "go back to the former release", reason, words, seen, report)


def _rollback(
    scope: Scope, what: str, reason: str, words: tuple[str, ...], seen: Observation, report: Report | None = None
) -> Step:
    """`words`: what is to be remembered, in files that are the user's, whosever service it is."""
    host = seen[HOST]
    program = scope.program(host)
    text = USERS + (REMEMBER if words else "")
    work = candidate.switch(text, (program, reason, *words), candidate.load_seconds(seen))
    if scope is scopes.USER:
        return Step(what, job.follow(work), goes_on=job.goes_on(work), report=report)
    remember = (host.user, host.home, REMEMBER, *words) if words else ()
    arguments = (program, reason, str(work.seconds), str(work.memory), *remember)
    script = Script(ROOTS, arguments, root=True, seconds=work.seconds + 120)
    return Step(what, script, goes_on=WAITED_FOR, report=report)
