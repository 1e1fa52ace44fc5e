"""How a script gets to the host and becomes root there. All that changes a host goes through here.

A script travels on standard input (`sh -s`, `python3 -`): a login shell has nothing to mangle, and neither a value nor
a password shows up in a process list. It is wrapped in a function, so that half a script never runs and no tool reads
the rest of it.
"""

from __future__ import annotations

import getpass
import shlex
import socket
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from paramiko import SSHException
from pyinfra.api import Host, State, StringCommand

from roles.observation import PLAIN, Stdin, context

SENTENCE = "paddock: "  # a script's own last word about what went wrong
STATUS = "paddock-exit "
LOST = "the connection was lost"
TAKEN_OVER = "another run has taken this host over"
# The claim is still this run's; the file's time is the run's sign of life.
STILL_HELD = {
    "sh": """
lock=$HOME/.local/share/paddock/run.lock
test "$(cat "$lock" 2>/dev/null)" = {claim} || fail "{taken_over}"
touch "$lock"
""",
    "python": """
lock = os.path.expanduser("~/.local/share/paddock/run.lock")
if not os.path.exists(lock) or open(lock).read().strip() != {claim}:
    sys.exit("{sentence}{taken_over}")
os.utime(lock)
""",
}
KEEPALIVE = 15  # seconds; a connection that is cut in silence is noticed
ROOT = (Path(__file__).parent / "root_program.py").read_text("utf-8")


@dataclass(frozen=True)
class Script:
    """A program for the host and its arguments.

    `seconds` is its time limit, after which its whole process group is killed. `root`: run by root, through sudo.
    `python`: the text is Python, not sh. `live`: print its output as it comes; it must end a failure with a sentence.
    `claim`: what the host must still be claimed by.
    """

    text: str
    args: tuple[str, ...] = ()
    root: bool = False
    seconds: int = 120
    python: bool = False
    live: bool = False
    claim: str = ""

    def __repr__(self) -> str:
        return "<script>"


class Failed(Exception):
    """A script ended badly; the text is one sentence."""

    @property
    def lost(self) -> bool:
        """Whether nobody knows how the script ended, as the connection went first."""
        return str(self).startswith(LOST)

    @property
    def may_not(self) -> bool:
        """Whether sudo's reason is that this user may not use it: another thing than a wrong password."""
        text = str(self)
        return "sudo refused it" in text and (
            "sudoers" in text or "not allowed" in text or "may not run" in text or "afraid I can" in text
        )


def run(state: State, host: Host, script: Script) -> list[str]:
    """Run a script, return the lines of its standard output. Raises Failed with one sentence."""
    program = as_root(script, known_password(state, host) or "") if script.root else script
    try:
        ok, output = host.run_shell_command(
            command(program),
            print_output=state.print_output or script.live,
            print_input=state.print_input,
            **{**PLAIN, "_stdin": Stdin(stdin(program)), "_timeout": program.seconds + 30},
        )
    except (TimeoutError, OSError, SSHException, EOFError) as error:
        raise Failed(f"{LOST}: {error or type(error).__name__}") from error
    out, err = output.stdout_lines, output.stderr_lines
    if script.live:
        if not ok:
            raise Failed(last_word(err, out, None, script.seconds))
        return out
    status = out.pop().removeprefix(STATUS) if out and out[-1].startswith(STATUS) else None
    if out and not out[-1]:
        out.pop()  # the line break before the status is ours
    if status != "0":
        raise Failed(last_word(err, out, status, script.seconds))
    return out


def as_root(script: Script, password: str) -> Script:
    """The program that runs a script by root. The password is in its text, which travels on standard input."""
    inner = stdin(replace(script, claim=""))  # the claim is the user's, and is looked at before sudo
    arguments = (inner, str(script.seconds), password)
    return Script(ROOT, arguments, seconds=script.seconds + 60, python=True, claim=script.claim)


def stdin(script: Script) -> str:
    """What the host reads."""
    if script.python:
        arguments, held = list(script.args), ""
        if script.claim:
            held = STILL_HELD["python"].format(claim=repr(script.claim), taken_over=TAKEN_OVER, sentence=SENTENCE)
        program = f"exec(compile({script.text!r}, 'paddock', 'exec'))"
        return f"import os, sys\n{held}sys.argv[1:] = {arguments!r}\n{program}\n"
    values, held = " ".join(shlex.quote(arg) for arg in script.args), ""
    if script.claim:
        held = STILL_HELD["sh"].format(claim=shlex.quote(script.claim), taken_over=TAKEN_OVER)
    return (
        'export LC_ALL=C XDG_RUNTIME_DIR="/run/user/$(id -u)"\n'
        f"fail() {{ printf '{SENTENCE}%s\\n' \"$*\" >&2; exit 1; }}\n"
        f"paddock() {{\nset -eu\n{held}{script.text}\n}}\n"
        f"{{ paddock {values} </dev/null\n}}\n"
    )


def command(script: Script) -> StringCommand:
    """What the host runs: the same for every script. The status is printed, as a lost connection has none."""
    reader = "python3 -ISB -" if script.python else "sh -s"
    run_it = f"LC_ALL=C timeout -k 10 {script.seconds} {reader}"
    if script.live:
        late = f'case $s in 124|137) echo "{SENTENCE}it took longer than {script.seconds} s" >&2;; esac'
        return StringCommand(f"{run_it}; s=$?; {late}; exit $s")
    return StringCommand(f"{run_it}; s=$?; echo; echo {STATUS}$s")


def last_word(err: list[str], out: list[str], status: str | None, seconds: int) -> str:
    """The script's own sentence where it has one, else how it ended and the last thing that a tool said."""
    own = [line.removeprefix(SENTENCE) for line in [*out, *err] if line.startswith(SENTENCE)]
    if own:
        return own[-1]
    if status is None:
        return f"{LOST}, or the host went down"
    if status in ("124", "137"):
        return f"it took longer than {seconds} s"
    said = [line.strip() for line in err or out if line.strip()]
    return said[-1] if said else f"exit status {status}"


def tune(host: Host) -> None:
    """A connection that is cut in silence is noticed, and no command waits 40 ms for an acknowledgement (Nagle)."""
    client = getattr(host.connector, "client", None)
    transport = client.get_transport() if client is not None else None
    if transport is None or transport.sock is None:
        return
    transport.set_keepalive(KEEPALIVE)
    if isinstance(transport.sock, socket.socket):  # through a jump host it is a channel
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def known_password(state: State, host: Host) -> str | None:
    """From pyinfra's own places (the data key `_sudo_password`, --same-sudo-password), or asked for in this run."""
    return host.data.get("_sudo_password") or state.config.SUDO_PASSWORD or _asked.get(host.name)


_asked: dict[str, str] = {}


def has_password() -> bool:
    """Whether there is a sudo password to try on the current host."""
    return bool(known_password(*context()))


def ask_password() -> None:
    """Ask for the current host's sudo password where there is a terminal and none is known. Asks once."""
    state, host = context()
    if known_password(state, host) or host.name in _asked or {"--json", "--dry"} & set(sys.argv):
        return
    if sys.stdin is not None and sys.stdin.isatty():
        _asked[host.name] = getpass.getpass(f"sudo password of {host.name} (empty: go on without root): ")
