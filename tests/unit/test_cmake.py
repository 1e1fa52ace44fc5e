"""What is built with and for, by the host's GPUs and the settings."""

from __future__ import annotations

from typing import Any

import pytest

from roles.gpu.classify import classify
from roles.gpu.observe import GPU
from roles.llama_cpp import cmake
from roles.llama_cpp.cuda import CannotBuild
from roles.observation import Observation
from tests.unit import hosts, machines, seed
from tests.unit.seed import RTX_3050

RPC = ["127.0.0.1:50052"]
HUNG = {"rc": None, "out": "", "err": "no answer within 10 s"}
MISMATCH = {
    "rc": 18,
    "out": "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.1\n",
}
HEALTHY = machines.nvidia(RTX_3050)


def backend(wanted: str, gpu: dict[str, Any]) -> str:
    data = hosts.wishes(backend=wanted, rpc_servers=RPC if wanted == "rpc" else [])
    return cmake.backend(data.settings.llama_cpp, classify(hosts.bare(gpu=gpu)[GPU]))


def arguments(data: dict[str, Any] | None = None, seen: Observation | None = None) -> tuple[str, ...]:
    wanted = hosts.wishes(**(data or {}))
    return cmake.arguments(wanted, seen or hosts.converged())


def laptop(**changes: dict[str, Any]) -> Observation:
    return hosts.parsed(seed.laptop_answers(**changes))


@pytest.mark.parametrize(
    ("wanted", "gpu", "expected"),
    [
        ("auto", HEALTHY, "cuda"),
        ("auto", machines.nvidia(RTX_3050, ("RTX 5090", "12.0")), "cuda"),
        ("auto", machines.nvidia(), "cpu"),
        ("cpu", HEALTHY, "cpu"),
        ("cpu", {**HEALTHY, "table": MISMATCH}, "cpu"),
        ("cuda", machines.nvidia(), "cuda"),
        ("rpc", HEALTHY, "rpc"),
    ],
)
def test_auto_is_cuda_where_a_gpu_answers_and_cpu_where_there_is_none(
    wanted: str, gpu: dict[str, Any], expected: str
) -> None:
    assert backend(wanted, gpu) == expected


@pytest.mark.parametrize(
    ("gpu", "told"),
    [
        ({**HEALTHY, "table": MISMATCH}, "of different versions"),
        ({**HEALTHY, "table": HUNG}, "nvidia-smi hangs"),
        ({**HEALTHY, "table": {"rc": 9, "out": "NVIDIA-SMI has failed because ...\n"}}, "cannot reach it"),
        ({**HEALTHY, "table": {"rc": 6, "out": "No devices were found\n"}}, "finds no GPU that works"),
        ({**HEALTHY, "loaded": None, "table": {"rc": 9, "out": ""}}, "kernel module is not loaded"),
        ({**HEALTHY, "table": None}, "nvidia-smi is not installed"),
    ],
)
def test_a_gpu_that_does_not_answer_is_never_taken_for_none(gpu: dict[str, Any], told: str) -> None:
    with pytest.raises(CannotBuild) as caught:
        backend("auto", gpu)
    assert told in str(caught.value)
    assert str(caught.value).endswith(". Mend it, or set backend='cpu'")
    assert "\n" not in str(caught.value)


def test_a_cuda_build_names_compilers_toolkit_and_architectures() -> None:
    assert {
        "CMAKE_C_COMPILER=/usr/bin/gcc",
        "CMAKE_CXX_COMPILER=/usr/bin/g++",
        "GGML_CUDA=ON",
        "CMAKE_CUDA_COMPILER=/opt/cuda/bin/nvcc",
        "CUDAToolkit_ROOT=/opt/cuda",
        "CMAKE_CUDA_ARCHITECTURES=86-real",
        "CMAKE_CUDA_HOST_COMPILER=/usr/bin/g++",
    } <= set(arguments(seen=laptop()))


def test_a_toolkit_that_does_not_take_the_newest_compiler_gets_an_older_one_for_itself_alone() -> None:
    both = {"compilers": {"/usr/bin/g++": "15.2.1", "/usr/bin/g++-14": "14.2.0"}}
    toolkits = {"toolkits": {"/opt/cuda/bin/nvcc": {"version": "13.2", "gcc_max": 14}}}
    found = arguments(seen=laptop(llama_cpp={**both, **toolkits}))
    assert "CMAKE_CUDA_HOST_COMPILER=/usr/bin/g++-14" in found
    assert "CMAKE_CXX_COMPILER=/usr/bin/g++" in found


@pytest.mark.parametrize(
    ("data", "needed"),
    [
        ({}, False),
        ({"cache_type_k": "q4_0", "cache_type_v": "q4_0"}, False),
        ({"cache_type_k": "q8_0", "cache_type_v": "q4_0"}, True),
        ({"cache_type_k": "q5_1", "cache_type_v": "q5_1"}, True),
    ],
)
def test_kernels_for_an_uncommon_cache_are_built_only_where_it_is_wanted(data: dict[str, Any], needed: bool) -> None:
    assert ("GGML_CUDA_FA_ALL_QUANTS=ON" in arguments(data, laptop())) is needed


def test_a_cache_type_that_cuda_has_no_kernel_for_is_refused_there_and_only_there() -> None:
    with pytest.raises(CannotBuild, match="cache_type_v: 'iq4_nl' has no CUDA kernel"):
        arguments({"cache_type_v": "iq4_nl"}, laptop())
    assert "GGML_CUDA=ON" not in arguments({"cache_type_v": "iq4_nl"})


@pytest.mark.parametrize("data", [{}, {"backend": "cpu"}, {"backend": "rpc", "rpc_servers": RPC}])
def test_no_other_build_has_anything_of_cuda(data: dict[str, Any]) -> None:
    found = arguments(data, laptop() if data else hosts.converged())
    assert not [argument for argument in found if "CUDA" in argument]
    assert ("GGML_RPC=ON" in found) == ("rpc_servers" in data)


def test_the_process_behind_rpc_is_built_for_rpc_alone() -> None:
    rpc = hosts.wishes(backend="rpc", rpc_servers=RPC).settings.llama_cpp
    assert "ggml-rpc-server" in cmake.targets(rpc)
    assert "ggml-rpc-server" not in cmake.targets(hosts.wishes().settings.llama_cpp)


@pytest.mark.parametrize(
    ("ref", "number"),
    [
        ("b12464", "12464"),
        ("b12", "12"),
        ("main", None),
        ("b", None),
        ("xb12", None),
        ("b12-x", None),
        ("a" * 40, None),
    ],
)
def test_only_a_tag_of_upstreams_form_tells_the_build_number(ref: str, number: str | None) -> None:
    found = arguments({"llama_ref": ref})
    numbers = [argument for argument in found if argument.startswith("LLAMA_BUILD_NUMBER=")]
    assert numbers == [f"LLAMA_BUILD_NUMBER={number or 0}"], "a shallow clone would say 1"
    assert "LLAMA_BUILD_COMMIT=012345678" in found


def test_the_inventorys_own_arguments_come_last() -> None:
    found = arguments({"llama_cmake_args": ["GGML_NATIVE=OFF", "GGML_AVX2=ON"]})
    assert found[-2:] == ("GGML_NATIVE=OFF", "GGML_AVX2=ON")
