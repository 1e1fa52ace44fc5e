"""Whether the service starts at boot and who stopped it: the inventory, somebody by hand, or a switch that failed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from roles.service import decide
from roles.service.command import UNIT
from roles.service.observe import SERVICE
from tests.unit import hosts, machines, services
from tests.unit.deciding import acting, left_out, reasons, resting
from tests.unit.serving import candidate, running, shown


def test_a_service_that_somebody_disabled_runs_on_and_that_is_said() -> None:
    told = left_out(running(), hosts.converged(service=shown(UnitFileState="disabled")))
    assert told == f"somebody disabled {UNIT}, so it does not start at boot"


RESTING = {"ActiveState": "inactive", "Result": "success", "InactiveEnterTimestampMonotonic": "0"}
MANUAL = hosts.wishes(service_autostart=False)


def test_a_service_that_shall_not_start_at_boot_is_not_enabled_and_a_change_of_mind_is_the_reason() -> None:
    resting(running(MANUAL), hosts.converged(MANUAL))
    assert reasons(running(MANUAL), hosts.converged()) == f"{UNIT} is enabled, and service_autostart is False"
    never_enabled = {**shown(UnitFileState="disabled"), "proved": None}
    assert f"{UNIT} is not enabled" in reasons(running(), hosts.converged(service=never_enabled))
    fresh = hosts.converged(MANUAL, service=services.absent())
    assert acting(running(MANUAL), fresh).after[SERVICE].shown("UnitFileState") == "disabled"
    assert candidate(running(MANUAL), fresh)["autostart"] is False


LAPTOP = {**machines.machine(), "battery": True}


@pytest.mark.parametrize(
    ("machine", "data", "told"),
    [
        (LAPTOP, {}, True),
        (LAPTOP, {"sleep_idle_seconds": 600}, False),
        (LAPTOP, {"service_autostart": False}, False),
        (machines.machine(), {}, False),
    ],
)
def test_before_a_laptop_gets_a_service_that_is_always_there_it_is_said_what_that_costs_and_how_to_choose(
    machine: dict[str, Any], data: dict[str, Any], told: bool
) -> None:
    seen = hosts.converged(machine=machine, service=services.absent())
    assert ("sleep_idle_seconds=600 gives both back" in reasons(running(**data), seen)) == told


def test_one_that_shall_not_start_at_boot_is_left_stopped_after_it_and_that_is_said() -> None:
    after_boot = {**shown(UnitFileState="disabled", **RESTING), "port_taken": False}
    told = left_out(running(MANUAL), hosts.converged(MANUAL, service=after_boot))
    assert told.startswith(f"service_autostart is False, nobody has started {UNIT}, and it stays so; `systemctl")


STOPPED = shown(ActiveState="inactive", Result="success", InactiveEnterTimestampMonotonic="5000000")

# What `disable --now` leaves: systemd has forgotten when the unit was active.
BY_HAND = shown(UnitFileState="disabled", **RESTING)


@pytest.mark.parametrize("fields", [STOPPED, {"masked": True, "unit": None}, BY_HAND])
def test_a_service_that_somebody_stopped_stays_stopped_and_that_is_said(fields: dict[str, Any]) -> None:
    told = left_out(running(context=65536), hosts.converged(service={**fields, "port_taken": False}))
    assert told.startswith(f"somebody stopped {UNIT}, and it stays so; `systemctl --user start {UNIT}`")


@pytest.mark.parametrize(
    "fields",
    [
        shown(ActiveState="failed", Result="exit-code", InactiveEnterTimestampMonotonic="5000000"),
        shown(ActiveState="inactive", Result="success", InactiveEnterTimestampMonotonic="0"),
    ],
)
def test_one_that_failed_or_was_never_up_in_this_boot_is_started(fields: dict[str, Any]) -> None:
    assert "start llama-server" in reasons(running(), hosts.converged(service={**fields, "port_taken": False}))


FAILED = {"stamp": "", "why": "--gone is no option of this release; it was stopped", "stopped": "5000000"}


def test_the_next_run_tells_why_the_last_switch_failed() -> None:
    stamp = hosts.converged()[SERVICE].running_stamp
    seen = hosts.converged(service={"switch": {**FAILED, "stamp": stamp}, **shown(ActiveState="failed")})
    assert reasons(running(), seen) == f"start llama-server: it is failed (the last time: {FAILED['why']})"


def test_one_that_the_gate_stopped_was_stopped_by_nobody() -> None:
    seen = hosts.converged(service={**STOPPED, "switch": FAILED, "port_taken": False})
    assert "start llama-server: it is inactive" in reasons(running(), seen)
    later = hosts.converged(service={**STOPPED, "switch": {**FAILED, "stopped": "4"}, "port_taken": False})
    assert left_out(running(), later).startswith("somebody stopped")


LINGERING = partial(decide.lingering, False)


@pytest.mark.parametrize("fields", [{"lingers": False}, {"user_manager": False}])
def test_a_user_who_does_not_linger_is_made_to(fields: dict[str, Any]) -> None:
    (step,) = acting(LINGERING, hosts.converged(host=fields)).steps
    assert step.script.root
    assert step.script.args == ("dev", "1000", "/home/dev/.local/share/paddock/created")


def test_without_root_lingering_is_left_out_and_said_with_what_follows() -> None:
    told = left_out(LINGERING, hosts.bare(host={"root": "none"}))
    assert told.startswith("dev does not linger, so the service stops at logout and does not start at boot: ")
