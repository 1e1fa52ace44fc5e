"""A model resolved against the lab's Hub on loopback, or the sentence of its refusal.

A test module takes a fixture from here by its name: `hub = pinning.hub`. `hub` wants the module's own `running`, which
may be the one here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roles import settings
from roles.lock import CannotPin, Lock
from roles.model import hub as the_hub
from roles.model import pin
from roles.wishes import ModelPin
from tests.lab.hub import Hub
from tests.lab.hub.sample import MODEL, WEIGHTS, sample_hub

TOLD: list[str] = []


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with sample_hub(tmp_path_factory.mktemp("repos")) as hub:
        yield hub


@pytest.fixture
def hub(running: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """It has no faults, and whoever asks it has no token, no header from before, and no patience."""
    running.reset()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    monkeypatch.setattr(the_hub, "PAUSES", (0, 0))
    return running


@pytest.fixture
def lock(tmp_path: Path) -> Lock:
    return Lock(tmp_path / "inventory.lock.yml")


def resolve(hub: Hub, lock: Lock, **data: Any) -> ModelPin:
    TOLD.clear()
    wanted = {"model_repo": MODEL, "model_file": WEIGHTS, "hub_endpoint": hub.url, **data}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    found = pin.model(settings.Model(**wanted), lock, TOLD.append)
    assert found is not None
    return found


def pinned(wanted: settings.Model) -> ModelPin:
    """As a run without a lock pins it."""
    found = pin.model(wanted, Lock(Path("nowhere.lock.yml")), lambda line: None)
    assert found is not None
    return found


def refused(hub: Hub, lock: Lock, **data: Any) -> str:
    with pytest.raises(CannotPin) as told:
        resolve(hub, lock, **data)
    assert "\n" not in str(told.value)
    return str(told.value)


def with_token(monkeypatch: pytest.MonkeyPatch, hub: Hub, token: str) -> dict[str, str]:
    """The token at hand, and the endpoint named for it."""
    monkeypatch.setattr("huggingface_hub.get_token", lambda: token)
    return {"hub_token_for": hub.url}


def anywhere(hub: Hub, name: str = WEIGHTS, query: str = "?key=secret") -> dict[str, Any]:
    """The settings of a file that is not on the Hub; the Hub's server is any server here."""
    commit = hub.repo(MODEL).branches["main"]
    file = hub.repo(MODEL).commits[commit][name]
    url = f"{hub.url}/{MODEL}/resolve/{commit}/{name.replace(' ', '%20')}{query}"
    return {"model_repo": None, "model_file": None, "model_url": url, "model_sha256": file.sha256}
