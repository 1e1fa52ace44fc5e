"""What a distribution calls the packages that Paddock needs or names."""

from __future__ import annotations

import pytest

from roles import distribution
from roles.host import HOST, HostSeen
from tests.unit import hosts


def host(os_id: str, os_like: str = "", name: str = "This Linux 1") -> HostSeen:
    return hosts.bare(host={"os_id": os_id, "os_like": os_like, "os_name": name})[HOST]


@pytest.mark.parametrize(
    ("os_id", "os_like", "tool"),
    [
        ("debian", "", "apt"),
        ("ubuntu", "debian", "apt"),
        ("linuxmint", "ubuntu debian", "apt"),
        ("fedora", "", "dnf"),
        ("rocky", "rhel centos fedora", "dnf"),
        ("arch", "", "pacman"),
        ("cachyos", "arch", "pacman"),
        ("opensuse-tumbleweed", "opensuse suse", None),
        ("", "", None),
    ],
)
def test_a_distribution_is_known_by_itself_or_by_what_it_descends_from(
    os_id: str, os_like: str, tool: str | None
) -> None:
    assert distribution.manager(host(os_id, os_like)) == tool


@pytest.mark.parametrize(
    ("os_id", "os_like", "major", "name"),
    [
        ("debian", "", 14, "g++-14"),
        ("linuxmint", "ubuntu debian", 12, "g++-12"),
        ("arch", "", 14, "gcc14"),
        ("cachyos", "arch", 15, "gcc15"),
        ("fedora", "", 13, "gcc13-c++"),
        ("fedora", "", 15, "gcc15-c++"),
    ],
)
def test_another_compiler_is_called_like_this(os_id: str, os_like: str, major: int, name: str) -> None:
    assert distribution.compiler(host(os_id, os_like), major) == name


@pytest.mark.parametrize(
    ("os_id", "os_like", "major"),
    [
        ("fedora", "", 11),  # before Fedora had compat packages of this kind
        ("rocky", "rhel centos fedora", 14),  # a gcc-toolset, out of the PATH
        ("rhel", "fedora", 14),
        ("arch", "", 9),
        ("debian", "", 40),
        ("opensuse", "suse", 14),
    ],
)
def test_no_compiler_is_named_that_nobody_has_seen(os_id: str, os_like: str, major: int) -> None:
    assert distribution.compiler(host(os_id, os_like), major) is None


@pytest.mark.parametrize(
    ("os_id", "advice"),
    [
        ("arch", "install cuda (pacman -S cuda)"),
        (
            "ubuntu",
            "install cuda-toolkit from NVIDIA's repository for This Linux 1 (the distribution's own nvidia-cuda",
        ),
        ("fedora", "install cuda-toolkit from NVIDIA's repository for This Linux 1 (the distribution has none)"),
        ("void", "install NVIDIA's CUDA toolkit for This Linux 1"),
    ],
)
def test_where_a_cuda_toolkit_comes_from_is_said_per_distribution(os_id: str, advice: str) -> None:
    assert distribution.toolkit_advice(host(os_id)).startswith(advice)
