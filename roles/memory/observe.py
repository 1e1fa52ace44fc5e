"""The plans that were made on this host, which are few, and what processes were seen to hold of what was planned."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationError, field_validator

from roles.memory.overhead import Measured
from roles.memory.plan import Plan
from roles.observation import Fragment, Seen
from roles.probe_tools import entries, read, read_end

FOLDER = "~/.local/share/paddock/plans"
HISTORY = "~/.local/share/paddock/benchmarks.jsonl"  # the benchmark role writes it


def look_at_memory(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import json
    import os

    plans, measured = {}, []
    folder = os.path.expanduser(ask["folder"])
    for name in entries(folder):
        if name.endswith(".json"):
            try:
                plans[name[:-5]] = json.loads(read(os.path.join(folder, name)) or "null")
            except ValueError:
                continue  # not ours: a plan is written whole
    for line in read_end(os.path.expanduser(ask["history"]), 1 << 20).splitlines():
        try:
            told = json.loads(line)
            held, shares = told["resources"]["peak_vram_mib"], told["plan"]["devices"]
            planned = sum(share["model"] + share["context"] + share["compute"] for share in shares)
            cache = told["settings"].get("moe_cache_mib") or 0  # which every plan counts by itself
            cards, release = [card["uuid"] for card in told["cards"]], told["release"]
        except (AttributeError, KeyError, TypeError, ValueError):
            continue  # torn, of another version, or without a card
        if held and planned:
            measured.append({"release": release, "cards": cards, "held": held, "planned": planned + cache})
    return {"plans": plans, "measured": measured[-20:]}


class MemorySeen(Seen):
    """`plans` by their digest; `measured` with the newest last."""

    plans: dict[str, Plan] = Field(default_factory=dict)
    measured: tuple[Measured, ...] = ()

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


MEMORY = Fragment("memory", look_at_memory, lambda _: {"folder": FOLDER, "history": HISTORY}, MemorySeen, MemorySeen())
