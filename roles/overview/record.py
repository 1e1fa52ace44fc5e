"""What the last whole deploy found and left on a host: what a later run is compared with."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import WrapValidator

from roles import claim
from roles.gpu.classify import classify
from roles.gpu.observe import GPU
from roles.host import HOST
from roles.llama_cpp.release import wanted_release
from roles.machine import MACHINE
from roles.model.observe import MODEL
from roles.observation import Fragment, Observation, Seen, or_none
from roles.operation import Decision, Step
from roles.probe_tools import read
from roles.wishes import Wishes

PATH = "~/.local/share/paddock/state.json"


def look_at_record(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import json
    import os

    try:
        facts = json.loads(read(os.path.expanduser(ask["path"])) or "null")
    except ValueError:
        facts = None  # not ours, or torn: as if there were none
    return {"facts": facts if isinstance(facts, dict) else None}


class Facts(Seen):
    """What decides whether anything must be done again. `toolkit`, `driver`: None where there is none."""

    driver: str | None
    kernel: str
    cards: tuple[str, ...]
    toolkit: str | None
    release: str
    model: str
    settings: str


class RecordSeen(Seen):
    facts: Annotated[Facts | None, WrapValidator(or_none)] = None  # of another version: all is judged anew


RECORD = Fragment("record", look_at_record, lambda _: {"path": PATH}, RecordSeen, RecordSeen())


def facts_of(wishes: Wishes, seen: Observation) -> Facts:
    """The facts as they are wanted and seen now. Raises CannotBuild."""
    nvidia, file = classify(seen[GPU]), seen[MODEL].file
    release = wanted_release(wishes, seen)
    settings = wishes.settings.service.model_dump_json() + wishes.settings.memory.model_dump_json()
    return Facts(
        driver=nvidia.driver,
        kernel=seen[MACHINE].kernel,
        cards=tuple(f"{gpu.name} ({gpu.uuid}, {gpu.memory_total} MiB)" for gpu in nvidia.gpus),
        toolkit=str(release.stamp["toolkit"]) if "toolkit" in release.stamp else None,
        release=release.key,
        model=wishes.model.sha256 if wishes.model else f"{file.size} {file.mtime_ns}" if file else "",
        settings=hashlib.sha256(settings.encode()).hexdigest()[:16],
    )


def recorded(wishes: Wishes, seen: Observation) -> Decision:
    """The host remembers what this deploy found and left."""
    now = facts_of(wishes, seen)
    if seen[RECORD].facts == now:
        return Decision(seen)
    text = json.dumps({"schema": 1, **now.model_dump()})
    return Decision(
        seen.replace(RECORD, facts=now),
        reasons=(f"remember on {seen[HOST].user}'s account what this deploy found and left",),
        steps=(Step("record the host's state", claim.end_of_run(text)),),
    )
