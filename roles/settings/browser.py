"""The keys of the browser role."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, JsonValue

from roles.settings.base import Record, key
from roles.settings.values import BrowserName, check_policies


class Browser(Record):
    """Which browsers get the policy that keeps their local AI model away, and what else they are told."""

    browser_policy: Literal["auto", "off"] | tuple[BrowserName, ...] = key(
        "auto", "auto: the browsers installed; a list: these, installed or not; off: none", ["chrome"]
    )
    browser_policies: Annotated[dict[str, JsonValue], AfterValidator(check_policies)] = key(
        {}, "further policies for the same file, by Chrome's own names", {"BuiltInAIAPIsEnabled": False}
    )
    browser_delete_models: bool = key(
        False, "delete local models on disk, where the policy holds and the browser is closed", True
    )
