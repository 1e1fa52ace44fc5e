"""Which browsers are installed, and what stands where their policy goes."""

from __future__ import annotations

from typing import Any

from roles.observation import Fragment, Seen
from roles.probe_tools import entries, find_command, node, read


def look_at_browser(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import os

    seen = {}
    for name, browser in ask["browsers"].items():
        path = browser["policy"]
        file = node(path)
        folders = {}
        folder = os.path.dirname(path)
        while folder != "/etc":
            at = node(folder)
            folders[folder] = at["mode"] if at else None
            folder = os.path.dirname(folder)
        seen[name] = {
            "installed": any(find_command(command) for command in browser["commands"])
            or any(entries(place) for place in browser["places"]),
            "policy": read(path) if file else None,
            "mode": file["mode"] if file else None,
            "uid": file["uid"] if file else None,
            "folders": folders,
        }
    return {"browsers": seen}


class PolicySeen(Seen):
    """`folders`: the modes of those that lead to the policy file, None where one is missing."""

    installed: bool
    policy: str | None
    mode: int | None
    uid: int | None
    folders: dict[str, int | None]


class BrowserSeen(Seen):
    browsers: dict[str, PolicySeen]


# One branding path for every channel of Chrome. The name sorts late: the last file in byte order wins a key.
BROWSERS: dict[str, dict[str, Any]] = {
    "chrome": {
        "policy": "/etc/opt/chrome/policies/managed/paddock.json",
        "commands": ["google-chrome", "google-chrome-stable", "google-chrome-beta", "google-chrome-unstable"],
        "places": ["/opt/google/chrome"],
    },
    "chromium": {
        "policy": "/etc/chromium/policies/managed/paddock.json",
        "commands": ["chromium"],
        "places": ["/usr/lib/chromium"],
    },
}

NOT_THERE = PolicySeen(installed=False, policy=None, mode=None, uid=None, folders={})
UNKNOWN = BrowserSeen(browsers=dict.fromkeys(BROWSERS, NOT_THERE))

BROWSER = Fragment("browser", look_at_browser, lambda _: {"browsers": BROWSERS}, BrowserSeen, UNKNOWN)
