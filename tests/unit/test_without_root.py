"""What only root may do is refused where nobody may be root, before anything else is done for it."""

from __future__ import annotations

from typing import Any

import pytest

from roles.host import AWAY
from roles.overview.operations import ahead
from tests.unit import browsers, hosts

BUILD: dict[str, Any] = {"llama_cpp": {"releases": {}}}


DUE = "what is due cannot be done (start llama-server): root is needed and "


def refused(
    has_password: bool = False, root: str = "password", scope: str = "system", lingers: bool = True, **changes: Any
) -> str | None:
    """Of a run that wants another context."""
    place = AWAY if scope == "system" else ""
    before = hosts.wishes(service_scope=scope)
    wanted = hosts.wishes(service_scope=scope, context=65536)
    here = {"data": place, "system_capped": True, "root": root, "lingers": lingers}
    return ahead(wanted, hosts.converged(before, host=here, **changes), has_password, print).refusal


@pytest.mark.parametrize("changes", [{}, BUILD])
def test_a_service_of_the_systems_is_refused_before_its_release_is_built(changes: dict[str, Any]) -> None:
    told = refused(**changes)
    assert told is not None
    assert told.startswith(DUE + "sudo wants a password; ")
    assert refused(root="none", **changes) == DUE + "dev has none"
    assert refused(has_password=True, **changes) is None
    assert refused(root="free", **changes) is None


def test_what_may_be_left_out_is_no_reason() -> None:
    assert refused(scope="user", root="none", browser=browsers.both(), lingers=False) is None
