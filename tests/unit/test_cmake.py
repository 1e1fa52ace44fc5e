"""What is built with and for, by the host's GPUs, toolkits and settings."""

from __future__ import annotations

from typing import Any

import pytest

from roles.llama_cpp import cmake
from roles.llama_cpp.observe import LLAMA_CPP, LlamaCppSeen
from roles.settings import LlamaCpp
from tests.unit import hosts

COMMA = "NVIDIA RTX 4000, SFF Ada, 8.9, 20475, 3, 580.119.02"
RTX_3050 = "NVIDIA GeForce RTX 3050 6GB Laptop GPU, 8.6, 6144, 750, 580.119.02"
RTX_5090 = "NVIDIA GeForce RTX 5090, 12.0, 32607, 0, 580.119.02"
TOOLKITS = {"/opt/cuda/bin/nvcc": "13.2", "/usr/local/cuda-12.4/bin/nvcc": "12.4", "/usr/bin/nvcc": "9.2"}
NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\nMake sure that it runs.\n"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.119\n"


def wanted(**data: Any) -> LlamaCpp:
    return hosts.wishes(**data).settings.llama_cpp


def seen(*gpus: str, **fields: Any) -> LlamaCppSeen:
    """A host with these rows of nvidia-smi; without any it has no nvidia-smi either."""
    smi = {"rc": 0, "out": "".join(row + "\n" for row in gpus), "err": ""} if gpus else None
    answer = {"nvidia_smi": smi, "nvidia_device": bool(gpus), "compiler": "14.2.0", **fields}
    return hosts.bare(llama_cpp=answer)[LLAMA_CPP]


def answered(rc: int | None, out: str = "", err: str = "", device: bool = False) -> LlamaCppSeen:
    return seen(nvidia_smi={"rc": rc, "out": out, "err": err}, nvidia_device=device)


@pytest.mark.parametrize(
    ("backend", "host", "expected"),
    [
        ("auto", seen(RTX_3050), "cuda"),
        ("auto", seen(RTX_3050, RTX_5090), "cuda"),
        ("auto", seen(), "cpu"),
        ("auto", answered(0), "cpu"),
        ("auto", answered(9, NO_DRIVER), "cpu"),
        ("auto", answered(6, "No devices were found\n"), "cpu"),
        ("cpu", seen(RTX_3050), "cpu"),
        ("cpu", answered(18, MISMATCH, device=True), "cpu"),
        ("cuda", seen(), "cuda"),
        ("rpc", seen(RTX_3050), "rpc"),
    ],
)
def test_auto_is_cuda_where_a_gpu_answers_and_otherwise_cpu(backend: str, host: LlamaCppSeen, expected: str) -> None:
    servers = ["127.0.0.1:50052"] if backend == "rpc" else []
    assert cmake.backend(wanted(backend=backend, rpc_servers=servers), host) == expected


@pytest.mark.parametrize(
    ("host", "told"),
    [
        (answered(18, MISMATCH), "Driver/library version mismatch"),
        (answered(18, MISMATCH, device=True), "Driver/library version mismatch"),
        (answered(9, NO_DRIVER, device=True), "couldn't communicate with the NVIDIA driver"),
        (answered(6, "No devices were found\n", device=True), "No devices were found"),
        (answered(None, err="Command 'nvidia-smi' timed out after 10 seconds"), "timed out after 10 seconds"),
        (answered(None, err="Command 'nvidia-smi' timed out after 10 seconds", device=True), "timed out"),
        (seen(nvidia_device=True), "nvidia-smi is not installed"),
    ],
)
def test_a_gpu_that_does_not_answer_is_never_taken_for_none(host: LlamaCppSeen, told: str) -> None:
    with pytest.raises(cmake.CannotBuild, match="there is an NVIDIA GPU, but the driver does not answer") as caught:
        cmake.backend(wanted(), host)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_newest_toolkit_is_taken_wherever_it_is() -> None:
    for order in (TOOLKITS, dict(reversed(TOOLKITS.items()))):
        tools = cmake.toolkit(wanted(), seen(RTX_3050, toolkits=order))
        assert (tools.root, tools.version) == ("/opt/cuda", "13.2")


def test_versions_of_toolkits_are_compared_as_numbers() -> None:
    host = seen(RTX_3050, toolkits={"/usr/local/cuda-9.2/bin/nvcc": "9.2", "/usr/local/cuda-12.10/bin/nvcc": "12.10",
                                    "/usr/local/cuda-12.9/bin/nvcc": "12.9"})  # fmt: skip
    assert cmake.toolkit(wanted(), host).version == "12.10"


@pytest.mark.parametrize("named", ["/usr/local/cuda-12.4", "/usr/local/cuda-12.4/"])
def test_a_named_toolkit_is_taken_although_it_is_older(named: str) -> None:
    assert cmake.toolkit(wanted(cuda_toolkit=named), seen(RTX_3050, toolkits=TOOLKITS)).version == "12.4"


@pytest.mark.parametrize(
    ("data", "host", "sentence"),
    [
        ({}, seen(RTX_3050), "a CUDA toolkit is needed and none was found"),
        ({"cuda_toolkit": "/srv/cuda"}, seen(RTX_3050, toolkits=TOOLKITS), "/srv/cuda has no bin/nvcc"),
        ({"backend": "cuda"}, seen(toolkits=TOOLKITS), "no GPU tells its compute capability; set cuda_architectures"),
    ],
)
def test_what_a_cuda_build_lacks_is_told(data: dict[str, Any], host: LlamaCppSeen, sentence: str) -> None:
    with pytest.raises(cmake.CannotBuild, match=sentence):
        cmake.arguments(wanted(**data), host, hosts.COMMIT)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([RTX_3050], "86-real"),
        ([RTX_3050, RTX_3050], "86-real"),
        ([RTX_5090, RTX_3050], "120-real;86-real"),
        ([RTX_3050, RTX_5090], "120-real;86-real"),
        ([COMMA], "89-real"),
    ],
)
def test_each_gpu_is_built_for_once_in_an_order_that_does_not_depend_on_theirs(rows: list[str], expected: str) -> None:
    assert cmake.architectures(wanted(), seen(*rows)) == expected


def test_named_architectures_are_taken_as_they_are() -> None:
    assert cmake.architectures(wanted(cuda_architectures="75;86-real"), seen(RTX_5090)) == "75;86-real"


def test_the_name_of_a_gpu_may_hold_commas() -> None:
    (gpu,) = seen(COMMA).gpus
    assert gpu.name == "NVIDIA RTX 4000, SFF Ada"
    assert (gpu.compute_cap, gpu.memory_total, gpu.memory_used, gpu.driver) == ("8.9", 20475, 3, "580.119.02")


def test_lines_of_nvidia_smi_that_are_no_gpu_are_passed_over() -> None:
    assert [gpu.name for gpu in seen("warning: something", RTX_3050, "").gpus] == [
        "NVIDIA GeForce RTX 3050 6GB Laptop GPU"
    ]


def test_a_cuda_build_names_compiler_toolkit_and_architectures() -> None:
    arguments = cmake.arguments(wanted(), seen(RTX_3050, toolkits=TOOLKITS), hosts.COMMIT)
    assert {
        "GGML_CUDA=ON",
        "CMAKE_CUDA_COMPILER=/opt/cuda/bin/nvcc",
        "CUDAToolkit_ROOT=/opt/cuda",
        "CMAKE_CUDA_ARCHITECTURES=86-real",
    } <= set(arguments)


@pytest.mark.parametrize(
    ("data", "host"),
    [({}, seen()), ({"backend": "cpu"}, seen(RTX_3050)), ({"backend": "rpc", "rpc_servers": ["localhost:1"]}, seen())],
)
def test_no_other_build_has_anything_of_cuda(data: dict[str, Any], host: LlamaCppSeen) -> None:
    arguments = cmake.arguments(wanted(**data), host, hosts.COMMIT)
    assert not [argument for argument in arguments if "CUDA" in argument]
    assert ("GGML_RPC=ON" in arguments) == ("rpc_servers" in data)


def test_the_process_behind_rpc_is_built_for_rpc_alone() -> None:
    assert "ggml-rpc-server" in cmake.targets(wanted(backend="rpc", rpc_servers=["localhost:1"]))
    assert "ggml-rpc-server" not in cmake.targets(wanted())


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
    arguments = cmake.arguments(wanted(llama_ref=ref), seen(), hosts.COMMIT)
    numbers = [argument for argument in arguments if argument.startswith("LLAMA_BUILD_NUMBER=")]
    assert numbers == ([f"LLAMA_BUILD_NUMBER={number}"] if number else [])
    assert "LLAMA_BUILD_COMMIT=012345678" in arguments


def test_the_inventorys_own_arguments_come_last() -> None:
    arguments = cmake.arguments(wanted(llama_cmake_args=["GGML_NATIVE=OFF", "GGML_AVX2=ON"]), seen(), hosts.COMMIT)
    assert arguments[-2:] == ("GGML_NATIVE=OFF", "GGML_AVX2=ON")
