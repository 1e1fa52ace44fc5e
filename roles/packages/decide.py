"""Which distribution packages are missing, and how to install them. Install, never upgrade."""

from __future__ import annotations

from pathlib import Path

from roles.distribution import TOOLKITS, manager, package
from roles.gpu.classify import classify
from roles.gpu.observe import GPU
from roles.host import COMMANDS, HOST, HostSeen, no_root
from roles.llama_cpp import cmake
from roles.llama_cpp.cuda import NOT_YET, TURING, CannotBuild
from roles.llama_cpp.observe import LLAMA_CPP, ToolkitSeen
from roles.observation import Observation
from roles.operation import WAITED_FOR, Decision, Step
from roles.remote import Script
from roles.settings import LlamaCpp

INSTALL_SECONDS = 1800
MANAGERS = ("apt", "dnf", "pacman")
CERTIFICATES = "ca-certificates"  # only recommended by what needs it; without it no https on a bare host
# A later build is quicker with it. Not every repository has it, so nobody is refused for the lack of it, and where a
# release stands and nothing else is missing, nobody is asked for it again.
OPTIONAL = ("ccache",)
WITHOUT = "paddock-without "  # how an install script tells of an optional package that could not be had
RECORD, *_SCRIPTS = ((Path(__file__).parent / f"{name}.sh").read_text("utf-8") for name in ("record", *MANAGERS))
# An install script and the record around it. Its first argument is the folder of that.
INSTALL = {
    tool: f"manager={tool} record=$1\nshift\n{RECORD}begin_record\ntrap settle_record EXIT\n(\n{script}) 9<&-\n"
    for tool, script in zip(MANAGERS, _SCRIPTS, strict=True)
}


def missing(seen: HostSeen) -> list[str]:
    """The commands that the host lacks; one that came without a package is as good."""
    return [command for command in COMMANDS if not seen.commands.get(command)]


def toolkit(wanted: LlamaCpp, tool: str | None, observation: Observation) -> tuple[str, str] | None:
    """Package and nvcc of the CUDA toolkit, where one is needed, missing, and the distribution's own will do."""
    if tool not in TOOLKITS or observation[LLAMA_CPP].toolkits or wanted.cuda_toolkit != "auto":
        return None
    nvidia = classify(observation[GPU])
    if any(gpu.compute_cap and float(gpu.compute_cap) < TURING for gpu in nvidia.gpus):
        return None  # the distribution's is too new for the card
    try:
        return TOOLKITS[tool] if cmake.backend(wanted, nvidia) == "cuda" else None
    except CannotBuild:
        return None  # the llama_cpp role says so


def installed(wanted: LlamaCpp, has_password: bool, observation: Observation) -> Decision:
    """Everything that building, downloading and asking the server need is there."""
    seen = observation[HOST]
    tool, may = manager(seen), seen.can_be_root(has_password)
    lacking = [command for command in missing(seen) if command not in OPTIONAL]
    cuda = toolkit(wanted, tool, observation)
    needed = bool(lacking or cuda or not seen.certificates)
    extra = [] if observation[LLAMA_CPP].releases and not needed else sorted({*missing(seen)} & {*OPTIONAL})
    if not needed and not (extra and may and tool):
        return Decision(observation)
    if tool is None:
        return Decision(
            observation,
            refusal=f"{', '.join(lacking) or CERTIFICATES} missing, and Paddock does not know the packages of"
            f" {seen.os_name}; install them and run again",
        )
    names = [package(tool, command) for command in lacking]
    names += [cuda[0]] if cuda else []
    names += [] if seen.certificates else [CERTIFICATES]
    if not may:
        return Decision(observation, refusal=no_root(seen, f"packages {' '.join(names)} are missing"))
    optional = [package(tool, command) for command in extra]
    script = Script(INSTALL[tool], (seen.record, " ".join(optional), *names), root=True, seconds=INSTALL_SECONDS)
    return Decision(
        _after(cuda, observation),
        reasons=(f"packages missing: {' '.join(names + optional)}",),
        steps=(Step("install packages", script, goes_on=WAITED_FOR),),
    )


def without(lines: list[str]) -> str | None:
    """The sentence about optional packages that an install script could not have."""
    names = [line.removeprefix(WITHOUT) for line in lines if line.startswith(WITHOUT)]
    return (
        f"{' '.join(names)} could not be installed; all works without, and later builds take longer" if names else None
    )


def _after(cuda: tuple[str, str] | None, observation: Observation) -> Observation:
    commands = {command: f"/usr/bin/{command}" for command in COMMANDS}
    after = observation.replace(HOST, commands=commands, certificates=True)
    if not observation[LLAMA_CPP].compilers:
        after = after.replace(LLAMA_CPP, compilers={"/usr/bin/g++": NOT_YET})
    if cuda:
        after = after.replace(LLAMA_CPP, toolkits={cuda[1]: ToolkitSeen(version=NOT_YET)})
    return after
