"""Which browsers lack the policy that keeps their local AI model out of VRAM, and how to write it."""

from __future__ import annotations

import json
from pathlib import Path

from roles.browser.observe import BROWSER, BROWSERS, PolicySeen
from roles.host import HOST, no_root
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.remote import Script
from roles.settings import Browser

# 1: do not download the model. Chrome's own definition: GenAILocalFoundationalModelSettings, Chrome 124 and later.
POLICY = {"GenAILocalFoundationalModelSettings": 1}
TEXT = json.dumps(POLICY, indent=2) + "\n"

# The browser reads every file in that folder, so the draft is written beside the folder and moved in whole. Under a
# umask of 077 it could not read the policy, and would not say so.
WRITE = (Path(__file__).parent / "write.sh").read_text("utf-8")


def targets(wanted: Browser, observation: Observation) -> list[str]:
    """The browsers whose policy is ours to write."""
    if wanted.browser_policy == "off":
        return []
    seen = observation[BROWSER].browsers
    if wanted.browser_policy == "auto":
        return [name for name in BROWSERS if seen[name].installed]
    return list(wanted.browser_policy)


def as_written(seen: PolicySeen) -> bool:
    """The file is as the browser needs it."""
    return seen.policy == TEXT and seen.mode == 0o644 and seen.uid == 0


def closed_folder(seen: PolicySeen) -> str | None:
    """A folder on the way that somebody closed to ordinary users: not ours to open."""
    return next((path for path, mode in seen.folders.items() if mode is not None and mode & 0o005 != 0o005), None)


def policy_set(wanted: Browser, has_password: bool, observation: Observation) -> Decision:
    """Every wanted browser has the policy."""
    seen = observation[BROWSER].browsers
    lacking = [name for name in targets(wanted, observation) if not as_written(seen[name])]
    closed = {name: folder for name in targets(wanted, observation) if (folder := closed_folder(seen[name]))}
    left_out = "; ".join(
        f"{name} cannot read its policy: {folder} is closed to ordinary users; run `chmod 0755 {folder}`"
        for name, folder in closed.items()
    )
    lacking = [name for name in lacking if name not in closed]
    if not lacking:
        return Decision(observation, left_out=left_out or None)
    if not observation[HOST].can_be_root(has_password):
        what = f"the policy against the local AI model of {' and '.join(lacking)} is not set"
        return Decision(observation, left_out=no_root(observation[HOST], what))
    after = dict(seen)
    steps, reasons = [], []
    for name in lacking:
        path = BROWSERS[name]["policy"]
        reasons.append(f"{path}: {_why(seen[name])}; {name} will say that it is managed by your organization")
        script = Script(WRITE, (path, TEXT), root=True)
        steps.append(Step(f"write {path}", script, (path, seen[name].policy or "", TEXT), optional=True))
        after[name] = seen[name].model_copy(
            update={"policy": TEXT, "mode": 0o644, "uid": 0, "folders": dict.fromkeys(seen[name].folders, 0o755)}
        )
    return Decision(
        observation.replace(BROWSER, browsers=after), tuple(reasons), tuple(steps), left_out=left_out or None
    )


def _why(seen: PolicySeen) -> str:
    if seen.policy is None:
        return "absent, or not readable"
    if seen.policy != TEXT:
        return "other content"
    return "not owned by root with mode 0644"
