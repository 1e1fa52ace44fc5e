"""pyinfra's command line with its imports done: each run is a fork of this process, as imports are most of what one
costs. The lab starts the command itself.

A line of JSON on standard input asks for a run, and is answered with a line: its exit code.
"""

from __future__ import annotations

import json
import os
import signal
import sys

fork, waitpid = os.fork, os.waitpid  # as they are before gevent replaces them: this process has no loop to wait in

from pyinfra_cli.main import main  # noqa: E402

from roles import overview  # noqa: E402, F401

SECONDS = 60


def run(words: list[str], out: str, err: str) -> None:
    """In the child: what the command is started with, and its streams."""
    signal.alarm(SECONDS)
    for stream, path in enumerate((os.devnull, out, err)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), stream)
    sys.argv = ["pyinfra", *words]
    sys.exit(main())


for line in sys.stdin:
    if (child := fork()) == 0:
        run(**json.loads(line))
    print(os.waitstatus_to_exitcode(waitpid(child, 0)[1]), flush=True)
