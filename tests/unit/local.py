"""What Paddock sends to a host, run on this machine: the same bytes on standard input, the same command line."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Host, State, StringCommand
from pyinfra.connectors.util import CommandOutput, OutputLine

from roles import remote
from roles.remote import STATUS, Script


def needs_root(*values: object) -> Any:
    """A parameter for those who are root."""
    return pytest.param(*values, marks=pytest.mark.skipif(os.getuid() != 0, reason="needs root"))


def run(script: Script, **env: str) -> subprocess.CompletedProcess[str]:
    """A script with its own output and exit status."""
    done = shell(remote.command(script), remote.stdin(script), **env)
    if not script.live:
        done.stdout, _, status = done.stdout.rpartition("\n" + STATUS)
        done.returncode = int(status)
    return done


def shell(command: StringCommand, stdin: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command.get_raw_value()],
        input=stdin,
        env={**os.environ, **env},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


class Here:
    """This machine in the place of a pyinfra host. `lost`: the connection breaks before the command ends."""

    name = "here"

    def __init__(self, password: str | None = None, lost: bool = False, **env: str) -> None:
        self.data = {"_sudo_password": password} if password else {}
        self.lost, self.env = lost, env
        self.commands: list[str] = []

    def run_shell_command(self, command: StringCommand, **arguments: Any) -> tuple[bool, CommandOutput]:
        self.commands.append(command.get_raw_value())
        done = shell(command, "".join(arguments["_stdin"].readlines()), **self.env)
        out = done.stdout.splitlines()[:-1] if self.lost else done.stdout.splitlines()
        lines = [OutputLine("stdout", line) for line in out]
        lines += [OutputLine("stderr", line) for line in done.stderr.splitlines()]
        return done.returncode == 0 and not self.lost, CommandOutput(lines)

    def run(self, script: Script) -> list[str]:
        """`remote.run` on this machine. Raises Failed."""
        state = SimpleNamespace(print_output=False, print_input=False, config=SimpleNamespace(SUDO_PASSWORD=None))
        return remote.run(cast("State", state), cast("Host", self), script)


def tool(folder: Path, name: str, text: str) -> str:
    """A stand-in for a command; what it returns is a PATH on which it comes first."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n" + text, "utf-8")
    (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def hasty(folder: Path) -> str:
    """A `timeout` for the impatient: -k 10 SECONDS is a fifth of a second."""
    return tool(folder, "timeout", f'shift 3\nexec {shutil.which("timeout")} -k 10 0.2 "$@"\n')
