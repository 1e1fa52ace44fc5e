"""The last line of a run: what is served, where and within which cap, and no more than that."""

from __future__ import annotations

import pytest

from roles.overview.status import row
from roles.overview.summary import summary
from tests.unit import hosts, seed


def test_the_last_line_tells_what_is_served_where_and_within_which_cap() -> None:
    wanted = seed.wishes()
    assert summary(wanted, hosts.converged(wanted)).startswith(
        "serving Flint-abliterated-Mix-12G.gguf at http://127.0.0.1:8091 with llama.cpp 012345678, capped at 24576 MiB"
    )


@pytest.mark.parametrize(("state", "told"), [("failed", "failed"), ("inactive", "inactive"), ("", "not there")])
def test_the_last_line_does_not_claim_what_does_not_run(state: str, told: str) -> None:
    seen = hosts.bare(service={"properties": {"ActiveState": state}})
    assert summary(hosts.wishes(), seen) == f"paddock-llama-server.service is {told}"


def test_the_last_line_does_not_call_an_endless_cap_a_number() -> None:
    properties = {**hosts.converged_answers()["service"]["properties"], "MemoryMax": "infinity"}
    assert "capped at 0 MiB" not in summary(hosts.wishes(), hosts.converged(service={"properties": properties}))


def test_the_last_line_and_the_status_tell_what_the_watchdog_found_of_this_service() -> None:
    wanted, stamp = hosts.wishes(), hosts.converged_answers()["service"]["proved"]
    found = {"watchdog": {"stamp": stamp, "said": "llama-server has lost its device"}}
    seen = hosts.converged(service=found)
    assert summary(wanted, seen).endswith("; the watchdog: llama-server has lost its device")
    assert "the watchdog: llama-server has lost its device" in row(wanted, seen)[0].splitlines()
    old = hosts.converged(service={"watchdog": {"stamp": "0" * 16, "said": "of another service"}})
    assert "watchdog" not in summary(wanted, old) + row(wanted, old)[0]
