"""Which distribution packages are missing, and how to install them. Install, never upgrade."""

from __future__ import annotations

from roles.host import COMMANDS, HOST, HostSeen, no_root
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.remote import Script

# The package that brings a command, where it is not called like the command.
PACKAGES = {
    "apt": {"ninja": "ninja-build"},
    "dnf": {"ninja": "ninja-build", "g++": "gcc-c++"},
    "pacman": {"g++": "gcc"},
}
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


def installed(has_password: bool, observation: Observation) -> Decision:
    """Everything that building, downloading and asking the server need is there."""
    seen = observation[HOST]
    lacking = missing(seen)
    if not lacking:
        return Decision(observation)
    tool = manager(seen)
    if tool is None:
        return Decision(
            observation,
            refusal=f"{', '.join(lacking)} missing, and Paddock does not know the packages of {seen.os_name};"
            " install them and run again",
        )
    names = [PACKAGES[tool].get(command, command) for command in lacking]
    if not seen.can_be_root(has_password):
        return Decision(observation, refusal=no_root(seen, f"packages {' '.join(names)} are missing"))
    return Decision(
        observation.replace(HOST, commands={command: f"/usr/bin/{command}" for command in COMMANDS}),
        reasons=(f"packages missing: {' '.join(names)}",),
        steps=(Step("install packages", Script(INSTALL[tool], tuple(names), root=True, seconds=1800)),),
    )
