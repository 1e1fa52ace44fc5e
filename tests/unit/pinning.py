"""A model resolved against the lab's Hub on loopback, or the sentence of its refusal."""

from __future__ import annotations

from typing import Any

import pytest

from roles import settings
from roles.lock import CannotPin, Lock
from roles.model import pin
from roles.wishes import ModelPin
from tests.lab.hub import Hub
from tests.lab.hub.sample import MODEL, WEIGHTS

TOLD: list[str] = []


def resolve(hub: Hub, lock: Lock, **data: Any) -> ModelPin:
    TOLD.clear()
    wanted = {"model_repo": MODEL, "model_file": WEIGHTS, "hub_endpoint": hub.url, **data}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    found = pin.model(settings.Model(**wanted), lock, TOLD.append)
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
