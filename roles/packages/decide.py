"""Which distribution packages are missing, and how to install them. Install, never upgrade."""

from __future__ import annotations

from roles.host import COMMANDS, HOST, HostSeen, no_root
from roles.llama_cpp import cmake
from roles.llama_cpp.observe import LLAMA_CPP
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.remote import Script
from roles.settings import LlamaCpp

# The package that brings a command, where it is not called like the command.
PACKAGES = {
    "apt": {"ninja": "ninja-build"},
    "dnf": {"ninja": "ninja-build", "g++": "gcc-c++"},
    "pacman": {"g++": "gcc"},
}
# Distributions whose own CUDA toolkit is new enough for any card; elsewhere it is too old, or not theirs.
TOOLKITS = {"pacman": ("cuda", "/opt/cuda/bin/nvcc")}
MANAGERS = {"debian": "apt", "ubuntu": "apt", "arch": "pacman", "fedora": "dnf", "rhel": "dnf"}

INSTALL = {
    # Without a fresh list apt may not know a package at all; --no-upgrade leaves installed ones alone.
    "apt": """
export DEBIAN_FRONTEND=noninteractive
apt-get -q -o DPkg::Lock::Timeout=300 update
apt-get -q -y -o DPkg::Lock::Timeout=300 --no-upgrade --no-install-recommends install "$@"
""",
    "dnf": 'dnf -y install "$@"',
    # Never -y: a fresh database on an old system is a partial upgrade.
    "pacman": """
pacman -S --noconfirm --needed "$@" ||
    fail "pacman could not install $*; if its mirror has moved on, run 'pacman -Syu' yourself and try again"
""",
}


def manager(seen: HostSeen) -> str | None:
    """apt, dnf or pacman; CachyOS, Mint and the like say in ID_LIKE what they descend from."""
    for name in [seen.os_id, *seen.os_like.split()]:
        if name in MANAGERS:
            return MANAGERS[name]
    return None


def missing(seen: HostSeen) -> list[str]:
    """The commands that the host lacks; one that came without a package is as good."""
    return [command for command in COMMANDS if not seen.commands.get(command)]


def toolkit(wanted: LlamaCpp, tool: str | None, observation: Observation) -> tuple[str, str] | None:
    """Package and nvcc of the CUDA toolkit, where one is needed, missing, and the distribution's own will do."""
    seen = observation[LLAMA_CPP]
    if tool not in TOOLKITS or seen.toolkits or wanted.cuda_toolkit != "auto":
        return None
    try:
        return TOOLKITS[tool] if cmake.backend(wanted, seen) == "cuda" else None
    except cmake.CannotBuild:
        return None  # the llama_cpp role says so


def installed(wanted: LlamaCpp, has_password: bool, observation: Observation) -> Decision:
    """Everything that building, downloading and asking the server need is there."""
    seen = observation[HOST]
    tool, lacking = manager(seen), missing(seen)
    cuda = toolkit(wanted, tool, observation)
    if not lacking and not cuda:
        return Decision(observation)
    if tool is None:
        return Decision(
            observation,
            refusal=f"{', '.join(lacking)} missing, and Paddock does not know the packages of {seen.os_name};"
            " install them and run again",
        )
    names = [PACKAGES[tool].get(command, command) for command in lacking] + ([cuda[0]] if cuda else [])
    if not seen.can_be_root(has_password):
        return Decision(observation, refusal=no_root(seen, f"packages {' '.join(names)} are missing"))
    after = observation.replace(HOST, commands={command: f"/usr/bin/{command}" for command in COMMANDS})
    if cuda:
        after = after.replace(LLAMA_CPP, toolkits={cuda[1]: cmake.NOT_YET})
    return Decision(
        after,
        reasons=(f"packages missing: {' '.join(names)}",),
        steps=(Step("install packages", Script(INSTALL[tool], tuple(names), root=True, seconds=1800)),),
    )
