"""A run of one role by itself: around its work stands what deploy.py has around all roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from roles.overview.operations import checked, ended
from roles.overview.start import begin


def alone(role: str, work: Callable[..., Any]) -> None:
    """One host's run; `work` calls the role's operations, and gets `wishes` for no other role."""
    wishes = begin()
    if wishes is None:
        return
    wishes = replace(wishes, settings=wishes.settings.model_copy(update={"only": (role,)}))
    checked(name="Check the host", wishes=wishes)
    work(wishes=wishes)
    ended(name="Remember and sum up", wishes=wishes)
