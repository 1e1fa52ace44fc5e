"""What the policy is to free and what it freed: models on disk, and VRAM that is measured, never promised. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from roles.browser import others, words
from roles.browser.observe import BROWSER
from roles.browser.observe_models import MODELS, Profile, Service
from roles.browser.rules import in_force, same
from roles.browser.table import BY_ID, KEY, MODEL_FOLDERS, MODEL_SERVICE
from roles.gpu.classify import classify
from roles.gpu.observe import GPU
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.remote import Script
from roles.settings import Browser

DELETE = (Path(__file__).parent / "delete_program.py").read_text("utf-8")
REMEMBER = (Path(__file__).parent / "remember.sh").read_text("utf-8")
NOT_RESIDENT = (
    "no browser holds a local model in memory now, so there is no VRAM to measure: it is held while a model is used and"
    " about a minute after"
)


@dataclass(frozen=True)
class Resident:
    """A process that holds a local model. `used`: MiB of VRAM; None where nothing here can tell."""

    pid: int
    program: str
    used: int | None


@dataclass(frozen=True)
class Vram:
    """MiB: what the models' processes held, and what was used on all cards; None where nothing can tell."""

    models: int | None
    cards: int | None


@dataclass(frozen=True)
class Measured:
    """The VRAM before the policy was written and after it was taken up."""

    before: Vram
    after: Vram


def residents(seen: Observation) -> tuple[Resident, ...]:
    """Who holds a local model now, by NVIDIA's list of processes and by the command lines."""
    held = {one.pid: one for one in classify(seen[GPU]).holders}
    found = {service.pid: service.program for service in seen[MODELS].services}
    found |= {pid: one.name for pid, one in held.items() if one.purpose == MODEL_SERVICE}
    return tuple(
        Resident(pid, words.printable(found[pid]), held[pid].used if pid in held else None) for pid in sorted(found)
    )


def vram(seen: Observation) -> Vram:
    """What there is to measure."""
    nvidia = classify(seen[GPU])
    used = [card.memory_used for card in nvidia.gpus]
    models = [one.used for one in residents(seen)]
    return Vram(
        models=sum(one or 0 for one in models) if nvidia.gpus and None not in models else None,
        cards=sum(one or 0 for one in used) if used and None not in used else None,
    )


def measured(before: Observation, after: Observation) -> Measured | None:
    """What was held before and after; None where no model was resident before: then there is nothing to compare."""
    return Measured(vram(before), vram(after)) if residents(before) else None


def outcome(before: Observation, after: Observation) -> list[str]:
    """What became of models and VRAM since `before`, in sentences."""
    if MODELS.name in after.unseen:
        return []
    left = {profile.path: profile for profile in after[MODELS].profiles if profile.models}
    gone = [profile for profile in before[MODELS].profiles if profile.models and profile.path not in left]
    told = [f"{words.whose(profile)} are gone" for profile in gone]
    found = measured(before, after)
    if found is None:
        return [*told, *([NOT_RESIDENT] if classify(after[GPU]).gpus else [])]
    if found.before.models is None:
        return [*told, "a browser held a local model; how much VRAM it took cannot be told here"]
    now = "an amount that cannot be told" if found.after.models is None else f"{found.after.models} MiB"
    line = f"the browsers' local models held {found.before.models} MiB of VRAM before and hold {now} now"
    if None not in (found.before.cards, found.after.cards):
        line += f" (used on all cards: {found.before.cards} and {found.after.cards} MiB)"
    stays = "; a model is let go about a minute after its last use, or when the browser is restarted"
    return [*told, line + (stays if residents(after) else "")]


def at_stake(seen: Observation, folders: list[str]) -> list[str]:
    """What the policy is for, on this host: among the reasons to write it."""
    rows = {name for name, row in BY_ID.items() if row.folder in folders}
    found = [profile for profile in seen[MODELS].profiles if profile.models and profile.id in rows]
    told = [words.whose(profile) for profile in found]
    for one in residents(seen):
        used = "an unknown amount" if one.used is None else f"{one.used} MiB"
        told.append(f"{one.program} (pid {one.pid}) holds a local model and {used} of VRAM; measured again afterwards")
    return told


def reacting(seen: Observation, folders: list[str]) -> tuple[list[Profile], list[Service]]:
    """Directories and processes of running browsers that will take up what is written to these folders.

    A Flatpak will not: it is launched anew for that.
    """
    ids = [name for name, row in BY_ID.items() if row.folder in folders and row.packaging != "flatpak"]
    profiles = [one for one in seen[MODELS].profiles if one.running and one.models and one.id in ids]
    return profiles, [one for one in seen[MODELS].services if one.id in ids]


def forbidden(seen: Observation, folder: str) -> bool:
    """Whether the files of a folder keep the model away from who may read them."""
    said = in_force(seen[BROWSER].folders[folder].files)
    return KEY in said and same(said[KEY].value, 1) and seen[BROWSER].folders[folder].closed is None


def last_used(seen: Observation, browser: str) -> str | None:
    """The newest version that used a directory of this browser."""
    used = [one.version for one in seen[MODELS].profiles if one.id == browser]
    return max(used, key=lambda version: words.major(version) or 0, default=None)


def effective(seen: Observation, browser: str) -> bool:
    """The browser is told to keep its model away, can read it, and knows what it means; by its row's name.

    What cannot be told is no yes: a snap or a Flatpak whose rights are not known, or that another user has.
    """
    row = BY_ID.get(browser)
    if not row or not row.folder or not forbidden(seen, row.folder):
        return False
    installs = [one for one in seen[BROWSER].installs if one.id == browser]
    if row.packaging != "native" and not any(one.reaches for one in installs):
        return False
    return not any(words.outdated(one, row, last_used(seen, browser)) for one in installs)


def models_freed(wanted: Browser, before: Observation | None, seen: Observation) -> Decision:
    """Models that the policy left on disk are told, and deleted where that is wished and safe.

    `before`: the host before this run's policy; None where none was written. No step may end a run: what could not be
    deleted is told, and is looked at again in the next one.
    """
    if wanted.browser_policy == "off" or BROWSER.name in seen.unseen:  # the latter is told with the policy
        return Decision(seen)
    if failed := seen.unseen.get(MODELS.name):
        return Decision(seen, left_out=words.unseen("the browsers' models", failed))
    notes, reasons, steps, after = [], [], [], []
    for profile in seen[MODELS].profiles:
        covered = effective(seen, profile.id)
        if not profile.models:
            pass
        elif not covered:
            told = words.kept_without_policy if wanted.browser_delete_models else words.not_covered
            notes.append(told(profile))
        elif not wanted.browser_delete_models:
            notes.append(words.still_there(profile))
        elif profile.running:
            notes.append(words.kept_while_running(profile))
        else:
            reasons.append(f"delete {words.whose(profile)}: browser_delete_models is set")
            steps.append(deletion(profile))
            profile = profile.model_copy(update={"models": {}})
        after.append(profile)
    if before is not None and (found := measured(before, seen)):
        reasons.append("record what the browsers' local models held of the VRAM, before and after")
        record = Script(REMEMBER, (json.dumps({"schema": 1, **asdict(found)}),))
        steps.append(Step("record the VRAM", record, minor=True))
    return Decision(
        seen.replace(MODELS, profiles=tuple(after)) if steps else seen,
        tuple(reasons),
        tuple(steps),
        left_out="; ".join(notes) or None,
    )


def deletion(profile: Profile) -> Step:
    """The step that deletes a directory's models, as its owner: root follows no one's links."""
    row = BY_ID.get(profile.id)
    asked = {
        "path": profile.path,
        "kinds": list(MODEL_FOLDERS),
        "programs": list(row.programs) if row else [],
        "app": row.packages[0] if row and row.packaging == "flatpak" else "",
    }
    script = Script(DELETE, (json.dumps(asked),), python=True)
    if profile.owner:
        script = others.as_users(script, profile.owner)
    return Step(f"delete the local models in {profile.path}", script, minor=True)
