"""The API keys: a file that only its owner reads, and no key anywhere else."""

from __future__ import annotations

from typing import Any

import pytest

from roles.service.observe import SERVICE
from tests.unit import hosts, services
from tests.unit.deciding import acting, reasons, refusal, resting
from tests.unit.serving import candidate, running

KEYED = hosts.wishes(api_key_file="~/keys")


def with_keys(**fields: Any) -> dict[str, Any]:
    """What stands where the API keys are, on a host that was converged for them."""
    return {**hosts.converged_answers(KEYED)["service"], "key_file": {**services.KEY, **fields}}


def test_a_new_key_is_for_a_new_process() -> None:
    seen = hosts.converged(KEYED, service=with_keys(mtime_ns=6))
    assert "restart llama-server" in reasons(running(KEYED), seen)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"mode": 0o640}, "can be read by others; it must be dev's own with mode 0600"),
        ({"uid": 0}, "belongs to another user"),
        ({"keys": 0}, "is not a file with a key in it"),
        ({"kind": "dir"}, "is not a file with a key in it"),
    ],
)
def test_api_keys_that_others_can_read_or_that_are_none_are_refused(fields: dict[str, Any], sentence: str) -> None:
    told = refusal(running(KEYED), hosts.converged(KEYED, service=with_keys(**fields)))
    assert told.startswith("api_key_file='~/keys' ")
    assert sentence in told


def test_the_key_itself_is_nowhere_in_the_unit_or_the_script() -> None:
    resting(running(KEYED), hosts.converged(KEYED, service=with_keys()))
    fresh = {**services.absent(), "key_file": services.KEY}
    decision = acting(running(KEYED), hosts.converged(KEYED, service=fresh))
    assert " --api-key-file /home/dev/keys " in (decision.after[SERVICE].unit or "")
    assert candidate(running(KEYED), hosts.converged(KEYED, service=fresh))["key_file"] == "/home/dev/keys"
