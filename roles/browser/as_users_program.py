"""Runs on the host, as root: a Python program once per user, as that user and with nothing of root's.

Arguments: the program, one user's name (or nothing: everybody with a home), and users to leave out. Prints what it
printed, by user, as JSON: nothing where it failed; a failure for the one user that was named is a failure. What is said
as a user may be that user's own making, meant for the terminal of whoever reads it.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from typing import Any

FIRST, LAST = 1000, 60513  # uids of people, by Debian's policy and systemd's; the last are those of systemd-homed
SECONDS = 60


def people(name: str, without: list[str]) -> list[pwd.struct_passwd]:
    found = [one for one in pwd.getpwall() if FIRST <= one.pw_uid <= LAST and os.path.isdir(one.pw_dir)]
    return [one for one in found if one.pw_name not in without and name in ("", one.pw_name)]


def run(user: pwd.struct_passwd, program: str) -> Any:
    def become() -> None:
        os.setgid(user.pw_gid)
        os.initgroups(user.pw_name, user.pw_gid)
        os.setuid(user.pw_uid)

    return subprocess.run(
        ["python3", "-ISB", "-"],
        input=program,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=SECONDS,
        cwd="/",
        env={"HOME": user.pw_dir, "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"},
        preexec_fn=become,
        start_new_session=True,  # root's terminal takes what is pushed into it from within its session
    )


def plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def main() -> None:
    program, name, *without = sys.argv[1:]
    said = {}
    for user in people(name, without):
        try:
            done = run(user, program)
        except (OSError, subprocess.SubprocessError) as error:
            if name:
                sys.exit("paddock: " + name + ": " + plain(str(error)))
            said[user.pw_name] = ""
            continue
        if name and done.returncode:
            sys.exit(plain((done.stderr.strip().splitlines() or ["paddock: " + name + ": it failed"])[-1]))
        said[user.pw_name] = done.stdout.strip()
    if name and name not in said:
        sys.exit("paddock: there is no user " + name)
    print(json.dumps(said))


main()
