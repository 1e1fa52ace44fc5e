"""NVIDIA's wheels as the toolkit: when they are installed, when they will not do, what is known before."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest

from roles.llama_cpp import decide
from roles.llama_cpp.observe import LLAMA_CPP
from roles.llama_cpp.release import UNKNOWN, wanted_release
from roles.observation import Observation
from roles.overview.preflight import preflight
from roles.wishes import ToolkitPin, Wheel, Wishes
from tests.unit import hosts, machines, seed
from tests.unit.deciding import acting, at_rest, in_order, refusal, resting

PASCAL = ("NVIDIA GeForce GTX 1060 6GB", "6.1")


def pin(version: str) -> ToolkitPin:
    return ToolkitPin(version, (Wheel("nvidia-cuda-nvcc", f"{version}.86", "a" * 64, "https://files.test/nvcc.whl"),))


def wishes(version: str = "13.2", **data: Any) -> Wishes:
    settings = hosts.wishes(cuda_toolkit=f"wheel:{version}", **data).settings
    return Wishes(settings, hosts.COMMIT, None, toolkit=pin(version))


def laptop(installed: bool = False, /, **changes: Any) -> Observation:
    """The seed's laptop with everything but Arch's own CUDA; `installed`: NVIDIA's wheels are there."""
    nvcc = pin("13.2").folder.replace("~", "/home/dev") + "/bin/nvcc"
    there = {nvcc: {"version": "13.2", "gcc_max": 15}} if installed else {}
    ready = {**hosts.converged_answers()["host"], "cpus": 12}
    llama_cpp = {"toolkits": there, "named_toolkit": nvcc, **changes.pop("llama_cpp", {})}
    return hosts.parsed(
        seed.laptop_answers(**{"host": {**ready, **changes.pop("host", {})}, "llama_cpp": llama_cpp, **changes})
    )


def there(version: str = "13.2", **data: Any) -> Any:
    return partial(decide.toolkit_there, wishes(version, **data))


def test_wheels_that_are_wanted_and_missing_are_installed_before_the_build() -> None:
    decision = acting(there(), laptop())
    assert decision.reasons[0].startswith("install NVIDIA's CUDA toolkit 13.2 from its wheels, for this user alone")
    (step,) = decision.steps
    wire = json.loads(step.script.args[0])
    assert wire["name"] == "toolkit"
    assert not step.script.root
    assert "nvidia-cuda-nvcc 13.2.86 " + "a" * 64 + " https://files.test/nvcc.whl" in wire["script"]
    assert f"folder={pin('13.2').folder.replace('~', '/home/dev')}\n" in wire["script"]
    assert wanted_release(wishes(), decision.after).key == UNKNOWN, "which compiler it allows is known then"


def test_wheels_that_are_there_are_built_with() -> None:
    resting(there(), laptop(True))
    release = wanted_release(wishes(), laptop(True))
    assert release.argument("CUDAToolkit_ROOT") == pin("13.2").folder.replace("~", "/home/dev")
    assert release.stamp["toolkit"] == "13.2"


@pytest.mark.parametrize("data", [{"backend": "cpu"}, {"backend": "rpc", "rpc_servers": ["127.0.0.1:1"]}])
def test_nobody_installs_them_for_a_build_without_cuda(data: dict[str, Any]) -> None:
    resting(there(**data), laptop())


def test_auto_without_a_gpu_needs_none() -> None:
    resting(there(), laptop(gpu=machines.nvidia()))


def test_a_card_that_is_not_there_is_built_for_when_the_inventory_says_so() -> None:
    wanted = wishes(backend="cuda", cuda_architectures="86-real")
    seen = laptop(True, gpu=machines.nvidia())
    assert wanted_release(wanted, seen).argument("CMAKE_CUDA_ARCHITECTURES") == "86-real"
    assert at_rest(preflight(wanted, laptop(gpu=machines.nvidia())))


@pytest.mark.parametrize(
    ("version", "changes", "told"),
    [
        (
            "13.1",
            {"llama_cpp": {"libc": "glibc 2.41"}},
            "clash with glibc 2.41, which .* take wheel:13.2",
        ),
        ("13.0", {"llama_cpp": {"libc": "glibc 2.43"}}, "headers clash with glibc 2.43"),
        ("13.2", {"host": {"machine": "aarch64"}}, "is for x86_64 hosts, and this one is aarch64"),
        ("13.2", {"gpu": machines.nvidia(seed.RTX_3050, driver="570.124.06")}, "CUDA 13.2 needs driver 580 or newer"),
        ("13.2", {"gpu": machines.nvidia(PASCAL)}, "CUDA 13.2 has no code for NVIDIA GeForce GTX 1060 6GB"),
        ("13.2", {"llama_cpp": {"compilers": {}}}, r"no g\+\+ or no curl to put NVIDIA's toolkit together"),
    ],
)
def test_wheels_that_will_not_do_are_refused_before_they_come(version: str, changes: dict[str, Any], told: str) -> None:
    assert re.search(told, refusal(there(version), laptop(**changes)))


@pytest.mark.parametrize(("version", "libc"), [("13.1", "glibc 2.36"), ("13.2", "glibc 2.43"), ("14.0", "glibc 2.43")])
def test_wheels_whose_headers_fit_the_libc_are_taken(version: str, libc: str) -> None:
    acting(there(version), laptop(llama_cpp={"libc": libc}))


def test_the_preflight_says_it_before_any_package_is_installed() -> None:
    bare = hosts.bare(host={"machine": "aarch64"}, gpu=machines.nvidia(seed.RTX_3050))
    assert "is for x86_64 hosts" in refusal(partial(preflight, wishes()), bare)


def test_a_role_that_does_not_build_says_what_is_missing() -> None:
    told = refusal(partial(decide.built, wishes()), laptop())
    assert told == "cuda_toolkit='wheel:13.2' is not on this host yet; run the llama_cpp role"


def test_a_bare_host_is_planned_to_the_end() -> None:
    seen = hosts.bare(gpu=machines.nvidia(seed.RTX_3050), llama_cpp={"named_toolkit": "/w/bin/nvcc"})
    acted = []
    for name, decide_on in in_order(wishes()).items():
        decision = decide_on(seen)
        assert decision.refusal is None, (name, decision.refusal)
        acted += [name] if decision.steps else []
        seen = decision.after
    before = ["packages", "browser", "lingering", "toolkit", "llama_cpp", "memory"]
    assert acted == [*before, "sandbox", "guard", "service", "benchmark", "record"]
    assert list(seen[LLAMA_CPP].releases) == [UNKNOWN]


@pytest.mark.parametrize("version", ["13", "13.2.1", "12.9", "abc", ""])
def test_a_wheel_is_named_by_two_numbers_from_13_0_on(version: str) -> None:
    with pytest.raises(ValueError, match="cuda_toolkit="):
        hosts.wishes(cuda_toolkit=f"wheel:{version}")


def test_the_disk_must_hold_the_toolkit_too() -> None:
    seen = laptop(machine={"places": machines.machine(free=8 << 30)["places"]})
    told = refusal(partial(preflight, wishes()), seen)
    assert "it takes 6.4 GB for the build and 2.1 GB for the CUDA toolkit, and 1.1 GB to spare" in told


def test_a_cuda_build_on_a_host_without_a_gpu_is_told_to_be_in_vain() -> None:
    decision = preflight(wishes(backend="cuda", cuda_architectures="86-real"), laptop(gpu=machines.nvidia()))
    assert "no NVIDIA GPU is here: a CUDA build will be refused at its end, as it sees none" in (
        decision.left_out or ""
    )
