"""What is said of a host before anything on it is touched, and at the end of a run."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from roles.overview.preflight import needs_root, preflight, verdict
from roles.overview.summary import summary
from tests.unit import hosts, seed
from tests.unit.deciding import Decide, left_out, refusal, resting

UNCAPPED = {"user_manager": True, "memory_capped": False}


def judged(**data: Any) -> Decide:
    return partial(preflight, hosts.wishes(**data))


def test_a_bare_host_is_fit() -> None:
    resting(judged(), hosts.bare())


@pytest.mark.parametrize(
    ("decide", "changes", "sentence"),
    [
        (judged(), {"host": {"systemd": False}}, "systemd does not run this host"),
        (judged(service_memory_max="64G"), {}, "service_memory_max=64G is more than the 32768 MiB of RAM"),
        (judged(), {"host": UNCAPPED}, "boot with cgroup v2, or set memory_cap_required='warn'"),
        (
            judged(),
            {"service": {"port_taken": True, "port_holder": {"pid": 99, "name": "nginx"}}},
            "port=8091 is taken by nginx (pid 99)",
        ),
    ],
)
def test_a_host_that_will_not_do_is_refused(decide: Decide, changes: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(decide, hosts.bare(**changes))


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ({"read_only": True}, "is on a file system that is mounted read-only"),
        ({"writable": False}, "cannot be written by dev"),
        ({"noexec": True}, "mounted noexec, and programs are run from there"),
        ({"type": "tmpfs"}, "is in memory (tmpfs), and would be gone after a reboot"),
        ({"inodes_free": 100}, "with 100 free inodes"),
        ({"free": 2 << 30}, "GB free"),
    ],
)
def test_a_disk_that_will_not_do_is_refused(place: dict[str, Any], sentence: str) -> None:
    told = refusal(judged(), hosts.bare(machine=hosts.machine(**place)))
    assert told.startswith(("~/.local/share/paddock ", "~/.cache/paddock "))
    assert sentence in told


def test_release_and_model_need_room_together() -> None:
    both, wanted = (3 << 30) + hosts.PIN.size + (1 << 30), partial(preflight, hosts.wishes(hosts.HUB_DATA))
    absent = {"file": None, "is_gguf": False}
    resting(wanted, hosts.bare(model=absent, machine=hosts.machine(free=both)))
    told = refusal(wanted, hosts.bare(model=absent, machine=hosts.machine(free=both - 1)))
    assert "it takes 3.2 GB for the build and 12.0 GB for the model, and 1.1 GB to spare" in told


def test_a_full_disk_is_no_trouble_where_nothing_is_missing() -> None:
    resting(judged(), hosts.converged(machine=hosts.machine(free=0)))


@pytest.mark.parametrize(("port", "uid", "fits"), [(80, 1000, False), (80, 0, True), (1024, 1000, True)])
def test_a_port_of_roots_is_for_root(port: int, uid: int, fits: bool) -> None:
    seen = hosts.bare(host={"uid": uid})
    if fits:
        resting(judged(port=port), seen)
    else:
        assert refusal(judged(port=port), seen) == "port=80 may be opened by root only; take one from 1024 up"


def test_a_driver_that_does_not_fit_asks_for_a_reboot_and_nothing_else() -> None:
    gpu = {**hosts.nvidia(seed.RTX_3050), "libraries": {"libcuda.so.1": "590.1", "libnvidia-ml.so.1": "590.1"}}
    told = refusal(judged(), hosts.bare(gpu={**gpu, "table": {"rc": 18, "out": "mismatch"}}))
    assert told.startswith("reboot: the loaded NVIDIA module is 580.119.02 and the driver's libraries are 590.1")


@pytest.mark.parametrize("next_boot", [None, "590.1"])
def test_what_the_next_boot_will_break_is_said_before_it_does(next_boot: str | None) -> None:
    gpu = {**hosts.nvidia(seed.RTX_3050), "kernel_newest": "6.13.0"}
    seen = hosts.parsed(seed.laptop_answers(gpu={**gpu, "modules": {**gpu["modules"], "6.13.0": next_boot}}))
    assert "kernel 6.13.0 has " in left_out(judged(), seen)


@pytest.mark.parametrize(
    ("data", "changes", "told"),
    [
        ({}, {}, "nothing: driver, card, release, model and settings are as the last deploy left them"),
        ({}, {"record": {"facts": None}}, "replan: nothing is recorded about this host yet"),
        ({}, {"llama_cpp": {"releases": {}}}, "rebuild: release 012345678-"),
        ({}, {"llama_cpp": {"compilers": {"/usr/bin/g++": "15.1.0"}}}, "rebuild: release 012345678-"),
        ({"context": 65536}, {}, "replan: other settings"),
        (
            {},
            {"model": {"file": {"kind": "file", "mode": 0, "uid": 0, "size": 5, "mtime_ns": 5}}},
            "replan: another model",
        ),
        ({}, {"machine": {"kernel": "6.13.0"}}, f"rebench: kernel {hosts.KERNEL} -> 6.13.0"),
        ({}, {"gpu": hosts.nvidia(seed.RTX_3050)}, "rebuild: a CUDA toolkit is needed and none was found"),
    ],
)
def test_the_verdict_is_the_gravest_that_applies(data: dict[str, Any], changes: dict[str, Any], told: str) -> None:
    assert str(verdict(hosts.wishes(**data), hosts.converged(**changes))).startswith(told)


def test_a_cap_that_would_not_hold_is_only_said_where_a_warning_is_wanted() -> None:
    assert "MemoryMax would be accepted and not enforced" in left_out(
        judged(memory_cap_required="warn"), hosts.bare(host=UNCAPPED)
    )
    resting(judged(memory_cap_required=False), hosts.bare(host=UNCAPPED))


def test_the_port_may_be_our_own_services() -> None:
    resting(judged(), hosts.converged())


def test_a_cap_of_all_the_memory_is_allowed() -> None:
    resting(judged(service_memory_max="32G"), hosts.bare())


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
    assert needs_root(hosts.wishes(), seen) is expected


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


def test_a_part_of_the_host_that_cannot_be_looked_at_is_said_and_the_rest_stands() -> None:
    answers: dict[str, Any] = {**hosts.converged_answers(), "benchmark": {"error": "OSError(5)"}, "browser": "garbage"}
    seen = hosts.parsed(answers)
    decision = preflight(hosts.wishes(), seen)
    assert decision.refusal is None
    assert "benchmark could not be looked at (benchmark: OSError(5))" in (decision.left_out or "")
    assert "browser could not be looked at" in (decision.left_out or "")


def test_a_gpu_that_cannot_be_looked_at_is_not_taken_for_none() -> None:
    answers: dict[str, Any] = {**hosts.converged_answers(), "gpu": {"error": "OSError(5)"}}
    decision = preflight(hosts.wishes(), hosts.parsed(answers))
    assert "set backend='cpu'" in (decision.refusal or "")


@pytest.mark.parametrize("part", ["host", "machine", "llama_cpp", "model", "service"])
def test_without_the_parts_that_everything_rests_on_nothing_is_decided(part: str) -> None:
    with pytest.raises(ValueError, match=part):
        hosts.parsed({**hosts.converged_answers(), part: {"error": "OSError(5)"}})
