"""Arch's and Fedora's path through the packages role, with a real pacman and a real dnf (see tests/lab/tiny.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roles import settings
from roles.llama_cpp.release import wanted_release
from roles.observation import parse, program
from roles.overview import FRAGMENTS
from roles.wishes import Wishes
from tests.lab import planted
from tests.lab.common import Lab
from tests.lab.deploying import Run, deploy, target, write_inventory
from tests.lab.host import LabHost, boot
from tests.lab.inventory import entry
from tests.lab.test_main_job import as_dev
from tests.lab.tiny import LOCK, Distribution, become, managers

pytestmark = pytest.mark.timeout(600)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
# Nothing is built or served here, so nothing is asked of the lab's git server and Hub.
DATA: dict[str, Any] = {
    "llama_ref": COMMIT,
    "model_repo": None,
    "model_file": None,
    "model_path": "/srv/model.gguf",
    "backend": "auto",
    "rpc_servers": [],
}
NAMES = {
    "pacman": {"git", "cmake", "ninja", "gcc", "curl", "ca-certificates", "ccache"},
    "dnf": {"git", "cmake", "ninja-build", "gcc-c++", "curl", "ca-certificates", "ccache"},
}
UNKNOWN = {
    "pacman": "pacman knows no package ninja; if its database is old or was never fetched, run 'pacman -Syu' yourself"
    " and try again",
    "dnf": "dnf knows no package ninja-build; enable the repository that has it (RHEL and its kin: CRB, EPEL)"
    " and run again",
}
NINJA = {"pacman": "ninja", "dnf": "ninja-build"}


@dataclass(frozen=True)
class Player:
    """A host that plays a distribution, with an inventory of its own."""

    distribution: Distribution
    lab: Lab
    folder: Path

    @property
    def name(self) -> str:
        return self.distribution.host.name

    @property
    def tool(self) -> str:
        return self.distribution.tool

    def packages(self, *words: str) -> Run:
        """The real command line, for this role alone."""
        inventory = write_inventory(self.folder, [target(self.name, **DATA)])
        return deploy(self.lab, inventory, "-y", "--data", "only=packages", *words)

    def refused(self) -> str:
        """The one sentence of a run that failed."""
        run = self.packages()
        assert run.code == 1, run.text
        assert "Traceback" not in run.text
        begin = f"paddock: {self.name}: install packages: "
        assert run.last_words[-1].startswith(begin), run.text
        return run.last_words[-1].removeprefix(begin)

    def rests(self) -> None:
        """Another run changes nothing, and costs one remote command."""
        before = self.distribution.host.remote_commands()
        run = self.packages("--json")
        assert run.code == 0, run.text
        results = json.loads(run.out)["results"]
        assert [one["name"] for one in results["operations"] if one["success"] or one["error"]] == []
        assert self.distribution.host.remote_commands() - before == 1


@pytest.fixture(scope="module")
def host(deploy_lab: Lab) -> Iterator[LabHost]:
    host = boot("player", lab=deploy_lab)
    managers(host)
    for tool in ("pacman", "dnf"):
        Distribution(host, tool).set_up()
    yield host
    host.destroy()


def bare(host: LabHost, os_id: str, tool: str, folder: Path) -> Player:
    for other in ("pacman", "dnf"):
        Distribution(host, other).clear()
    become(host, os_id)
    distribution = Distribution(host, tool)
    distribution.bare()
    return Player(distribution, host.lab, folder)


@pytest.fixture
def arch(host: LabHost, tmp_path: Path) -> Player:
    """An Arch without any of the packages, its database fresh."""
    return bare(host, "arch", "pacman", tmp_path)


@pytest.fixture
def fedora(host: LabHost, tmp_path: Path) -> Player:
    return bare(host, "fedora", "dnf", tmp_path)


@pytest.fixture(params=["arch", "fedora"])
def player(request: pytest.FixtureRequest) -> Player:
    """Each of them."""
    value: Player = request.getfixturevalue(request.param)
    return value


def test_what_is_missing_is_installed_and_a_second_run_changes_nothing(player: Player) -> None:
    run = player.packages()
    assert run.code == 0, run.text
    assert player.distribution.installed() == dict.fromkeys(NAMES[player.tool], "1")
    player.rests()


def test_a_child_of_arch_is_served_by_pacman_too(arch: Player, host: LabHost) -> None:
    become(host, "cachyos")
    run = arch.packages()
    assert run.code == 0, run.text
    assert arch.distribution.installed() == dict.fromkeys(NAMES["pacman"], "1")
    arch.rests()


def test_what_is_installed_and_old_stays_as_it_is(player: Player) -> None:
    player.distribution.install("git", "curl")
    # One is there, the other's command is gone, so that its package is asked for by name.
    player.distribution.host.sh("rm /usr/bin/curl")
    player.distribution.publish(newer=("git", "curl"))
    player.distribution.refresh()
    run = player.packages()
    assert run.code == 0, run.text
    assert player.distribution.installed() == dict.fromkeys(NAMES[player.tool], "1")


def test_a_database_that_nobody_refreshed_stays_as_it_was(arch: Player, host: LabHost) -> None:
    before = host.sh("sha256sum /var/lib/pacman/sync/*").stdout
    arch.distribution.publish(newer=("git", "curl"), keep=True)
    assert arch.packages().code == 0
    assert host.sh("sha256sum /var/lib/pacman/sync/*").stdout == before
    assert arch.distribution.installed()["git"] == "1"


def test_a_mirror_that_has_moved_on_is_told_with_what_to_do(arch: Player) -> None:
    arch.distribution.publish(newer=("git", "curl"))
    assert arch.refused() == (
        "pacman could not install git cmake ninja gcc curl ca-certificates; if its mirror has moved on, run"
        " 'pacman -Syu' yourself and try again"
    )
    assert arch.distribution.installed() == {}


def test_a_package_that_no_repository_has_is_one_sentence_that_names_it(player: Player) -> None:
    player.distribution.publish(without=(NINJA[player.tool],))
    player.distribution.refresh()
    assert player.refused() == UNKNOWN[player.tool]
    assert player.distribution.installed() == {}


def test_a_repository_without_ccache_refuses_nobody(player: Player) -> None:
    player.distribution.publish(without=("ccache",))
    player.distribution.refresh()
    run = player.packages()
    assert run.code == 0, run.text
    said = f"paddock: {player.name}: ccache could not be installed; all works without, and later builds take longer"
    assert said in run.last_words
    assert player.distribution.installed() == dict.fromkeys(NAMES[player.tool] - {"ccache"}, "1")


def test_a_package_manager_at_work_is_waited_for(player: Player) -> None:
    with player.distribution.at_work():
        run = player.packages()
    assert run.code == 0, run.text
    assert player.distribution.installed() == dict.fromkeys(NAMES[player.tool] | {"slow"}, "1")


def test_a_lock_that_an_interrupted_pacman_left_is_told_and_not_removed(arch: Player, host: LabHost) -> None:
    with arch.distribution.at_work():
        host.power_cut()
    assert arch.refused() == (
        f"pacman's database is locked, and no process holds the lock: a pacman was interrupted. Remove {LOCK},"
        " look with 'pacman -Dk' whether all is well, and run again"
    )
    assert host.sh(f"test -e {LOCK}", check=False).returncode == 0
    assert "git" not in arch.distribution.installed()


def test_a_card_brings_archs_own_cuda_and_its_compiler_is_taken(arch: Player, host: LabHost) -> None:
    planted.healthy(host, "595.58.03")
    try:
        run = arch.packages()
        assert run.code == 0, run.text
        assert arch.distribution.installed() == dict.fromkeys(NAMES["pacman"] | {"cuda", "gcc15"}, "1")
        arch.rests()
        wishes = Wishes(settings.of(entry(host, **DATA)[1]), COMMIT, None)
        (host.root / "home/dev/probe.py").write_text(program(FRAGMENTS, wishes))
        seen = parse(as_dev(host, "python3 -ISB ~/probe.py; rm ~/probe.py"), FRAGMENTS)
        cmake = wanted_release(wishes, seen).arguments
    finally:
        planted.remove(host)
    assert "CMAKE_CUDA_COMPILER=/opt/cuda/bin/nvcc" in cmake
    assert "CMAKE_CXX_COMPILER=/usr/bin/g++" in cmake
    assert "CMAKE_CUDA_HOST_COMPILER=/usr/bin/g++-15" in cmake  # the default, 16, is newer than CUDA 13.2 allows
