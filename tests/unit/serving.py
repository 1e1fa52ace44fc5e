"""The decision about the service, what systemd shows of a converged one, and the record that is handed over."""

from __future__ import annotations

import json
import shlex
from functools import partial
from typing import Any

from roles.observation import Observation
from roles.service import decide
from roles.wishes import Wishes
from tests.unit import hosts
from tests.unit.deciding import Decide, acting


def running(wanted: Wishes | None = None, **data: Any) -> Decide:
    return partial(decide.running, wanted or hosts.wishes(**data))


def shown(**properties: str) -> dict[str, Any]:
    """systemd's answers about the converged unit, some of them changed."""
    return {"properties": {**hosts.converged_answers()["service"]["properties"], **properties}}


def candidate(decide: Decide, seen: Observation) -> dict[str, Any]:
    """The record that paddock-switch gets."""
    script = acting(decide, seen).steps[0].script
    words = shlex.split(json.loads(script.args[0])["script"].rpartition("\njob ")[2])
    assert words[0] == "/home/dev/.local/share/paddock/bin/paddock-switch"
    record: dict[str, Any] = json.loads(words[1])
    return record
