"""What went wrong, per host, and the last lines of a run: `paddock: HOST: REASON`."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.state import StateStage

_failed: dict[str, str] = {}
_left_out: dict[str, list[str]] = {}
_remarks: dict[str, list[str]] = {}
_last_words: dict[str, str] = {}
_verdicts: dict[str, str] = {}
_under_way: dict[str, str] = {}
_watching: list[State] = []


def failed(host: Host, why: str) -> None:
    """The host is out of this run."""
    host.log_styled(why, fg="red", log_func=logger.error)
    _failed[host.name] = why


def out(state: State, host: Host, why: str) -> None:
    """The same in prepare. Not state.fail_hosts: it asks at the terminal, and ends the run with the only host."""
    failed(host, why)
    state.failed_hosts.add(host)
    state.active_hosts.discard(host)


def left_out(host: Host, what: str) -> None:
    """Something was not done, and the run goes on. Said once."""
    said = _left_out.setdefault(host.name, [])
    if what not in said:
        said.append(what)
        host.log_styled(what, fg="yellow", log_func=logger.warning)


def remark(host: Host, what: str) -> None:
    """Something that is worth one of the last lines, and no trouble."""
    host.log(what)
    _remarks.setdefault(host.name, []).append(what)


def verdict(host: Host, what: str) -> None:
    """What the host needs, as far as is known now: the first of its last lines. Empty where there is nothing to say."""
    _verdicts[host.name] = what


def verdict_of(host: Host) -> str:
    return _verdicts.get(host.name, "")


def last_word(host: Host, what: str) -> None:
    """How the run ended for a host that is well."""
    _last_words[host.name] = what


def under_way(host: Host, what: str | None) -> None:
    """What a host is doing for us right now, for the sentence after Ctrl-C; None when it is done."""
    if what is None:
        _under_way.pop(host.name, None)
    else:
        _under_way[host.name] = what


def watch(state: State) -> None:
    """From here on the run ends with one line per host, and Ctrl-C with a sentence and the exit code 130."""
    if not _watching:
        _watching.append(state)
        atexit.register(_print_last_lines)
        signal.signal(signal.SIGINT, _interrupted)


def refuse_all(sentences: list[str]) -> None:
    """Bad settings: say all of them and end the run with exit code 2, before any command has run."""
    for sentence in sentences:
        print(f"paddock: {sentence}", file=sys.stderr)
    _exit(2)


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    """pyinfra ends with exit code 0 here, which a script would take for success."""
    hosts = getattr(_watching[0], "active_hosts", ())
    if not hosts:
        print("paddock: interrupted; nothing was under way", file=sys.stderr)
    for name in sorted(host.name for host in hosts):
        what = _under_way.get(name)
        _failed.setdefault(
            name, f"interrupted{f' in the middle of: {what}' if what else '; nothing was under way'}; run it again"
        )
    _print_last_lines()
    _exit(130)


def no_inventory() -> str:
    """Why an inventory has no hosts, as far as the command line tells: pyinfra takes any word for one."""
    gone = next((word for word in sys.argv[1:] if word.endswith(".py") and not Path(word).exists()), None)
    return f"the file {gone} does not exist" if gone else "is that file an inventory?"


def _exit(code: int) -> None:
    """At once: pyinfra would turn SystemExit in a greenlet into exit code 0 or 1, and wait for what still runs."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _print_last_lines() -> None:
    if not _watching:
        return
    state = _watching.pop()
    if not state.initialised:
        return
    if state.current_stage >= StateStage.Prepare and not state.activated_hosts and not state.failed_hosts:
        names = ", ".join(host.name for host in state.inventory) or f"none: {no_inventory()}"
        limited = " that --limit or --exclude leaves" if state.limit_hosts is not None else ""
        print(f"paddock: there is no host{limited} to work on; the inventory's hosts are {names}", file=sys.stderr)
        _exit(2)
    for host in state.inventory:
        if state.limit_hosts is not None and host not in state.limit_hosts:
            continue
        why = _failed.get(host.name)
        if why is None and host in state.failed_hosts:
            why = "no connection; the reason stands above" if not host.connected else "failed; the reason stands above"
        if why is None and state.current_stage >= StateStage.Disconnect:
            why = _last_words.get(host.name)
        lines = [_verdicts.get(host.name), *_left_out.get(host.name, []), *_remarks.get(host.name, []), why]
        for line in filter(None, lines):
            print(f"paddock: {host.name}: {line}", file=sys.stderr)
    sys.stderr.flush()
