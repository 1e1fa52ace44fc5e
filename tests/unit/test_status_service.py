"""What the status says of the service."""

from __future__ import annotations

import pytest

from roles.overview import rows
from roles.overview.status import COLUMNS, LOST, row
from roles.overview.summary import summary
from tests.unit import hosts


def serves(**service: object) -> list[str]:
    return row(hosts.wishes(), hosts.converged(service=service))[0].splitlines()


def test_a_service_that_was_killed_at_its_cap_is_told_although_it_came_back() -> None:
    told = "outgrew its cap, and the kernel killed it (oom-kill): 2026-11-30T18:06:40+0000"
    assert told in serves(outgrew="2026-11-30T18:06:40+0000")
    assert not [line for line in serves() if "oom-kill" in line]


def test_a_benchmark_under_way_is_told_by_the_status_and_by_the_last_line() -> None:
    told = "a benchmark is under way there: paddock-benchmark; "
    assert [line for line in serves(measuring=True) if line.startswith(told)]
    assert told in summary(hosts.wishes(), hosts.converged(service={"measuring": True}))
    assert told not in summary(hosts.wishes(), hosts.converged())
    assert not [line for line in serves() if line.startswith(told)]


def test_a_service_that_somebody_stopped_is_told_with_what_was_measured_of_it() -> None:
    measured = next(line for line in serves() if line.startswith("tokens per second"))
    stopped = {
        "ActiveState": "inactive",
        "InactiveEnterTimestampMonotonic": "9",
        "Result": "success",
        "UnitFileState": "enabled",
    }
    told = serves(properties=stopped, running_stamp=None)
    assert "inactive, 0 restarts; somebody stopped paddock-llama-server.service, and it stays so" in told
    assert measured in told
    assert "not measured" not in told


def test_one_restart_is_one() -> None:
    assert "active, 1 restart" in serves(properties={"ActiveState": "active", "NRestarts": "1"})


def test_what_a_deploy_would_do_to_a_bare_host_is_told_apart() -> None:
    first, *others = row(hosts.wishes(), hosts.bare())[2].splitlines()
    assert first.startswith("rebuild")
    assert len(others) > 3
    assert all(line.startswith("- ") for line in others)


def test_brackets_in_a_name_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    rows.show(["laptop"], COLUMNS, {"laptop": ("some[/q4].gguf", "[bold]", "")}, LOST)
    told = capsys.readouterr().err
    assert "some[/q4].gguf" in told
    assert "[bold]" in told


def test_the_status_tells_why_the_last_switch_did_not_pass() -> None:
    switch = {
        "stamp": "0" * 16,
        "why": "llama-server answers on the CPU; the former service answers",
    }
    told = row(hosts.wishes(), hosts.converged(service={"switch": switch}))[0].splitlines()
    assert f"the last switch: {switch['why']}" in told


@pytest.mark.parametrize(
    ("scope", "capped", "told"),
    [
        ("user", {"memory_capped": True}, "capped at 13312 MiB"),
        ("user", {"memory_capped": False}, "its cap of 13312 MiB not enforced here"),
        ("system", {"memory_capped": False, "system_capped": True}, "capped at 13312 MiB"),
        ("system", {"memory_capped": True, "system_capped": False}, "its cap of 13312 MiB not enforced here"),
    ],
)
def test_the_cap_is_said_to_hold_where_the_services_own_manager_holds_it(
    scope: str, capped: dict[str, bool], told: str
) -> None:
    properties = {**hosts.converged_answers()["service"]["properties"], "MemoryMax": str(13 << 30)}
    seen = hosts.converged(host=capped, service={"properties": properties})
    assert f", {told}; " in summary(hosts.wishes(service_scope=scope), seen)
