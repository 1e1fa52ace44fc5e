"""Which CUDA toolkit and which host compiler build for which card under which driver.

Sources: NVIDIA's "CUDA compatibility" (minimum drivers), the architecture lists of nvcc 12.6 to 13.5, and the end of
Maxwell, Pascal and Volta in CUDA 13 and of everything before Turing in driver 590.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from roles import distribution
from roles.gpu.classify import Gpu, Nvidia
from roles.host import HostSeen
from roles.llama_cpp.observe import LlamaCppSeen
from roles.wishes import ToolkitPin

NOT_YET = "0.0"  # the version of what another operation is about to install
MINIMUM_DRIVER = {13: 580, 12: 525, 11: 450}  # by major version of the toolkit
# By compute capability: its own line, or else that of the nearest one below it.
FIRST_TOOLKIT = {12.1: (12, 9), 12.0: (12, 8), 10.3: (12, 9), 10.0: (12, 8), 8.9: (11, 8), 8.0: (11, 0)}
MAXWELL = 5.0
TURING = 7.5
# Wheels before 13.2 declare rsqrt and others unlike glibc 2.41 does (llama.cpp#19100); seen with 13.0 and 13.1.
CLASHING_WHEELS, CLASHING_LIBC = (13, 2), (2, 41)


class CannotBuild(Exception):
    """The host cannot build what is wanted; the text says why and what to do."""


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit: its nvcc, its version as in 13.2, and the newest gcc that its own header allows."""

    nvcc: str
    version: str
    gcc_max: int | None = None

    @property
    def root(self) -> str:
        return self.nvcc.rsplit("/bin/", 1)[0]

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split("."))


def toolkit(named: str, nvidia: Nvidia, seen: LlamaCppSeen, host: HostSeen) -> Toolkit:
    """The newest one that fits every card and the driver, or the one that is named. Raises CannotBuild."""
    found = [Toolkit(nvcc, one.version, one.gcc_max) for nvcc, one in seen.toolkits.items()]
    if named != "auto":
        found = [one for one in found if one.nvcc == seen.named_toolkit]
    if not found:
        raise CannotBuild(_none_found(named, nvidia, host))
    problems: list[str] = []
    for one in sorted(found, key=lambda one: one.number, reverse=True):
        told = misfits(one, nvidia)
        if not told or one.version == NOT_YET:
            return one
        problems += told
    raise CannotBuild(
        f"no CUDA toolkit on this host fits: {'; '.join(dict.fromkeys(problems))}. {_remedy(nvidia, host)}"
    )


def _none_found(named: str, nvidia: Nvidia, host: HostSeen) -> str:
    if named == "auto":
        return f"a CUDA toolkit is needed and none was found. {_remedy(nvidia, host)}"
    if named.startswith("wheel:"):
        return f"cuda_toolkit={named!r} is not on this host yet; run the llama_cpp role"
    return f"a CUDA toolkit is needed and {named} has no bin/nvcc. {_remedy(nvidia, host)}"


def _remedy(nvidia: Nvidia, host: HostSeen) -> str:
    """What to do for a toolkit that fits. Wheels begin at CUDA 13, which an older driver or card cannot have."""
    wheel = Toolkit("", "13.2")
    hint = "" if misfits(wheel, nvidia) else ", or set cuda_toolkit='wheel:13.2' (needs no root)"
    advice = distribution.toolkit_advice(host)
    return f"{advice[0].upper()}{advice[1:]}{hint}, or backend='cpu'"


def misfits(toolkit: Toolkit, nvidia: Nvidia) -> list[str]:
    """Why a toolkit does not do for the cards and the driver; nothing where it does."""
    told = [unsupported(toolkit, gpu, nvidia.driver) for gpu in nvidia.gpus]
    return [problem for problem in told if problem]


def unsupported(toolkit: Toolkit, gpu: Gpu, driver: str | None) -> str | None:
    """Why this toolkit cannot build for this card, or its code not run under this driver; None where it can."""
    major, name = toolkit.number[0], f"CUDA {toolkit.version}"
    if gpu.compute_cap is not None:
        capability = float(gpu.compute_cap)
        card = f"{gpu.name} (compute capability {gpu.compute_cap})"
        if major >= 13 and capability < TURING:
            return f"{name} has no code for {card}; it begins at {TURING}"
        if major >= 12 and capability < MAXWELL:
            return f"{name} has no code for {card}; it begins at {MAXWELL}"
        first = next((number for begin, number in FIRST_TOOLKIT.items() if capability >= begin), (0,))
        if toolkit.number[:2] < first:
            return f"{name} does not know {card}; CUDA {'.'.join(map(str, first))} is the first that does"
    if driver and int(driver.split(".")[0]) < MINIMUM_DRIVER.get(major, 0):
        return f"{name} needs driver {MINIMUM_DRIVER[major]} or newer, and {driver} is loaded"
    return None


def unfit_wheels(pin: ToolkitPin, nvidia: Nvidia, seen: LlamaCppSeen, host: HostSeen) -> str | None:
    """Why NVIDIA's wheels of that version will not do on this host; None where they will. Asked before they come."""
    name, toolkit = f"cuda_toolkit='wheel:{pin.version}'", Toolkit("", pin.version)
    if host.machine != "x86_64":
        return f"{name} is for x86_64 hosts, and this one is {host.machine}; {distribution.toolkit_advice(host)}"
    libc = tuple(int(part) for part in re.findall(r"\d+", seen.libc)[:2])
    if toolkit.number < CLASHING_WHEELS and libc >= CLASHING_LIBC:
        return (
            f"{name}: its headers clash with {seen.libc}, which declares the same functions otherwise"
            " (llama.cpp#19100); take wheel:13.2"
        )
    return next(iter(misfits(toolkit, nvidia)), None)


def dropped(gpu: Gpu, driver: str | None) -> str | None:
    """Driver 590 supports Turing and newer alone."""
    if driver and gpu.compute_cap and int(driver.split(".")[0]) >= 590 and float(gpu.compute_cap) < TURING:
        return (
            f"driver {driver} does not support {gpu.name} (compute capability {gpu.compute_cap});"
            " it takes the 580 branch (Arch: nvidia-580xx-dkms) and CUDA 12"
        )
    return None


def host_compiler(tools: Toolkit, seen: LlamaCppSeen, host: HostSeen) -> str:
    """The newest installed g++ that the toolkit allows. Raises CannotBuild."""
    allowed = {
        path: version
        for path, version in seen.compilers.items()
        if tools.gcc_max is None or int(version.split(".")[0]) <= tools.gcc_max
    }
    if not allowed:
        package = distribution.compiler(host, tools.gcc_max or 0) or f"a g++ {tools.gcc_max} or older"
        raise CannotBuild(
            f"CUDA {tools.version} allows g++ up to {tools.gcc_max}, here is {' and '.join(seen.compilers.values())};"
            f" install {package}"
        )
    return max(allowed, key=lambda path: (int(allowed[path].split(".")[0]), path.endswith("/g++")))


def architectures(named: str, nvidia: Nvidia) -> str:
    """Explicit always: `native` without a visible GPU builds garbage (llama.cpp#18430). Raises CannotBuild."""
    if named != "auto":
        return named
    capabilities = {gpu.compute_cap for gpu in nvidia.gpus if gpu.compute_cap}
    if len([gpu for gpu in nvidia.gpus if gpu.compute_cap]) < max(len(nvidia.gpus), 1):
        lacking = [gpu.name for gpu in nvidia.gpus if not gpu.compute_cap]
        who = f"{lacking[0]} does not tell" if lacking else "no GPU is here to tell"
        raise CannotBuild(f"{who} a compute capability; set cuda_architectures, as in '86-real'")
    return ";".join(sorted(capability.replace(".", "") + "-real" for capability in capabilities))
