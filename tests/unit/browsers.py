"""What the probe tells of browsers: those installed, the policies in their folders, a profile with a model."""

from __future__ import annotations

from typing import Any

from roles.browser.decide import text as policy_text
from roles.browser.table import CHROME, CHROMIUM, FILE, FOLDERS
from roles.settings.browser import Browser

POLICY = policy_text(Browser())
BOTH = ({"id": "Google Chrome (native)", "packaging": "deb"}, {"id": "Chromium (native)", "packaging": "deb"})


def both(installed: bool = True, managed: bool = False) -> dict[str, Any]:
    """Chrome and Chromium, as their packages leave them or with Paddock's policy."""
    return browser_answer(BOTH if installed else (), (CHROME, CHROMIUM) if managed else ())


def browser_answer(
    installs: Any = BOTH, managed: Any = (), mode: int = 0o755, files: dict[str, list[dict[str, Any]]] | None = None
) -> dict[str, Any]:
    """What the probe says of these browsers. `managed`: folders with our file; `files`: further ones, by folder."""
    seen: dict[str, Any] = {}
    for folder in FOLDERS:
        there = [policy_file()] if folder in managed else []
        there += (files or {}).get(folder, [])
        names = [folder, folder.rpartition("/")[0], folder.rpartition("/")[0].rpartition("/")[0]]
        seen[folder] = {
            "modes": dict.fromkeys(names, mode if there else None),
            "files": sorted(there, key=lambda file: file["name"].encode()),
            "more": False,
        }
    return {"installs": list(installs), "folders": seen}


def policy_file(text: str | None = POLICY, name: str = FILE, **fields: Any) -> dict[str, Any]:
    """A file in such a folder; without a name it is ours."""
    return {"name": name, "text": text, "whole": True, "mode": 0o644, "uid": 0, **fields}


def profile(**fields: Any) -> dict[str, Any]:
    """Chrome's directory in dev's home, with a model of 2.7 GB in it."""
    return {
        "path": "/home/dev/.config/google-chrome",
        "id": "Google Chrome (native)",
        "version": "139.0.7258.154",
        "running": False,
        "models": {"OptGuideOnDeviceModel": 2_700_000_000},
        **fields,
    }
