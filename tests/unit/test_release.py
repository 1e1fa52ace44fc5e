"""The key of a release: everything that changes the binary, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from roles.llama_cpp.decide import UNKNOWN, Release, wanted_release
from tests.unit import hosts, seed

PORTABLE = ["GGML_NATIVE=OFF", "GGML_AVX2=ON"]


def release(data: dict[str, Any] | None = None, commit: str = hosts.COMMIT, **fields: Any) -> Release:
    """The release for the seed's laptop, some of its answers changed."""
    wanted = seed.wishes(**data or {}).settings.llama_cpp
    return wanted_release(wanted, commit, hosts.parsed(seed.laptop_answers(llama_cpp=fields)))


def row(text: str) -> dict[str, Any]:
    return {"rc": 0, "out": text, "err": ""}


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
        pytest.param(release(compiler="16.1.0"), id="compiler's major version"),
        pytest.param(release(libc="glibc 2.43"), id="libc"),
        pytest.param(release(cpu_flags=["avx2", "fma", "avx512f"]), id="processor"),
        pytest.param(release(nvidia_smi=row(seed.RTX_3050.replace("8.6", "12.0"))), id="another GPU"),
        pytest.param(release(toolkits={"/usr/local/cuda-13.2/bin/nvcc": "13.2"}), id="toolkit's place"),
        pytest.param(release(toolkits={"/opt/cuda/bin/nvcc": "14.0"}), id="toolkit's version"),
    ],
)
def test_the_key_changes_with(other: Release) -> None:
    assert other.key != release().key


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(release(compiler="15.9.3"), id="the compiler's minor version"),
        pytest.param(release(compiler="15"), id="how the compiler tells its version"),
        pytest.param(release(nvidia_smi=row(seed.RTX_3050.replace("750", "5000"))), id="used VRAM"),
        pytest.param(release(nvidia_smi=row(seed.RTX_3050.replace("580.119.02", "590.1"))), id="the driver"),
        pytest.param(release(toolkits={"/usr/bin/nvcc": "12.4", "/opt/cuda/bin/nvcc": "13.2"}), id="an older toolkit"),
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


def test_before_there_is_a_compiler_the_key_is_not_known() -> None:
    assert release(compiler="").key == UNKNOWN
