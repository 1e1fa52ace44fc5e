"""Browsers planted below a folder of a test: the rows of the table, with their places there."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from roles.browser.table import BY_ID, Row

HOMES = {
    "Google Chrome (native)": ".config/google-chrome",
    "Google Chrome dev (native)": ".config/google-chrome-unstable",
    "Google Chrome (com.google.Chrome)": ".var/app/com.google.Chrome/config/google-chrome",
    "Chrome for Testing (native)": ".config/google-chrome-for-testing",
    "Chromium (native)": ".config/chromium",
    "Chromium (snap)": "snap/chromium/common/chromium",
    "Chromium (org.chromium.Chromium)": ".var/app/org.chromium.Chromium/config/chromium",
    "Brave (native)": ".config/BraveSoftware/Brave-Browser",
    "Brave nightly (native)": ".config/BraveSoftware/Brave-Browser-Nightly",
    "Brave (com.brave.Browser)": ".var/app/com.brave.Browser/config/BraveSoftware/Brave-Browser",
    "Microsoft Edge beta (native)": ".config/microsoft-edge-beta",
}


def moved(name: str, root: Path) -> Row:
    """A row of the table with its places below `root`."""
    row = BY_ID[name]
    marks = tuple(f"{root}/{mark.lstrip('~/')}" for mark in row.marks)
    programs = tuple(f"{root}/{program.lstrip('~/')}" for program in row.programs)
    return Row(**{**asdict(row), "marks": marks, "programs": programs, "command": ""})


def plant(root: Path, path: str, text: str = "") -> Path:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file
