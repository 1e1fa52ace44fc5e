"""A part of the planner: the folder of the plans on the host, and the twin that a plan is made of meanwhile."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import zlib
from collections.abc import Iterator
from typing import Any

KEEP = 40  # plans


@contextlib.contextmanager
def model_or_twin(folder: str, job: dict[str, Any]) -> Iterator[str]:
    """The path to ask about. A twin of a killed run goes first."""
    twin = os.path.join(folder, ".twin")
    shutil.rmtree(twin, ignore_errors=True)
    if not job["twin"]:
        yield os.path.expanduser(job["model"])
        return
    os.makedirs(twin)
    try:
        for part in job["twin"]:
            with open(os.path.join(twin, part["name"]), "wb") as file:
                file.write(zlib.decompress(base64.b64decode(part["header"])))
                file.truncate(part["size"])
        yield os.path.join(twin, job["twin"][0]["name"])
    finally:
        shutil.rmtree(twin, ignore_errors=True)


def write(folder: str, plan: dict[str, Any]) -> None:
    path = os.path.join(folder, plan["digest"] + ".json")
    with open(path + ".new", "w") as file:
        file.write(json.dumps(plan) + "\n")
    os.replace(path + ".new", path)


def prune(folder: str, release: str) -> None:
    """Plans of releases that are gone, and the oldest of very many."""
    releases = os.path.join(os.path.dirname(folder), "releases")
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".json")]
    for number, path in enumerate(sorted(paths, key=os.path.getmtime, reverse=True)):
        try:
            with open(path) as file:
                own = json.load(file)["release"]
        except (ValueError, KeyError, TypeError):
            own = ""
        if number >= KEEP or not os.path.isdir(os.path.join(releases, own or "none")):
            os.unlink(path)
