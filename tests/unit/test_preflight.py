"""What is said of a host before anything on it is touched, and at the end of a run."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from roles import overview
from tests.unit import hosts, seed
from tests.unit.deciding import Decide, left_out, refusal, resting

UNCAPPED = {"user_manager": True, "memory_capped": False}


def preflight(**data: Any) -> Decide:
    return partial(overview.preflight, hosts.wishes(**data))


def test_a_bare_host_is_fit() -> None:
    resting(preflight(), hosts.bare())


@pytest.mark.parametrize(
    ("decide", "changes", "sentence"),
    [
        (preflight(), {"host": {"systemd": False}}, "systemd does not run this host"),
        (preflight(service_memory_max="64G"), {}, "service_memory_max=64G is more than the 32768 MiB of RAM"),
        (preflight(), {"host": UNCAPPED}, "boot with cgroup v2, or set memory_cap_required='warn'"),
        (
            preflight(),
            {"service": {"port_taken": True, "port_holder": {"pid": 99, "name": "nginx"}}},
            "port=8091 is taken by nginx (pid 99)",
        ),
    ],
)
def test_a_host_that_will_not_do_is_refused(decide: Decide, changes: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(decide, hosts.bare(**changes))


def test_a_cap_that_would_not_hold_is_only_said_where_a_warning_is_wanted() -> None:
    assert "MemoryMax would be accepted and not enforced" in left_out(
        preflight(memory_cap_required="warn"), hosts.bare(host=UNCAPPED)
    )
    resting(preflight(memory_cap_required=False), hosts.bare(host=UNCAPPED))


def test_the_port_may_be_our_own_services() -> None:
    resting(preflight(), hosts.converged())


def test_a_cap_of_all_the_memory_is_allowed() -> None:
    resting(preflight(service_memory_max="32G"), hosts.bare())


BROWSERLESS = hosts.browsers(installed=False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"host": {"commands": {}}}, True),
        ({"host": {"lingers": False}}, True),
        ({"browser": hosts.browsers()}, True),
        ({"browser": BROWSERLESS}, False),
        ({"llama_cpp": {"releases": {}}}, False),
        ({"service": hosts.bare_answers()["service"]}, False),
    ],
)
def test_root_is_asked_for_only_where_something_due_needs_it(changes: dict[str, Any], expected: bool) -> None:
    seen = hosts.converged(**{**changes, "host": {**changes.get("host", {}), "root": "password"}})
    assert overview.needs_root(hosts.wishes(), seen) is expected


def test_the_last_line_tells_what_is_served_where_and_within_which_cap() -> None:
    wanted = seed.wishes()
    assert overview.summary(wanted, hosts.converged(wanted)).startswith(
        "serving Flint-abliterated-Mix-12G.gguf at http://127.0.0.1:8091 with llama.cpp 012345678, capped at 24576 MiB"
    )


@pytest.mark.parametrize(("state", "told"), [("failed", "failed"), ("inactive", "inactive"), ("", "not there")])
def test_the_last_line_does_not_claim_what_does_not_run(state: str, told: str) -> None:
    seen = hosts.bare(service={"properties": {"ActiveState": state}})
    assert overview.summary(hosts.wishes(), seen) == f"paddock-llama-server.service is {told}"


def test_the_last_line_does_not_call_an_endless_cap_a_number() -> None:
    properties = {**hosts.converged_answers()["service"]["properties"], "MemoryMax": "infinity"}
    assert "capped at 0 MiB" not in overview.summary(
        hosts.wishes(), hosts.converged(service={"properties": properties})
    )
