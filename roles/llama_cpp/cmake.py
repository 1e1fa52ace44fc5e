"""The cmake arguments of a build, as one pure function of what is wanted and what is there."""

from __future__ import annotations

from roles.gpu.classify import Nvidia, classify
from roles.gpu.observe import GPU
from roles.host import HOST
from roles.llama_cpp import cuda
from roles.llama_cpp.cuda import CannotBuild
from roles.llama_cpp.observe import LLAMA_CPP
from roles.llama_cpp.source import tag_number
from roles.observation import Observation
from roles.settings import LlamaCpp, Settings, cuda_refuses
from roles.wishes import Wishes

# The first is needed; forks and old versions may lack the others.
TARGETS = ("llama-server", "llama-bench", "llama-fit-params")

# Nothing from the network in a build; llama-server is asked by HTTP on loopback, and curl downloads the models.
ALWAYS = (
    "CMAKE_BUILD_TYPE=Release",
    "CMAKE_BUILD_WITH_INSTALL_RPATH=ON",
    "CMAKE_INSTALL_RPATH=$ORIGIN/../lib",
    "LLAMA_BUILD_TESTS=OFF",
    "LLAMA_BUILD_EXAMPLES=OFF",
    "LLAMA_USE_PREBUILT_UI=OFF",
    "LLAMA_OPENSSL=OFF",
)


def backend(wanted: LlamaCpp, nvidia: Nvidia) -> str:
    """`auto` is cuda where there is an NVIDIA GPU. Raises CannotBuild where there is one that cannot be used: a server
    that silently runs on the CPU is the commonest complaint in the field."""
    if wanted.backend != "auto":
        return wanted.backend
    if nvidia.state == "none":
        return "cpu"
    if nvidia.state != "healthy":
        raise CannotBuild(f"{nvidia.why}. Mend it, or set backend='cpu'")
    return "cuda"


def targets(wanted: LlamaCpp) -> tuple[str, ...]:
    """What is built where the source has it, and nothing else; the device process too where layers go over RPC."""
    return (*TARGETS, "ggml-rpc-server") if wanted.backend == "rpc" else TARGETS


def arguments(wishes: Wishes, observation: Observation) -> tuple[str, ...]:
    """Every -D of the build, without the -D. Raises CannotBuild."""
    wanted, seen = wishes.settings.llama_cpp, observation[LLAMA_CPP]
    # A patched build says so: its commit alone would not be the truth.
    commit = wishes.commit[:9] + ("-patched" if wishes.patches else "")
    chosen = [*ALWAYS, f"LLAMA_BUILD_COMMIT={commit}", f"LLAMA_BUILD_UI={'ON' if wanted.web_ui == 'build' else 'OFF'}"]
    # A shallow clone would count one commit, and call every build the first.
    chosen.append(f"LLAMA_BUILD_NUMBER={tag_number(wanted.llama_ref) or 0}")
    if seen.compiler:
        # cmake would look for c++ first, which may be another one.
        chosen += [f"CMAKE_C_COMPILER={seen.compiler[:-3]}gcc", f"CMAKE_CXX_COMPILER={seen.compiler}"]
    kind = backend(wanted, classify(observation[GPU]))
    if kind == "rpc":
        chosen.append("GGML_RPC=ON")
    if kind == "cuda":
        chosen += _cuda(wishes.settings, observation)
    return (*chosen, *wanted.llama_cmake_args)


def _cuda(settings: Settings, observation: Observation) -> list[str]:
    wanted, seen, nvidia, host = (
        settings.llama_cpp,
        observation[LLAMA_CPP],
        classify(observation[GPU]),
        observation[HOST],
    )
    if problem := cuda_refuses(settings.service):
        raise CannotBuild(problem)
    tools = cuda.toolkit(wanted.cuda_toolkit, nvidia, seen, host)
    chosen = [
        "GGML_CUDA=ON",
        # Where NCCL happens to be installed it would be linked, and missed when it goes.
        "GGML_CUDA_NCCL=OFF",
        # Where no driver is installed, libcuda.so.1 is missing to the linker; whether it loads is proved afterwards.
        "CMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined",
        f"CMAKE_CUDA_COMPILER={tools.nvcc}",
        f"CUDAToolkit_ROOT={tools.root}",
        f"CMAKE_CUDA_ARCHITECTURES={cuda.architectures(wanted.cuda_architectures, nvidia)}",
    ]
    if seen.compilers and tools.version != cuda.NOT_YET:
        chosen.append(f"CMAKE_CUDA_HOST_COMPILER={cuda.host_compiler(tools, seen, host)}")
    if settings.service.needs_all_quants:
        chosen.append("GGML_CUDA_FA_ALL_QUANTS=ON")
    return chosen
