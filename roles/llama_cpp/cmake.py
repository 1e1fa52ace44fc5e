"""The cmake arguments of a build, as one pure function of what is wanted and what is there."""

from __future__ import annotations

import re
from dataclasses import dataclass

from roles.llama_cpp.observe import LlamaCppSeen
from roles.settings import LlamaCpp

NOT_YET = "0.0"  # the version of a toolkit that the packages role is about to install
TARGETS = ("llama-server", "llama-bench", "llama-fit-params")

# Nothing from the network in a build; llama-server is asked by HTTP on loopback, and curl downloads the models.
ALWAYS = (
    "CMAKE_BUILD_TYPE=Release",
    "CMAKE_BUILD_WITH_INSTALL_RPATH=ON",
    "CMAKE_INSTALL_RPATH=$ORIGIN/../lib",
    "LLAMA_BUILD_TESTS=OFF",
    "LLAMA_BUILD_EXAMPLES=OFF",
    "LLAMA_BUILD_UI=OFF",
    "LLAMA_USE_PREBUILT_UI=OFF",
    "LLAMA_OPENSSL=OFF",
)


class CannotBuild(Exception):
    """The host cannot build what is wanted; the text says why and what to do."""


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit: its nvcc and its version, as in 13.2."""

    nvcc: str
    version: str

    @property
    def root(self) -> str:
        return self.nvcc.rsplit("/bin/", 1)[0]


def backend(wanted: LlamaCpp, seen: LlamaCppSeen) -> str:
    """`auto` is cuda where there is an NVIDIA GPU. Raises CannotBuild where there is one that does not answer."""
    if wanted.backend != "auto":
        return wanted.backend
    if seen.gpus:
        return "cuda"
    if seen.nvidia_device or (seen.nvidia_smi is not None and seen.nvidia_smi.rc not in (0, 6, 9)):
        told = seen.nvidia_smi.out or seen.nvidia_smi.err if seen.nvidia_smi else "nvidia-smi is not installed"
        told = " ".join(told.split())
        raise CannotBuild(f"there is an NVIDIA GPU, but the driver does not answer ({told}); mend it, or set backend")
    return "cpu"


def targets(wanted: LlamaCpp) -> tuple[str, ...]:
    """What is built, and nothing else; the device process too where layers go over RPC."""
    return (*TARGETS, "ggml-rpc-server") if wanted.backend == "rpc" else TARGETS


def toolkit(wanted: LlamaCpp, seen: LlamaCppSeen) -> Toolkit:
    """The newest one found, or the one that is named. Raises CannotBuild."""
    found = [Toolkit(nvcc, version) for nvcc, version in seen.toolkits.items()]
    if wanted.cuda_toolkit != "auto":
        found = [one for one in found if one.root == wanted.cuda_toolkit.rstrip("/")]
    if not found:
        where = "none was found" if wanted.cuda_toolkit == "auto" else f"{wanted.cuda_toolkit} has no bin/nvcc"
        raise CannotBuild(
            f"a CUDA toolkit is needed and {where}; install NVIDIA's cuda-toolkit for this distribution,"
            " or set cuda_toolkit to the folder of yours, or backend='cpu'"
        )
    return max(found, key=lambda one: tuple(map(int, one.version.split("."))))


def architectures(wanted: LlamaCpp, seen: LlamaCppSeen) -> str:
    """Explicit always: `native` without a visible GPU builds garbage (llama.cpp#18430). Raises CannotBuild."""
    if wanted.cuda_architectures != "auto":
        return wanted.cuda_architectures
    if not seen.gpus:
        raise CannotBuild("no GPU tells its compute capability; set cuda_architectures, as in '86-real'")
    return ";".join(sorted({gpu.compute_cap.replace(".", "") + "-real" for gpu in seen.gpus}))


def arguments(wanted: LlamaCpp, seen: LlamaCppSeen, commit: str) -> tuple[str, ...]:
    """Every -D of the build, without the -D. Raises CannotBuild."""
    chosen = [*ALWAYS, f"LLAMA_BUILD_COMMIT={commit[:9]}"]
    # Only a tag of that form tells the number; a shallow clone would call every build 1.
    if number := re.fullmatch(r"b(\d+)", wanted.llama_ref):
        chosen.append(f"LLAMA_BUILD_NUMBER={number[1]}")
    kind = backend(wanted, seen)
    if kind == "rpc":
        chosen.append("GGML_RPC=ON")
    if kind == "cuda":
        tools = toolkit(wanted, seen)
        chosen += [
            "GGML_CUDA=ON",
            f"CMAKE_CUDA_COMPILER={tools.nvcc}",
            f"CUDAToolkit_ROOT={tools.root}",
            f"CMAKE_CUDA_ARCHITECTURES={architectures(wanted, seen)}",
        ]
    return (*chosen, *(argument.removeprefix("-D") for argument in wanted.llama_cmake_args))
