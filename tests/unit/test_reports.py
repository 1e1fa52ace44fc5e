"""Public reports of CUDA builds that broke, as hosts: what Paddock chooses there, or the sentence that it says."""

from __future__ import annotations

from typing import Any

import pytest

from roles.llama_cpp.cuda import CannotBuild
from roles.llama_cpp.release import Release, wanted_release
from roles.observation import Observation
from roles.overview.preflight import preflight
from tests.unit import hosts, machines
from tests.unit.deciding import refusal

FEDORA = {"os_id": "fedora", "os_like": "", "os_name": "Fedora Linux 44"}
UBUNTU = {"os_id": "ubuntu", "os_like": "debian", "os_name": "Ubuntu 24.04 LTS"}
ARCH = {"os_id": "cachyos", "os_like": "arch", "os_name": "CachyOS"}
DEBIAN = {"os_id": "debian", "os_like": "", "os_name": "Debian GNU/Linux 13 (trixie)"}
RTX_3050, RTX_3090 = ("NVIDIA GeForce RTX 3050 6GB Laptop GPU", "8.6"), ("NVIDIA GeForce RTX 3090", "8.6")
RTX_5070, RTX_5090 = ("NVIDIA GeForce RTX 5070", "12.0"), ("NVIDIA GeForce RTX 5090", "12.0")
GTX_1060 = ("NVIDIA GeForce GTX 1060 6GB", "6.1")
UNNAMED = ("NVIDIA Graphics Device", "[N/A]")


def host(
    distribution: dict[str, str],
    card: tuple[str, str],
    toolkits: dict[str, tuple[str, int | None]],
    compilers: dict[str, str],
    driver: str = "580.119.02",
    libc: str = "glibc 2.39",
) -> Observation:
    """A host with its packages; toolkits by folder: version, and the newest gcc that their header allows."""
    found = {f"{at}/bin/nvcc": {"version": version, "gcc_max": most} for at, (version, most) in toolkits.items()}
    return hosts.converged(
        host={**hosts.converged_answers()["host"], **distribution},
        gpu=machines.nvidia(card, driver=driver),
        llama_cpp={
            "toolkits": found,
            "compilers": {f"/usr/bin/{name}": v for name, v in compilers.items()},
            "libc": libc,
        },
    )


GCC_16_ONLY = host(FEDORA, RTX_3050, {"/usr/local/cuda-13.0": ("13.0", 15)}, {"g++": "16.1.1"})
GCC_15_TOO = host(FEDORA, RTX_3050, {"/usr/local/cuda-13.0": ("13.0", 15)}, {"g++": "16.1.1", "g++-15": "15.2.1"})
OLD_NVCC = host(UBUNTU, RTX_5090, {"/usr": ("12.0", 12)}, {"g++": "13.3.0", "g++-12": "12.4.0"})
BOTH_NVCC = host(UBUNTU, RTX_5090, {"/usr": ("12.0", 12), "/usr/local/cuda-13.2": ("13.2", 15)}, {"g++": "13.3.0"})
OLD_DRIVER = host(
    UBUNTU, RTX_3090, {"/usr/local/cuda-13.2": ("13.2", 15), "/usr/local/cuda-12.8": ("12.8", 14)}, {"g++": "13.3.0"},
    driver="570.133.07",
)  # fmt: skip
ARCH_CUDA = host(ARCH, RTX_3050, {"/opt/cuda": ("13.2", 15)}, {"g++": "15.2.1", "g++-14": "14.3.1"}, libc="glibc 2.43")
PASCAL_OLD = host(ARCH, GTX_1060, {"/opt/cuda": ("13.2", 15)}, {"g++": "15.2.1"}, driver="580.119.02")
PASCAL_12 = host(DEBIAN, GTX_1060, {"/usr/local/cuda-12.8": ("12.8", 14)}, {"g++": "14.2.0"})
NO_TOOLKIT = host(DEBIAN, RTX_3050, {}, {"g++": "14.2.0"})
NO_CAPABILITY = host(DEBIAN, UNNAMED, {"/usr/local/cuda": ("13.2", 15)}, {"g++": "14.2.0"})


def release(seen: Observation, **data: Any) -> Release:
    return wanted_release(hosts.wishes(**data), seen)


@pytest.mark.parametrize(
    ("seen", "nvcc", "compiler", "architectures"),
    [
        pytest.param(GCC_15_TOO, "/usr/local/cuda-13.0/bin/nvcc", "g++-15", "86-real", id="E7: llama.cpp#22668"),
        pytest.param(BOTH_NVCC, "/usr/local/cuda-13.2/bin/nvcc", "g++", "120-real", id="E9: llama.cpp#23118"),
        pytest.param(OLD_DRIVER, "/usr/local/cuda-12.8/bin/nvcc", "g++", "86-real", id="B8: the driver is older"),
        pytest.param(ARCH_CUDA, "/opt/cuda/bin/nvcc", "g++", "86-real", id="B5: Arch's, on no PATH of a service"),
        pytest.param(PASCAL_12, "/usr/local/cuda-12.8/bin/nvcc", "g++", "61-real", id="E16: Pascal with CUDA 12"),
    ],
)
def test_what_goes_together_is_chosen(seen: Observation, nvcc: str, compiler: str, architectures: str) -> None:
    chosen = release(seen)
    assert chosen.argument("CMAKE_CUDA_COMPILER") == nvcc
    assert chosen.argument("CUDAToolkit_ROOT") == nvcc.removesuffix("/bin/nvcc")
    assert chosen.argument("CMAKE_CUDA_HOST_COMPILER") == f"/usr/bin/{compiler}"
    assert chosen.argument("CMAKE_CUDA_ARCHITECTURES") == architectures


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        pytest.param(
            GCC_16_ONLY,
            "CUDA 13.0 allows g++ up to 15, here is 16.1.1; install gcc15-c++",
            id="E7: llama.cpp#22668, Fedora 44",
        ),
        pytest.param(
            OLD_NVCC,
            "no CUDA toolkit on this host fits: CUDA 12.0 does not know NVIDIA GeForce RTX 5090 (compute capability"
            " 12.0); CUDA 12.8 is the first that does. Install cuda-toolkit from NVIDIA's repository for Ubuntu 24.04"
            " LTS (the distribution's own nvidia-cuda-toolkit is often too old), or set cuda_toolkit='wheel:13.2'"
            " (needs no root), or backend='cpu'",
            id="E9: llama.cpp#23118",
        ),
        pytest.param(
            NO_CAPABILITY,
            "NVIDIA Graphics Device does not tell a compute capability; set cuda_architectures, as in '86-real'",
            id="E10: llama.cpp#18430",
        ),
        pytest.param(
            PASCAL_OLD,
            "no CUDA toolkit on this host fits: CUDA 13.2 has no code for NVIDIA GeForce GTX 1060 6GB (compute"
            " capability 6.1); it begins at 7.5. Install cuda (pacman -S cuda), or backend='cpu'",
            id="E16: no wheel would do either",
        ),
        pytest.param(
            NO_TOOLKIT,
            "a CUDA toolkit is needed and none was found. Install cuda-toolkit from NVIDIA's repository for Debian"
            " GNU/Linux 13 (trixie) (the distribution's own nvidia-cuda-toolkit is often too old), or set"
            " cuda_toolkit='wheel:13.2' (needs no root), or backend='cpu'",
            id="E13: nvcc vanished",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_remedy(seen: Observation, told: str) -> None:
    with pytest.raises(CannotBuild) as error:
        release(seen)
    assert str(error.value) == told
    assert refusal(lambda seen: preflight(hosts.wishes(), seen), seen) == told


def test_a_replaced_card_is_another_release() -> None:
    """E11: llama.cpp#13271; the old build folder was used on for a 5070."""
    toolkits: dict[str, tuple[str, int | None]] = {"/usr/local/cuda-13.2": ("13.2", 15)}
    before, after = (release(host(UBUNTU, card, toolkits, {"g++": "13.3.0"})) for card in (RTX_3090, RTX_5070))
    assert before.key != after.key
    assert after.argument("CMAKE_CUDA_ARCHITECTURES") == "120-real"


def test_no_card_is_left_to_compile_at_its_first_use() -> None:
    """E12: llama-cpp-python#1064; PTX of a newer toolkit is refused by the driver at the first compute."""
    for seen in (GCC_15_TOO, BOTH_NVCC, OLD_DRIVER, ARCH_CUDA, PASCAL_12):
        assert release(seen).argument("CMAKE_CUDA_ARCHITECTURES").endswith("-real")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"cache_type_k": "q4_0", "cache_type_v": "q4_0"}, ""),
        ({"cache_type_k": "q8_0", "cache_type_v": "q4_0"}, "ON"),
        ({"cache_type_k": "q5_1", "cache_type_v": "q5_1"}, "ON"),
    ],
)
def test_all_kernels_are_compiled_exactly_where_the_caches_need_them(data: dict[str, Any], expected: str) -> None:
    assert release(ARCH_CUDA, **data).argument("GGML_CUDA_FA_ALL_QUANTS") == expected
