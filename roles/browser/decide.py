"""Which browsers lack the policy that keeps their local AI model out of VRAM, and how to write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from roles.browser import freed, words
from roles.browser.observe import BROWSER, BrowserSeen, Folder, PolicyFile
from roles.browser.rules import in_force, same
from roles.browser.table import BY_ID, FILE, KEY, default_folder
from roles.host import HOST, no_root
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.remote import Script
from roles.settings import Browser

WRITE = (Path(__file__).parent / "write.sh").read_text("utf-8")
WAIT = (Path(__file__).parent / "wait.sh").read_text("utf-8")
# Seconds. A browser reads its policies 5 s after the folder was quiet and then takes a second to remove a model; the
# process that holds one ends a minute after its last use (kSettleInterval, kUninstallDelay, service idle timeout).
TAKEN_UP, LET_GO = 15, 90


def policies(wanted: Browser) -> dict[str, Any]:
    """What the browsers shall be told. 1: do not download the model."""
    return {KEY: 1, **wanted.browser_policies}


def text(wanted: Browser) -> str:
    """The file, as it is written into each folder."""
    return json.dumps(policies(wanted), indent=2) + "\n"


def targets(wanted: Browser, observation: Observation) -> dict[str, list[str]]:
    """The folders that are ours to write to, and the browsers that read them."""
    if wanted.browser_policy == "off":
        return {}
    named = None if wanted.browser_policy == "auto" else set(wanted.browser_policy)
    found: dict[str, list[str]] = {}
    for install in observation[BROWSER].installs:
        row = BY_ID.get(install.id)
        if row and row.folder and (named is None or row.browser in named):
            found.setdefault(row.folder, []).append(words.title(install))
    for browser in wanted.browser_policy if named is not None else ():
        if not any(row.browser == browser and row.folder in found for row in BY_ID.values()):
            found.setdefault(default_folder(browser, observation[HOST].os_id), []).append(browser)
    return found


def as_written(seen: Folder, wanted: str) -> bool:
    """Our file is as the browser needs it."""
    file = seen.file(FILE)
    return file is not None and (file.text, file.mode, file.uid) == (wanted, 0o644, 0)


def clash(path: str, seen: Folder, wanted: dict[str, Any]) -> str | None:
    """The sentence about another file there that says otherwise, or that makes it impossible to know."""
    if seen.more:
        return f"{path} holds more files than can be judged"
    if torn := next((file.name for file in seen.files if not file.whole and file.name != FILE), None):
        return f"{path}/{torn} is too large to be judged"
    said = in_force(file for file in seen.files if file.name != FILE)
    for key, value in wanted.items():
        if key in said and not same(said[key].value, value):
            theirs, ours = json.dumps(said[key].value)[:80], json.dumps(value)[:80]
            return f"{path}/{said[key].file} sets {key} to {theirs}, and {ours} is wanted"
    return None


def said_by_others(seen: Folder, wanted: dict[str, Any]) -> bool:
    """Somebody else's files say all of it already, and ours is not there."""
    said = in_force(seen.files)
    return seen.file(FILE) is None and all(key in said and same(said[key].value, wanted[key]) for key in wanted)


def policy_set(wanted: Browser, has_password: bool, observation: Observation) -> Decision:
    """Every wanted browser has the policy."""
    if wanted.browser_policy != "off" and (failed := observation.unseen.get(BROWSER.name)):
        return Decision(observation, left_out=words.unseen("the browsers", failed))
    seen, notes, lacking = observation[BROWSER], [], {}
    for folder, readers in targets(wanted, observation).items():
        if closed := seen.folders[folder].closed:  # not ours to open
            notes.append(words.closed(readers, closed))
        elif theirs := clash(folder, seen.folders[folder], policies(wanted)):
            notes.append(words.clashing(readers, theirs))
        elif not as_written(seen.folders[folder], text(wanted)) and not said_by_others(
            seen.folders[folder], policies(wanted)
        ):
            lacking[folder] = readers
    notes += told(wanted, seen, observation)
    if lacking and not observation[HOST].can_be_root(has_password):
        readers = [name for names in lacking.values() for name in names]
        what = f"the policy against the local AI model of {' and '.join(readers)} is not set"
        notes, lacking = [no_root(observation[HOST], what), *notes], {}
    left_out = "; ".join(notes) or None
    if not lacking:
        return Decision(observation, left_out=left_out)
    reasons = [
        words.writing(folder, why(seen.folders[folder], text(wanted)), readers) for folder, readers in lacking.items()
    ]
    record = f"{observation[HOST].record}/paths"
    steps = [writing(folder, seen.folders[folder], text(wanted), record) for folder in lacking]
    after = {**seen.folders, **{folder: written(seen.folders[folder], text(wanted)) for folder in lacking}}
    return Decision(
        observation.replace(BROWSER, folders=after),
        (*reasons, *freed.at_stake(observation, list(lacking))),
        (*steps, *waiting(observation, list(lacking))),
        left_out=left_out,
    )


def told(wanted: Browser, seen: BrowserSeen, observation: Observation) -> list[str]:
    """What a person must know of the browsers that are there: what keeps them from the policy, or it from them."""
    notes, folders = [], targets(wanted, observation)
    for install in seen.installs:
        row = BY_ID.get(install.id)
        if row and row.folder in folders:
            notes += [
                words.unreached(install, row),
                words.outdated(install, row, freed.last_used(observation, install.id)),
            ]
        elif row and wanted.browser_policy == "auto" and words.is_told(row):
            notes.append(words.unsupported(install, row))
    return [note for note in notes if note]


def why(seen: Folder, wanted: str) -> str:
    """Why our file must be written."""
    file = seen.file(FILE)
    if file is None:
        return "absent or not readable, so it will be written"
    return "other content" if file.text != wanted else "not owned by root with mode 0644"


def writing(folder: str, seen: Folder, wanted: str, record: str) -> Step:
    """The step that puts our file there, and folders that it makes on record."""
    path, file = f"{folder}/{FILE}", seen.file(FILE)
    return Step(
        f"write {path}",
        Script(WRITE, (path, wanted, record), root=True),
        (path, (file.text if file else None) or "", wanted),
        optional=True,
    )


def written(seen: Folder, wanted: str) -> Folder:
    """The folder once our file is there."""
    # Wherever it stands among the others: it is written only where the last of them says the same, or nothing.
    files = (*(file for file in seen.files if file.name != FILE), PolicyFile(name=FILE, text=wanted))
    return seen.model_copy(update={"files": files, "modes": dict.fromkeys(seen.modes, 0o755)})


def waiting(observation: Observation, folders: list[str]) -> list[Step]:
    """A browser that runs needs a moment: what is measured afterwards shall be what the policy did."""
    profiles, services = freed.reacting(observation, folders)
    models = [f"{profile.path}/{kind}" for profile in profiles for kind in profile.models]
    if not models and not services:
        return []
    seconds = LET_GO if services else TAKEN_UP
    gone = (*models, *(f"/proc/{service.pid}" for service in services))
    theirs = any(profile.owner for profile in profiles)  # a home that we may not look into
    wait = Script(WAIT, (str(seconds), *gone), root=theirs, seconds=seconds + 30)
    return [Step("wait for the browser to take it up", wait, minor=True)]
