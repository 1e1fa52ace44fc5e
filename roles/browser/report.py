"""Where a host stands with its browsers, in one line: the last word of the role alone, and the fleet's table. Pure."""

from __future__ import annotations

from roles.browser import decide, freed, words
from roles.browser.observe import BROWSER
from roles.browser.observe_models import MODELS
from roles.browser.table import BY_ID
from roles.observation import Observation
from roles.settings import Browser


def summary(wanted: Browser, seen: Observation, brief: bool = False) -> str:
    """What is in force for whom, what is not, and what models take now. `brief`: without what a run says anyway."""
    if failed := seen.unseen.get(BROWSER.name):
        return words.unseen("the browsers", failed)
    installs = [one for one in seen[BROWSER].installs if one.id in BY_ID]
    safe = [one for one in installs if freed.effective(seen, one.id)]
    told = [f"local AI models are forbidden to {' and '.join(map(words.title, safe))}"] if safe else []
    bare = [one for one in installs if one not in safe and BY_ID[one.id].folder]
    told += [f"not in force for {words.title(one)}" for one in bare]
    said = brief and wanted.browser_policy == "auto"
    rest = [one for one in installs if not BY_ID[one.id].folder]
    told += [words.unsupported(one, BY_ID[one.id]) for one in rest if not (said and words.is_told(BY_ID[one.id]))]
    ahead = [folder for folder in decide.targets(wanted, seen) if freed.forbidden(seen, folder)]
    used = {BY_ID[one.id].folder for one in installs}
    told += [f"the policy is in {folder} ahead of its browser" for folder in ahead if folder not in used]
    told += [f"{words.whose(one)} on disk" for one in seen[MODELS].profiles if one.models and not brief]
    told += [resident(one) for one in freed.residents(seen)]
    told += [words.unseen("the browsers' models", seen.unseen[MODELS.name])] if MODELS.name in seen.unseen else []
    return "; ".join(told) or ("no browser that is supported is installed" if installs else "no browser is installed")


def resident(one: freed.Resident) -> str:
    held = "an amount of VRAM that cannot be told" if one.used is None else f"{one.used} MiB of VRAM"
    return f"{one.program} (pid {one.pid}) holds a local model and {held} now"
