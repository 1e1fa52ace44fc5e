"""A ref of llama.cpp as a commit: resolved once, kept in the lock."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Annotated

from pydantic import Field

from roles.lock import CannotPin, Lock
from roles.settings import LlamaCpp

SECONDS = 60
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


def commit(wanted: LlamaCpp, lock: Lock) -> str:
    """40 hex digits. Asks the repository only for a ref that the lock does not have. Raises CannotPin."""
    if re.fullmatch(r"[0-9a-f]{40}", wanted.llama_ref):
        return wanted.llama_ref
    name = f"{wanted.llama_repo} {wanted.llama_ref}"
    known = lock.get("llama_cpp", name, Commit)
    if known is None:
        known = _resolve(wanted.llama_repo, wanted.llama_ref)
        lock.put("llama_cpp", name, known)
    return known


def _resolve(repo: str, ref: str) -> str:
    refs = [f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}"]
    try:
        done = subprocess.run(
            ["git", "ls-remote", "--exit-code", "--", repo, *refs],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise CannotPin("git is not installed on this machine, and llama_ref is resolved with it") from None
    except subprocess.TimeoutExpired:
        raise CannotPin(f"llama_repo={repo!r} did not answer within {SECONDS} s") from None
    if done.returncode not in (0, 2):
        # git goes on with advice about access rights
        told = re.findall(r"^fatal: (.*)$", done.stderr, re.M) or [f"exit status {done.returncode}"]
        raise CannotPin(f"llama_repo={repo!r} cannot be read: {told[0]}")
    found = {name: sha for sha, name in (line.split("\t") for line in done.stdout.splitlines())}
    # An annotated tag has an object of its own; ^{} is the commit behind it.
    for name in refs:
        if name in found:
            return found[name]
    raise CannotPin(f"llama_ref={ref!r} is neither a tag nor a branch of {repo}; a commit needs all 40 digits")
