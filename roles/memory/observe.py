"""The plans that were made on this host; they are few."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationError, field_validator

from roles.memory.plan import Plan
from roles.observation import Fragment, Seen
from roles.probe_tools import entries, read

FOLDER = "~/.local/share/paddock/plans"


def look_at_memory(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import json
    import os

    plans = {}
    folder = os.path.expanduser(ask["folder"])
    for name in entries(folder):
        if name.endswith(".json"):
            try:
                plans[name[:-5]] = json.loads(read(os.path.join(folder, name)) or "null")
            except ValueError:
                continue  # not ours: a plan is written whole
    return {"plans": plans}


class MemorySeen(Seen):
    """Plans by their digest."""

    plans: dict[str, Plan] = Field(default_factory=dict)

    @field_validator("plans", mode="before")
    @classmethod
    def _ours_alone(cls, value: Any) -> Any:
        """A plan of another version is as good as none: it is made anew."""
        plans = {}
        for digest, told in value.items() if isinstance(value, dict) else ():
            try:
                plans[digest] = Plan.model_validate(told)
            except ValidationError:
                continue
        return plans


MEMORY = Fragment("memory", look_at_memory, lambda _: {"folder": FOLDER}, MemorySeen, MemorySeen())
