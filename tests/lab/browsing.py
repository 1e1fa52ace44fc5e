"""What the tests of the browser role do on a host: run the role alone, plant other people's files, ask a browser."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from roles.browser.table import CHROMIUM
from tests.lab import chromium
from tests.lab.deploying import Run, deploy
from tests.lab.host import LabHost


def clear(host: LabHost) -> None:
    for folder in ("etc/chromium/policies", "etc/opt", "etc/chromium-browser", "snap", "var/lib/flatpak"):
        shutil.rmtree(host.root / folder, ignore_errors=True)


def alone(host: LabHost, folder: Path, *words: str, **data: Any) -> Run:
    """The role alone, as dev, of whom nothing else is said."""
    inventory = folder / "inventory.py"
    inventory.write_text(f"machines = [({host.name!r}, { ({**host.ssh_data('dev'), **data})!r})]\n")
    return deploy(host.lab, inventory, *(words or ("-y",)), to="roles.browser.deploy.alone")


def write(host: LabHost, name: str, text: str | bytes, folder: str = CHROMIUM) -> Path:
    """A file of an administrator's, as a browser can read it."""
    path = host.root / folder[1:] / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o644)
    return path


def value(host: LabHost) -> object:
    """What a browser that is started now has for the policy; its absence is "absent"."""
    with chromium.running(host) as browser:
        found = browser.policy()
    return "absent" if found is None else found.get("error") or found["value"]


def changed(run: Run) -> list[str]:
    return [one["name"] for one in json.loads(run.out)["results"]["operations"] if one["success"]]


def plant(host: LabHost, path: str, size: int, user: str = "dev") -> None:
    """A file of somebody's, and the folders that lead to it."""
    script = f"mkdir -p '{path.rpartition('/')[0]}'; truncate -s {size} '{path}'"
    host.sh(script, user=user)
