"""The key of a release: everything that changes the binary, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from roles.llama_cpp.cuda import NOT_YET, CannotBuild
from roles.llama_cpp.release import UNKNOWN, Release, wanted_release
from roles.wishes import Wishes
from tests.unit import hosts, machines, seed

PORTABLE = ["GGML_NATIVE=OFF", "GGML_AVX2=ON"]


def release(data: dict[str, Any] | None = None, commit: str = hosts.COMMIT, **changes: Any) -> Release:
    """The release for the seed's laptop; `gpu` changes what its driver tells, any other key what it builds with."""
    wanted = Wishes(seed.wishes(**(data or {})).settings, commit, None)
    gpu = {"gpu": changes.pop("gpu")} if "gpu" in changes else {}
    return wanted_release(wanted, hosts.parsed(seed.laptop_answers(llama_cpp=changes, **gpu)))


def gcc(version: str) -> dict[str, str]:
    return {"/usr/bin/g++": version}


def nvcc(version: str, place: str = "/opt/cuda") -> dict[str, Any]:
    return {f"{place}/bin/nvcc": {"version": version}}


def test_the_key_begins_with_the_commit_and_names_a_folder() -> None:
    assert re.fullmatch(r"012345678-[0-9a-f]{8}", release().key)
    assert release().folder("/data") == f"/data/releases/{release().key}"
    assert release() == release()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(release(commit="f" * 40), id="commit"),
        pytest.param(release({"llama_cmake_args": ["GGML_LTO=ON"]}), id="argument"),
        pytest.param(release({"llama_ref": "b12464"}), id="build number"),
        pytest.param(release({"backend": "cpu"}), id="backend"),
        pytest.param(release({"cuda_architectures": "75"}), id="architectures"),
        pytest.param(release(compilers=gcc("16.1.0")), id="compiler's major version"),
        pytest.param(release(libc="glibc 2.43"), id="libc"),
        pytest.param(release(cpu_flags=["avx2", "fma", "avx512f"]), id="processor"),
        pytest.param(release(gpu=machines.nvidia(("RTX 5090", "12.0"))), id="another GPU"),
        pytest.param(release(toolkits=nvcc("13.2", "/usr/local/cuda-13.2")), id="toolkit's place"),
        pytest.param(release(toolkits=nvcc("14.0")), id="toolkit's version"),
        pytest.param(release({"cache_type_k": "q8_0"}), id="kernels that the cache needs"),
    ],
)
def test_the_key_changes_with(other: Release) -> None:
    assert other.key != release().key


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(release(compilers=gcc("15.9.3")), id="the compiler's minor version"),
        pytest.param(release(compilers=gcc("15")), id="how the compiler tells its version"),
        pytest.param(release(gpu=machines.nvidia(seed.RTX_3050, used=5000)), id="used VRAM"),
        pytest.param(release(gpu=machines.nvidia(seed.RTX_3050, driver="590.48.01")), id="the driver"),
        pytest.param(release(toolkits={**nvcc("12.4", "/usr"), **nvcc("13.2")}), id="an older toolkit"),
        pytest.param(release(cpu_flags=["avx2", "fma", "pti", "md_clear"]), id="what the kernel says of the processor"),
        pytest.param(release({"context": 4096, "port": 8080}), id="how it is served"),
        pytest.param(release(releases={"older": {"commit": "e" * 40}}), id="other releases"),
    ],
)
def test_the_key_does_not_change_with(other: Release) -> None:
    assert other.key == release().key


def test_the_processor_counts_only_in_a_native_build() -> None:
    portable = release({"llama_cmake_args": PORTABLE})
    assert release({"llama_cmake_args": PORTABLE}, cpu_flags=["sse2"]).key == portable.key
    assert "cpu" not in portable.stamp


def test_without_a_compiler_there_is_none() -> None:
    with pytest.raises(CannotBuild, match=r"no g\+\+ to build llama\.cpp with; run the packages role first"):
        release(compilers={})


@pytest.mark.parametrize("fields", [{"compilers": gcc(NOT_YET)}, {"toolkits": nvcc(NOT_YET)}])
def test_before_compiler_and_toolkit_are_installed_the_key_is_not_known(fields: dict[str, Any]) -> None:
    assert release(**fields).key == UNKNOWN
