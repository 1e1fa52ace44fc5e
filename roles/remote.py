"""How a script gets to the host and becomes root there. The one place that runs commands and that knows of sudo.

A script travels on standard input (`sh -s`): a login shell has nothing to mangle, and neither a value nor a password
shows up in a process list. It is wrapped in a function, so that half a script never runs and no tool reads the rest.
"""

from __future__ import annotations

import getpass
import shlex
import sys
from dataclasses import dataclass

from paramiko import SSHException
from pyinfra.api import Host, QuoteString, State, StringCommand

from roles.observation import PLAIN, Stdin, context

SENTENCE = "paddock: "  # a script's own last word about what went wrong
_READY = "paddock-root-ready"


@dataclass(frozen=True)
class Script:
    """A program for the host and its arguments.

    `seconds` is its time limit, after which its whole process group is killed. `root`: run by root, through sudo.
    `python`: the text is Python, not sh. `live`: print its output as it comes.
    """

    text: str
    args: tuple[str, ...] = ()
    root: bool = False
    seconds: int = 120
    python: bool = False
    live: bool = False

    def __repr__(self) -> str:
        return "<script>"


class Failed(Exception):
    """A script ended badly; the text is one sentence."""


def run(state: State, host: Host, script: Script) -> list[str]:
    """Run a script, return the lines of its standard output. Raises Failed with one sentence."""
    stdin = _stdin(script)
    if script.root:
        # sudo takes the first line if it wants a password; whoever reads on skips to the marker either way.
        stdin = f"{_known_password(state, host) or ''}\n{_READY}\n{stdin}"
    try:
        ok, output = host.run_shell_command(
            _root_command(script) if script.root else _command(script),
            print_output=state.print_output or script.live,
            print_input=state.print_input,
            **{**PLAIN, "_stdin": Stdin(stdin), "_timeout": script.seconds + 30},
        )
    except (TimeoutError, OSError, SSHException, EOFError) as error:
        raise Failed(f"the connection was lost: {error or type(error).__name__}") from error
    if script.root:
        return _root_result(output.output_lines, script)
    if not ok:
        raise Failed(_last_word(output.stderr_lines or output.stdout_lines, "", script.seconds))
    return output.stdout_lines


def _stdin(script: Script) -> str:
    if script.python:
        arguments = list(script.args)
        return f"import sys\nsys.argv[1:] = {arguments!r}\nexec(compile({script.text!r}, 'paddock', 'exec'))\n"
    values = " ".join(shlex.quote(arg) for arg in script.args)
    return (
        'export LC_ALL=C XDG_RUNTIME_DIR="/run/user/$(id -u)"\n'
        f"fail() {{ printf '{SENTENCE}%s\\n' \"$*\" >&2; exit 1; }}\n"
        f"paddock() {{\nset -eu\n{script.text}\n}}\n"
        f"{{ paddock {values} </dev/null\n}}\n"
    )


def _command(script: Script) -> StringCommand:
    reader = "python3 -ISB -" if script.python else "sh -s"
    return StringCommand("LC_ALL=C", "timeout", "-k", "10", str(script.seconds), reader)


def _root_command(script: Script) -> StringCommand:
    """-k: never a cached credential, so whether sudo reads a line does not depend on what ran before.

    The exit status is printed and standard error joins standard output: pyinfra must not see sudo fail, or it would
    ask for a password at the terminal and pass it on in the environment.
    """
    skip = f'echo {_READY}; while IFS= read -r line && test "$line" != {_READY}; do :; done; exec sh -s'
    return StringCommand(
        "set --", "timeout", "-k", "10", str(script.seconds), "sh", "-c", QuoteString(skip), ";",
        'test "$(id -u)" = 0 || set -- sudo -k -S -p "" -- "$@";',
        '{ LC_ALL=C "$@"; printf "\\npaddock-exit %s\\n" $?; } 2>&1',
    )  # fmt: skip


def _root_result(lines: list[str], script: Script) -> list[str]:
    status = lines[-1].removeprefix("paddock-exit ") if lines else "lost"
    if _READY not in lines:
        said = [line for line in lines[:-1] if line.startswith("sudo")] or [line for line in lines[:-1] if line.strip()]
        raise Failed(f"root is needed and sudo refused it: {said[-1] if said else 'it said nothing'}")
    inside = lines[lines.index(_READY) + 1 : -1]
    if inside and not inside[-1]:
        inside.pop()  # the line break before the exit status is ours
    if status != "0":
        raise Failed(_last_word(inside, status, script.seconds))
    return inside


def _last_word(lines: list[str], status: str, seconds: int) -> str:
    """The script's own sentence where it has one, else the last thing that a tool said."""
    own = [line.removeprefix(SENTENCE) for line in lines if line.startswith(SENTENCE)]
    if own:
        return own[-1]
    said = [line.strip() for line in lines if line.strip()]
    if said:
        return said[-1]
    return f"it took longer than {seconds} s" if status in ("", "124", "137") else f"exit status {status}"


def _known_password(state: State, host: Host) -> str | None:
    """From pyinfra's own places (the data key `_sudo_password`, --same-sudo-password), or asked for in this run."""
    return host.data.get("_sudo_password") or state.config.SUDO_PASSWORD or _asked.get(host.name)


_asked: dict[str, str] = {}


def has_password() -> bool:
    """Whether there is a sudo password to try on the current host."""
    return bool(_known_password(*context()))


def ask_password() -> None:
    """Ask for the current host's sudo password where there is a terminal and none is known. Asks once."""
    state, host = context()
    if _known_password(state, host) or host.name in _asked or "--json" in sys.argv:
        return
    if sys.stdin is not None and sys.stdin.isatty():
        _asked[host.name] = getpass.getpass(f"sudo password of {host.name} (empty: go on without root): ")
