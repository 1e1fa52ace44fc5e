"""Which toolkit and which compiler build for which card under which driver, from public reports of what broke."""

from __future__ import annotations

import pytest

from roles.gpu.classify import Gpu, Nvidia
from roles.host import HOST
from roles.llama_cpp import cuda
from roles.llama_cpp.cuda import CannotBuild, Toolkit
from roles.llama_cpp.observe import LlamaCppSeen, ToolkitSeen
from tests.unit import hosts

DEBIAN = hosts.bare()[HOST]


def gpu(capability: str | None, name: str = "card") -> Gpu:
    return Gpu(
        index=0,
        uuid="GPU-1",
        name=name,
        compute_cap=capability,
        memory_total=6144,
        memory_used=400,
        pcie_gen=(1, 4),
        pcie_width=(8, 8),
        mig=False,
        display=False,
    )


def seen(toolkits: dict[str, tuple[str, int | None]], **compilers: str) -> LlamaCppSeen:
    return LlamaCppSeen(
        releases={},
        compilers={
            f"/usr/bin/{name.replace('gpp', 'g++').replace('_', '-')}": version for name, version in compilers.items()
        },
        libc="glibc 2.41",
        cpu_flags=(),
        options={},
        shelf={},
        in_use=(),
        toolkits={nvcc: ToolkitSeen(version=version, gcc_max=most) for nvcc, (version, most) in toolkits.items()},
    )


@pytest.mark.parametrize(
    ("capability", "toolkit", "driver", "problem"),
    [
        ("8.6", "13.2", "580.119.02", None),
        ("8.6", "12.4", "570.124.06", None),
        ("8.6", "13.2", "570.124.06", "CUDA 13.2 needs driver 580 or newer, and 570.124.06 is loaded"),
        ("8.6", "12.4", "515.1", "needs driver 525 or newer"),
        ("6.1", "13.0", "580.1", "has no code for card (compute capability 6.1); it begins at 7.5"),
        ("6.1", "12.8", "580.1", None),
        ("7.0", "13.0", "580.1", "begins at 7.5"),
        ("7.5", "13.0", "580.1", None),
        ("12.0", "12.0", "580.1", "CUDA 12.0 does not know card (compute capability 12.0); CUDA 12.8 is the first"),
        ("12.0", "12.8", "580.1", None),
        ("12.0", "12.7", "580.1", "CUDA 12.8 is the first"),
        ("12.1", "12.8", "580.1", "CUDA 12.8 does not know card (compute capability 12.1); CUDA 12.9 is the first"),
        ("12.1", "12.9", "580.1", None),
        ("12.1", "13.0", "580.1", None),
        ("10.0", "12.8", "580.1", None),
        ("10.3", "12.8", "580.1", "CUDA 12.9 is the first"),
        ("10.3", "12.9", "580.1", None),
        ("9.0", "11.8", "580.1", None),
        ("8.9", "11.7", "580.1", "CUDA 11.8 is the first"),
        ("5.0", "12.8", "580.1", None),
        ("3.5", "12.0", "580.1", "CUDA 12.0 has no code for card (compute capability 3.5); it begins at 5.0"),
        ("3.7", "13.0", "580.1", "it begins at 7.5"),
        ("3.5", "11.4", "470.1", None),
        ("8.6", "13.2", None, None),
        (None, "13.2", "580.1", None),
    ],
)
def test_a_toolkit_fits_a_card_under_a_driver(
    capability: str | None, toolkit: str, driver: str | None, problem: str | None
) -> None:
    found = cuda.unsupported(Toolkit("/opt/cuda/bin/nvcc", toolkit), gpu(capability), driver)
    assert (found is None) == (problem is None), found
    assert problem is None or problem in (found or "")


def test_the_newest_toolkit_that_fits_is_taken_and_not_the_newest() -> None:
    host = seen({"/usr/local/cuda-13.2/bin/nvcc": ("13.2", 15), "/usr/local/cuda-12.8/bin/nvcc": ("12.8", 14)})
    nvidia = Nvidia("healthy", driver="570.124.06", gpus=(gpu("8.6"),))
    assert cuda.toolkit("auto", nvidia, host, DEBIAN).version == "12.8"


def test_where_none_fits_every_one_is_told_why() -> None:
    host = seen({"/a/bin/nvcc": ("13.2", 15), "/usr/bin/nvcc": ("12.0", 12)})
    nvidia = Nvidia("healthy", driver="570.1", gpus=(gpu("12.0", "RTX 5090"),))
    with pytest.raises(CannotBuild, match=r"CUDA 13\.2 needs driver 580.*CUDA 12\.0 does not know RTX 5090"):
        cuda.toolkit("auto", nvidia, host, DEBIAN)


def test_two_cards_must_both_be_known() -> None:
    host = seen({"/a/bin/nvcc": ("13.2", 15)})
    nvidia = Nvidia("healthy", driver="580.1", gpus=(gpu("8.6"), gpu("6.1", "GTX 1060")))
    with pytest.raises(CannotBuild, match="GTX 1060"):
        cuda.toolkit("auto", nvidia, host, DEBIAN)


@pytest.mark.parametrize(
    ("most", "compilers", "chosen"),
    [
        (15, {"gpp": "15.2.1"}, "/usr/bin/g++"),
        (14, {"gpp": "16.1.0", "gpp_14": "14.3.0", "gpp_13": "13.3.0"}, "/usr/bin/g++-14"),
        (14, {"gpp": "13.2.0", "gpp_14": "14.3.0"}, "/usr/bin/g++-14"),
        (None, {"gpp": "16.1.0"}, "/usr/bin/g++"),
    ],
)
def test_the_newest_compiler_that_the_header_allows_is_the_host_compiler(
    most: int | None, compilers: dict[str, str], chosen: str
) -> None:
    assert cuda.host_compiler(Toolkit("/x/bin/nvcc", "13.0", most), seen({}, **compilers), DEBIAN) == chosen


def test_a_compiler_too_new_names_the_package_of_one_that_is_not() -> None:
    with pytest.raises(CannotBuild, match=r"CUDA 13\.0 allows g\+\+ up to 15, here is 16\.1\.0; install g\+\+-15"):
        cuda.host_compiler(Toolkit("/x/bin/nvcc", "13.0", 15), seen({}, gpp="16.1.0"), DEBIAN)


def test_a_driver_that_dropped_the_card_names_the_branch_that_has_it() -> None:
    assert "takes the 580 branch" in (cuda.dropped(gpu("6.1", "GTX 1060"), "590.48.01") or "")
    assert cuda.dropped(gpu("6.1"), "580.1") is None
    assert cuda.dropped(gpu("7.5"), "590.48.01") is None


def test_architectures_are_explicit_and_of_every_card() -> None:
    nvidia = Nvidia("healthy", gpus=(gpu("8.6"), gpu("12.0"), gpu("8.6")))
    assert cuda.architectures("auto", nvidia) == "120-real;86-real"
    assert cuda.architectures("75-real", nvidia) == "75-real"
    with pytest.raises(CannotBuild, match="set cuda_architectures"):
        cuda.architectures("auto", Nvidia("healthy"))
    with pytest.raises(CannotBuild, match="NVIDIA Graphics Device does not tell a compute capability"):
        cuda.architectures("auto", Nvidia("healthy", gpus=(gpu("8.6"), gpu(None, "NVIDIA Graphics Device"))))
