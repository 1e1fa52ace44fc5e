"""What Paddock sends to a host, run on this machine: the same bytes on standard input, the same command line."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from pyinfra.api import StringCommand

from roles import remote
from roles.remote import Script


def run(script: Script, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """A script as an ordinary user's; `stdin` takes the place of what Paddock would send."""
    text = remote._stdin(script) if stdin is None else stdin
    return shell(remote._command(script), text, **env)


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


def tool(folder: Path, name: str, text: str) -> str:
    """A stand-in for a command; what it returns is a PATH on which it comes first."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n" + text, "utf-8")
    (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def hasty(folder: Path) -> str:
    """A `timeout` for the impatient: -k 10 SECONDS is a fifth of a second."""
    return tool(folder, "timeout", f'shift 3\nexec {shutil.which("timeout")} -k 10 0.2 "$@"\n')
