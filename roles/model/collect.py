"""Which of the downloaded models nothing refers to any more, and how they are removed."""

from __future__ import annotations

from pathlib import Path

from roles import probe_tools, programs
from roles.machine import MODELS
from roles.model.observe import MODEL, ModelSeen, Stored
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.remote import Script
from roles.wishes import Wishes

HERE = Path(__file__).parent
# The remover sees with the probe's own eyes.
REMOVE = programs.joined(Path(probe_tools.__file__), HERE / "observe_stored.py", HERE / "remove_program.py")


def collected(wishes: Wishes, observation: Observation) -> Decision:
    """No more models than `model_keep` that nothing refers to: no unit, no process, no entry in the lock."""
    gone = removable(wishes, observation[MODEL])
    if not gone:
        return Decision(observation)
    keep = wishes.settings.model.model_keep
    why = tuple(
        f"remove the model {one.folder} ({one.size / 1e9:.2f} GB): no unit, process or lock entry names it,"
        f" model_keep={keep}"
        for one in gone
    )
    script = Script(REMOVE, (MODELS, *(one.folder for one in gone)), python=True, seconds=300)
    left = tuple(one for one in observation[MODEL].stored if one not in gone)
    return Decision(observation.replace(MODEL, stored=left), why, (Step("remove old models", script),))


def removable(wishes: Wishes, seen: ModelSeen) -> list[Stored]:
    """Those beyond `model_keep`, the oldest first to go; what something refers to counts, and stays."""
    wanted = {wishes.model.folder} if wishes.model else set()
    used = {*wishes.locked, *wanted, *seen.named}
    free = [
        one
        for one in sorted(seen.stored, key=lambda one: one.mtime_ns, reverse=True)
        if not {one.folder, one.folder.partition("/")[0], "."} & used
    ]
    needed = {one.folder for one in seen.stored if one not in free} | wanted
    return free[max(wishes.settings.model.model_keep - len(needed), 0) :]
