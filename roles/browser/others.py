"""The other users of a host: their models, looked at by each of them in turn, which takes root.

Only the role alone asks for them (`roles.browser.deploy.alone`): a deploy is one user's.
"""

from __future__ import annotations

import json
from pathlib import Path

from pyinfra.api import Host, State

from roles import observation, remote
from roles.browser.observe_models import MODELS, Profile
from roles.remote import Script

AS_USERS = (Path(__file__).parent / "as_users_program.py").read_text("utf-8")
PIPED = "printf '%s' \"$1\" | python3 -ISB -"  # root is reached with sh


def as_users(program: Script, name: str = "", without: tuple[str, ...] = ()) -> Script:
    """The script that runs a Python program as one user, or as everybody; by root, with nothing of root's."""
    inner = Script(AS_USERS, (remote.stdin(program), name, *without), python=True)
    return Script(PIPED, (remote.stdin(inner),), root=True)


def look(state: State, host: Host, without: str) -> tuple[tuple[Profile, ...], list[str]]:
    """Everybody's directories with models in them, but for one user's; and whose look failed. Raises Failed."""
    probe = Script(observation.program((MODELS,), None), python=True)
    return parsed("\n".join(remote.run(state, host, as_users(probe, without=(without,)))))


def parsed(text: str) -> tuple[tuple[Profile, ...], list[str]]:
    """The answers by user as directories with an owner, and the users whose answer is none.

    A path that is not printable is none: it is another user's, and would be printed on our terminal.
    """
    found: list[Profile] = []
    failed = []
    for owner, answer in json.loads(text).items():
        try:
            seen = observation.parse(answer, (MODELS,))
        except ValueError:
            failed.append(owner)
            continue
        theirs = [one for one in seen[MODELS].profiles if one.models]
        if MODELS.name in seen.unseen or not all(f"{one.path}{one.version}".isprintable() for one in theirs):
            failed.append(owner)
        else:
            found += [one.model_copy(update={"owner": owner}) for one in theirs]
    return tuple(found), failed
