"""What a distribution calls what we need: its package manager, its packages, its compilers, its CUDA toolkit.

Sources: packages.debian.org (g++-N); Arch's extra repository (gccN, cuda); Fedora's compat packages, of which a release
has the one before its own compiler: gcc13 up to 41, gcc14 in 42 and 43, gcc15 in 44. All of them put `g++-N` into
/usr/bin; RHEL's are called gcc-toolset-N, and stay out of the PATH.
"""

from __future__ import annotations

from roles.host import HostSeen

MANAGERS = {"debian": "apt", "ubuntu": "apt", "arch": "pacman", "fedora": "dnf", "rhel": "dnf"}
# The package that brings a command, where it is not called like the command.
PACKAGES = {
    "apt": {"ninja": "ninja-build"},
    "dnf": {"ninja": "ninja-build", "g++": "gcc-c++"},
    "pacman": {"g++": "gcc"},
}
# Package and nvcc of a distribution's own CUDA toolkit that is new enough for any card.
TOOLKITS = {"pacman": ("cuda", "/opt/cuda/bin/nvcc")}
VENDORS_TOOLKIT = "cuda-toolkit"  # in NVIDIA's own repositories, for apt and for dnf
# An older or newer g++ beside the default one, and the major versions of which we know that there is such a package.
COMPILERS = {"apt": ("g++-{}", range(9, 17)), "pacman": ("gcc{}", range(12, 16)), "dnf": ("gcc{}-c++", range(13, 16))}


def manager(seen: HostSeen) -> str | None:
    """apt, dnf or pacman; CachyOS, Mint and the like say in ID_LIKE what they descend from."""
    for name in [seen.os_id, *seen.os_like.split()]:
        if name in MANAGERS:
            return MANAGERS[name]
    return None


def package(tool: str, command: str) -> str:
    """The package that brings a command, for apt, dnf or pacman."""
    return PACKAGES[tool].get(command, command)


def compiler(seen: HostSeen, major: int) -> str | None:
    """The package that brings /usr/bin/g++-`major`, as in g++-14 or gcc14; None where we know of none.

    Which of them a distribution has depends on its release: the name is right, whether it is there is not promised.
    """
    tool = manager(seen)
    if tool is None or "rhel" in (seen.os_id, *seen.os_like.split()):
        return None
    name, known = COMPILERS[tool]
    return name.format(major) if major in known else None


def toolkit_advice(seen: HostSeen) -> str:
    """What to do for a CUDA toolkit there, as the end of a sentence: "install cuda (pacman -S cuda)"."""
    tool = manager(seen)
    if tool == "pacman":
        return "install cuda (pacman -S cuda)"
    if tool == "apt":
        return (
            f"install {VENDORS_TOOLKIT} from NVIDIA's repository for {seen.os_name}"
            " (the distribution's own nvidia-cuda-toolkit is often too old)"
        )
    if tool == "dnf":
        return f"install {VENDORS_TOOLKIT} from NVIDIA's repository for {seen.os_name} (the distribution has none)"
    return f"install NVIDIA's CUDA toolkit for {seen.os_name}"
