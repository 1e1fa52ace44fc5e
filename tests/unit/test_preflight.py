"""What is said of a host before anything on it is touched, and whether root is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from roles.overview.forecast import needs_root
from roles.overview.preflight import preflight
from tests.unit import browsers, hosts, machines, seed, services
from tests.unit.deciding import Decide, judged, left_out, refusal, resting

ROLES = ("packages", "browser", "llama_cpp", "model", "service", "benchmark")
UNCAPPED = {"user_manager": True, "memory_capped": False}


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


@pytest.mark.parametrize(("port", "uid", "fits"), [(80, 1000, False), (80, 0, True), (1024, 1000, True)])
def test_a_port_of_roots_is_for_root(port: int, uid: int, fits: bool) -> None:
    seen = hosts.bare(host={"uid": uid})
    if fits:
        resting(judged(port=port), seen)
    else:
        assert refusal(judged(port=port), seen) == "port=80 may be opened by root only; take one from 1024 up"


def test_a_driver_that_does_not_fit_asks_for_a_reboot_and_nothing_else() -> None:
    gpu = {**machines.nvidia(seed.RTX_3050), "libraries": {"libcuda.so.1": "590.1", "libnvidia-ml.so.1": "590.1"}}
    told = refusal(judged(), hosts.bare(gpu={**gpu, "table": {"rc": 18, "out": "mismatch"}}))
    assert told.startswith("reboot: the loaded NVIDIA module is 580.119.02 and the driver's libraries are 590.1")


@pytest.mark.parametrize("next_boot", [None, "590.1"])
def test_what_the_next_boot_will_break_is_said_before_it_does(next_boot: str | None) -> None:
    gpu = {**machines.nvidia(seed.RTX_3050), "kernel_newest": "6.13.0"}
    seen = hosts.parsed(seed.laptop_answers(gpu={**gpu, "modules": {**gpu["modules"], "6.13.0": next_boot}}))
    assert "kernel 6.13.0 has " in left_out(judged(), seen)


def test_a_cap_that_would_not_hold_is_only_said_where_a_warning_is_wanted() -> None:
    assert "MemoryMax would be accepted and not enforced" in left_out(
        judged(memory_cap_required="warn"), hosts.bare(host=UNCAPPED)
    )
    resting(judged(memory_cap_required=False), hosts.bare(host=UNCAPPED))


def test_the_port_may_be_our_own_services() -> None:
    resting(judged(), hosts.converged())


def test_a_cap_of_all_the_memory_is_allowed() -> None:
    resting(judged(service_memory_max="32G"), hosts.bare())


PASCAL = ("NVIDIA GeForce GTX 1060", "6.1")


@pytest.mark.parametrize(
    ("data", "changes", "sentence"),
    [
        (
            {},
            {"gpu": machines.nvidia(PASCAL), "llama_cpp": {"toolkits": {"/a/bin/nvcc": {"version": "13.0"}}}},
            "CUDA 13.0 has no code for NVIDIA GeForce GTX 1060 (compute capability 6.1); it begins at 7.5",
        ),
        (
            {},
            {
                "gpu": machines.nvidia(seed.RTX_3050, driver="570.124.06"),
                "llama_cpp": {"toolkits": {"/a/bin/nvcc": {"version": "13.0"}}},
            },
            "CUDA 13.0 needs driver 580 or newer, and 570.124.06 is loaded",
        ),
        (
            {},
            {"gpu": machines.nvidia(seed.RTX_3050)},
            "a CUDA toolkit is needed and none was found. Install",
        ),
        ({}, {"gpu": machines.nvidia(PASCAL, driver="590.48.01")}, "takes the 580 branch"),
        ({"cuda_toolkit": "/srv/cuda"}, {"gpu": machines.nvidia(seed.RTX_3050)}, "/srv/cuda has no bin/nvcc"),
        ({"only": "llama_cpp"}, {}, "no g++ to build llama.cpp with; run the packages role first"),
    ],
)
def test_what_cannot_be_built_is_refused_before_any_package_is_installed(
    data: dict[str, Any], changes: dict[str, Any], sentence: str
) -> None:
    assert sentence in refusal(judged(**data), hosts.bare(**changes))


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        ({"backend": "cpu"}, {"gpu": machines.nvidia(PASCAL, driver="590.48.01")}),
        ({}, {"gpu": machines.nvidia(seed.RTX_3050), "llama_cpp": {"toolkits": {"/a/bin/nvcc": {"version": "13.2"}}}}),
        ({}, {"gpu": machines.nvidia(PASCAL), "llama_cpp": {"toolkits": {"/a/bin/nvcc": {"version": "12.8"}}}}),
        ({}, {"gpu": machines.nvidia(seed.RTX_3050), "host": {"os_id": "arch"}}),
        ({}, {"host": {"root": "password"}}),
    ],
)
def test_what_can_be_built_once_the_packages_are_there_is_let_through(
    data: dict[str, Any], changes: dict[str, Any]
) -> None:
    resting(judged(**data), hosts.bare(**changes))


KEYED = {"api_key_file": "~/keys"}
MISMATCH: dict[str, Any] = {
    **machines.nvidia(seed.RTX_3050),
    "libraries": {"libcuda.so.1": "590.1", "libnvidia-ml.so.1": "590.1"},
    "table": {"rc": 18, "out": "mismatch"},
}
TROUBLE: dict[str, tuple[dict[str, Any], dict[str, Any], set[str]]] = {
    "no systemd": ({}, {"host": {"systemd": False}}, set(ROLES)),
    "a driver to reboot for": ({}, {"gpu": MISMATCH}, {"llama_cpp", "service"}),
    "a GPU that does not answer": (
        {},
        {"gpu": {**machines.nvidia(seed.RTX_3050), "table": None}},
        {"llama_cpp", "service"},
    ),
    "no toolkit": ({}, {"gpu": machines.nvidia(seed.RTX_3050)}, {"llama_cpp", "service"}),
    "noexec": ({}, {"machine": machines.machine(noexec=True)}, {"llama_cpp", "service"}),
    "no room for the build": (
        {},
        {"machine": machines.machine(free=0), "llama_cpp": {"releases": {}}},
        {"llama_cpp"},
    ),
    "a cap beyond the memory": ({"service_memory_max": "64G"}, {}, {"service"}),
    "a cap that would not hold": ({}, {"host": UNCAPPED}, {"service"}),
    "no model": ({}, {"model": hosts.ABSENT}, {"service"}),
    "a context beyond the model's": ({}, {"model": {"trained_context": 4096}}, {"service"}),
    "a port of root's": ({"port": 80}, {}, {"service"}),
    "a port that is taken": ({}, {"service": {"port_taken": True, "port_holder": None, "properties": {}}}, {"service"}),
    "no key": (KEYED, {}, {"service"}),
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", TROUBLE)
def test_only_what_a_run_will_need_is_looked_at(name: str, role: str) -> None:
    data, changes, needing = TROUBLE[name]
    decision = preflight(hosts.wishes(**data, only=role), hosts.converged(**changes))
    assert (decision.refusal is not None) == (role in needing), decision.refusal


@pytest.mark.parametrize("name", TROUBLE)
def test_a_whole_run_looks_at_everything(name: str) -> None:
    data, changes, _ = TROUBLE[name]
    refusal(judged(**data), hosts.converged(**changes))


def test_the_gpu_is_not_spoken_of_where_it_is_not_used() -> None:
    gpu = {**machines.nvidia(seed.RTX_3050), "kernel_newest": "6.13.0"}
    seen = hosts.bare(gpu={**gpu, "modules": {**gpu["modules"], "6.13.0": None}})
    resting(judged(backend="cpu"), seen)


BROWSERLESS = browsers.both(installed=False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"host": {"commands": {}}}, True),
        ({"host": {"lingers": False}}, True),
        ({"browser": browsers.both()}, True),
        ({"browser": BROWSERLESS}, False),
        ({"llama_cpp": {"releases": {}}}, False),
        ({"service": services.absent()}, False),
    ],
)
def test_root_is_asked_for_only_where_something_due_needs_it(changes: dict[str, Any], expected: bool) -> None:
    seen = hosts.converged(**{**changes, "host": {**changes.get("host", {}), "root": "password"}})
    assert needs_root(hosts.wishes(), seen) is expected


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


def test_settings_that_every_llama_cpp_of_the_host_reads_are_told() -> None:
    told = left_out(judged(), hosts.converged(service={"system_config": True}))
    assert "/etc/llama.cpp/config.ini: what the unit does not say comes from there" in told


@pytest.mark.parametrize(("cache", "fits"), [(13_000, True), (14_336, False)])
def test_a_cap_that_is_still_to_be_planned_may_be_all_that_is_not_reserved(cache: int, fits: bool) -> None:
    host = {"memory_total": 16 << 30}
    if fits:
        resting(judged(cache_ram_mib=cache), hosts.bare(host=host))
    else:
        told = refusal(judged(cache_ram_mib=cache), hosts.bare(host=host))
        assert told == "service_memory_max is 14336 MiB here, and cannot hold cache_ram_mib=14336"
