"""Runs on the host, as the user: a shell script, as root. Arguments: the script, its seconds, the sudo password.

sudo gets one line, the password, and nothing after it until root is there: whatever else it read would count as further
attempts, and three wrong ones lock the account on some distributions. Where it asks for no password, the line is
skipped by the reader.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import IO, Any

READY, PROMPT, PATIENCE = "paddock-root-ready", "paddock-asks-for-the-password", 60.0
READER = f'echo {READY}; while IFS= read -r line && test "$line" != {READY}; do :; done; exec sh -s'


def feed(pipe: IO[Any], text: str, last: bool = False) -> None:
    try:
        pipe.write(text)
        pipe.flush()
        if last:
            pipe.close()
    except (BrokenPipeError, ValueError):  # the other side is gone, or the patience is over
        pass


def main() -> None:
    script, seconds, password = sys.argv[1:4]
    command = ["timeout", "-k", "10", seconds, "sh", "-c", READER]
    if os.geteuid() != 0:
        # -k: never a cached credential, so that what happens does not depend on what ran before.
        command = ["sudo", "-k", "-S", "-p", PROMPT + "\n", "--", *command]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError:
        end("root is needed and sudo is not installed")
    assert process.stdin is not None
    assert process.stdout is not None
    if password:
        feed(process.stdin, password + "\n")
    patience = threading.Timer(PATIENCE, feed, (process.stdin, "", True))
    patience.start()
    asked, said = 0, []
    for line in process.stdout:
        if line.strip() == READY:
            patience.cancel()
            feed(process.stdin, READY + "\n" + script, last=True)
            break
        asked += PROMPT in line
        if asked > (1 if password else 0):
            feed(process.stdin, "", last=True)
        if line.strip() and PROMPT not in line:
            said.append(line.strip())
    else:
        patience.cancel()
        process.wait()
        said = [line for line in said if "unable to resolve host" not in line] or said
        told = [line for line in said if line.startswith("sudo")] or said
        end("root is needed and sudo refused it: " + (told[-1] if told else "it said nothing"))
    for line in process.stdout:
        print(line, end="", flush=True)
    sys.exit(process.wait())


def end(sentence: str) -> None:
    print("paddock: " + sentence)
    sys.exit(1)


main()
