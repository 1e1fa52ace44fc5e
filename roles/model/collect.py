"""Which of the downloaded models nothing refers to any more, and how they are removed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from roles.machine import MODELS
from roles.model.observe import MODEL, Stored
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.remote import Script
from roles.wishes import Wishes

REMOVE = (Path(__file__).parent / "remove_program.py").read_text("utf-8")


def collected(wishes: Wishes, referring: Iterable[str], observation: Observation) -> Decision:
    """No more models than `model_keep` that nothing refers to. `referring`: the texts of all units that a model may be
    named in; beside them the lock's own and the wanted one stay."""
    gone = removable(wishes, referring, observation[MODEL].stored)
    if not gone:
        return Decision(observation)
    keep = wishes.settings.model.model_keep
    why = tuple(
        f"remove the model {one.folder} ({one.size / 1e9:.2f} GB): no unit or lock entry names it, model_keep={keep}"
        for one in gone
    )
    script = Script(REMOVE, (MODELS, *(one.folder for one in gone)), python=True, seconds=300)
    left = tuple(one for one in observation[MODEL].stored if one not in gone)
    return Decision(observation.replace(MODEL, stored=left), why, (Step("remove old models", script),))


def removable(wishes: Wishes, referring: Iterable[str], stored: Iterable[Stored]) -> list[Stored]:
    """Those beyond `model_keep`, the oldest first to go; what something refers to counts, and stays."""
    texts = list(referring)
    wanted = {*wishes.locked, *([wishes.model.folder] if wishes.model else [])}
    path, there = wishes.settings.model.model_path or "", list(stored)
    free = [
        one
        for one in sorted(there, key=lambda one: one.mtime_ns, reverse=True)
        if one.folder not in wanted and not any(f"/paddock/models/{one.folder}/" in text for text in (*texts, path))
    ]
    needed = {one.folder for one in there if one not in free} | ({wishes.model.folder} if wishes.model else set())
    return free[max(wishes.settings.model.model_keep - len(needed), 0) :]
