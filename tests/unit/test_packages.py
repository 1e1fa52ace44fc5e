"""Which packages are installed on which distribution, and by what."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roles.distribution import package
from roles.host import COMMANDS
from roles.llama_cpp.observe import LLAMA_CPP
from roles.packages import decide
from roles.remote import Script
from tests.unit import hosts, local, machines, seed
from tests.unit.deciding import Decide, acting, reasons, refusal, resting

NAMES = {
    "apt": "git cmake ninja-build g++ curl ca-certificates",
    "dnf": "git cmake ninja-build gcc-c++ curl ca-certificates",
    "pacman": "git cmake ninja gcc curl ca-certificates",
}


def installed(has_password: bool = False, **data: Any) -> Decide:
    return partial(decide.installed, hosts.wishes(**data).settings.llama_cpp, has_password)


@pytest.mark.parametrize(
    ("os_id", "names"), [("debian", NAMES["apt"]), ("fedora", NAMES["dnf"]), ("arch", NAMES["pacman"])]
)
def test_a_bare_host_gets_all_packages_by_their_names_there(os_id: str, names: str) -> None:
    decision = acting(installed(), hosts.bare(host={"os_id": os_id}))
    assert decision.reasons == (f"packages missing: {names} ccache",)
    (step,) = decision.steps
    assert step.script.root
    assert step.script.args == ("/home/dev/.local/share/paddock/created", "ccache", *names.split())


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in decide.OPTIONAL])
def test_one_missing_command_is_one_package(command: str) -> None:
    commands = {name: f"/usr/bin/{name}" for name in COMMANDS if name != command}
    decision = acting(installed(), hosts.converged(host={"commands": commands}))
    assert decision.steps[0].script.args[1:] == ("", package("apt", command))


def test_certificates_alone_are_one_package_too() -> None:
    decision = acting(installed(), hosts.converged(host={"certificates": False}))
    assert decision.steps[0].script.args[1:] == ("", "ca-certificates")


@pytest.mark.parametrize("host", [{"root": "none"}, {"os_id": "opensuse"}])
def test_nobody_is_refused_for_the_lack_of_what_only_makes_it_quicker(host: dict[str, Any]) -> None:
    resting(installed(), hosts.converged(host={**host, "commands": no_ccache()}, llama_cpp={"releases": {}}))


def test_what_only_makes_it_quicker_is_installed_before_the_first_build_and_asked_for_no_more_after_it() -> None:
    before = hosts.converged(host={"commands": no_ccache()}, llama_cpp={"releases": {}})
    assert acting(installed(), before).steps[0].script.args[1:] == ("ccache",)
    resting(installed(), hosts.converged(host={"commands": no_ccache()}))


def test_it_comes_along_with_anything_else_that_is_missing() -> None:
    decision = acting(installed(), hosts.converged(host={"commands": {**no_ccache(), "curl": None}}))
    assert decision.steps[0].script.args[1:] == ("ccache", "curl")


def no_ccache() -> dict[str, str | None]:
    return {**hosts.converged_answers()["host"]["commands"], "ccache": None}


def test_an_optional_package_that_could_not_be_had_is_one_sentence() -> None:
    assert decide.without(["Reading package lists...", "paddock-without ccache"]) == (
        "ccache could not be installed; all works without, and later builds take longer"
    )
    assert decide.without(["Reading package lists..."]) is None


def test_a_command_that_came_without_a_package_is_as_good() -> None:
    resting(installed(), hosts.converged(host={"commands": {name: f"/opt/mine/{name}" for name in COMMANDS}}))


def test_an_unknown_distribution_is_refused_only_where_something_is_missing() -> None:
    suse = {"os_id": "opensuse", "os_name": "openSUSE Tumbleweed"}
    assert "does not know the packages of openSUSE Tumbleweed" in refusal(installed(), hosts.bare(host=suse))
    resting(installed(), hosts.converged(host=suse))


@pytest.mark.parametrize(
    ("root", "has_password", "sentence"),
    [("none", False, "dev has none"), ("none", True, "dev has none"), ("password", False, "--same-sudo-password")],
)
def test_without_root_the_host_is_refused_and_told_what_is_missing(
    root: str, has_password: bool, sentence: str
) -> None:
    told = refusal(installed(has_password), hosts.bare(host={"root": root}))
    assert told.startswith("packages git cmake ninja-build g++ curl ca-certificates are missing: root is needed")
    assert sentence in told


@pytest.mark.parametrize(("root", "has_password"), [("is", False), ("free", False), ("password", True)])
def test_every_way_to_root_will_do(root: str, has_password: bool) -> None:
    acting(installed(has_password), hosts.bare(host={"root": root}))


def test_arch_gets_its_own_cuda_with_the_rest_where_a_gpu_needs_it() -> None:
    before = hosts.parsed(seed.laptop_answers(llama_cpp={"toolkits": {}}))
    decision = acting(installed(), before)
    assert decision.steps[0].script.args[-2:] == ("cuda", "ca-certificates")
    assert list(decision.after[LLAMA_CPP].toolkits) == ["/opt/cuda/bin/nvcc"]


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        ({}, {}),
        ({}, {"llama_cpp": {"toolkits": {}}, "gpu": machines.nvidia()}),
        ({}, {"llama_cpp": {"toolkits": {}}, "gpu": {**machines.nvidia(seed.RTX_3050), "table": None}}),
        ({"backend": "cpu"}, {"llama_cpp": {"toolkits": {}}}),
        ({"cuda_toolkit": "/srv/cuda"}, {"llama_cpp": {"toolkits": {}}}),
    ],
)
def test_it_does_not_where_none_is_needed_or_another_is_named(data: dict[str, Any], changes: dict[str, Any]) -> None:
    assert " cuda" not in reasons(installed(**data), hosts.parsed(seed.laptop_answers(**changes)))


def test_no_other_distributions_cuda_is_taken() -> None:
    debian: dict[str, dict[str, Any]] = {"host": {"os_id": "debian", "os_like": ""}, "llama_cpp": {"toolkits": {}}}
    assert " cuda" not in reasons(installed(), hosts.parsed(seed.laptop_answers(**debian)))


def listing(folder: Path, *names: str) -> str:
    """The folder of a record, and a dpkg-query that knows these packages."""
    (folder / "record").mkdir(exist_ok=True)
    (folder / "installed").write_text("".join(f"installed {name}\n" for name in names or ("libc6:amd64",)))
    local.tool(folder / "bin", "dpkg-query", f"cat {folder}/installed\n")
    return str(folder / "record")


@pytest.mark.parametrize("ends", ["", "exit 100\n"])
def test_what_came_by_an_installation_is_on_record_whatever_became_of_it(ends: str, tmp_path: Path) -> None:
    path = local.tool(tmp_path / "bin", "dpkg", "")
    record = listing(tmp_path, "libc6:amd64", "perl")
    brings = f'case $* in *" install git") echo installed git >>{tmp_path}/installed; {ends or ":"} ;; esac\n'
    local.tool(tmp_path / "bin", "apt-get", brings)
    done = local.run(Script(decide.INSTALL["apt"], (record, "", "git")), PATH=path)
    assert (done.returncode == 0) == (ends == "")
    assert {one.name: one.read_text() for one in (tmp_path / "record").iterdir()} == {"packages": "git\n"}


def test_what_a_killed_installation_brought_is_on_record_with_the_next(tmp_path: Path) -> None:
    path = local.tool(tmp_path / "bin", "dpkg", "")
    record = listing(tmp_path, "git", "libc6:amd64")
    (tmp_path / "record/packages.before").write_text("libc6:amd64\n")
    local.tool(
        tmp_path / "bin",
        "apt-get",
        f'case $* in *" install curl") echo installed curl >>{tmp_path}/installed ;; esac\n',
    )
    assert local.run(Script(decide.INSTALL["apt"], (record, "", "curl")), PATH=path).returncode == 0
    assert {one.name: one.read_text() for one in (tmp_path / "record").iterdir()} == {"packages": "curl\ngit\n"}


def test_two_installations_at_once_are_both_on_record_as_after_a_lost_connection(tmp_path: Path) -> None:
    path = local.tool(tmp_path / "bin", "dpkg", "")
    record = listing(tmp_path)
    brings = f"sleep 0.5; echo installed $last >>{tmp_path}/installed"
    local.tool(tmp_path / "bin", "apt-get", f'for last; do :; done; test "$last" = update || {{ {brings}; }}\n')

    def install(name: str) -> int:
        return local.run(Script(decide.INSTALL["apt"], (record, "", name)), PATH=path).returncode

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(install, ("curl", "git"))) == [0, 0]
    assert {one.name: one.read_text() for one in (tmp_path / "record").iterdir()} == {"packages": "curl\ngit\n"}


def test_apt_is_called_like_this(tmp_path: Path) -> None:
    path = local.tool(tmp_path / "bin", "apt-get", f'echo "$*" >>{tmp_path}/calls\n')
    local.tool(tmp_path / "bin", "dpkg", f'echo "dpkg $*" >>{tmp_path}/calls\n')
    script = Script(decide.INSTALL["apt"], (listing(tmp_path, "libc6:amd64"), "ccache", "git", "g++"))
    done = local.run(script, PATH=path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "calls").read_text().splitlines() == [
        "dpkg --configure -a",
        "-q -o DPkg::Lock::Timeout=300 update",
        "-q -y -o DPkg::Lock::Timeout=300 --no-upgrade --no-install-recommends install git g++",
        "-q -y -o DPkg::Lock::Timeout=300 --no-upgrade --no-install-recommends install ccache",
    ]


@pytest.mark.parametrize("needed", [(), ("git",)])
def test_apt_goes_on_without_an_optional_package_and_says_so(needed: tuple[str, ...], tmp_path: Path) -> None:
    fails = "case $* in *' install ccache') exit 100 ;; *install) exit 99 ;; esac\n"
    path = local.tool(tmp_path / "bin", "apt-get", fails)
    local.tool(tmp_path / "bin", "dpkg", "")
    done = local.run(Script(decide.INSTALL["apt"], (listing(tmp_path), "ccache", *needed)), PATH=path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["paddock-without ccache"]


def test_a_source_of_somebody_elses_that_is_broken_does_not_stop_apt(tmp_path: Path) -> None:
    fails = f'echo "$*" >>{tmp_path}/calls; case $* in *update) exit 100 ;; esac\n'
    path = local.tool(tmp_path / "bin", "apt-get", fails)
    local.tool(tmp_path / "bin", "dpkg", "")
    assert local.run(Script(decide.INSTALL["apt"], (listing(tmp_path), "", "git")), PATH=path).returncode == 0
    assert (tmp_path / "calls").read_text().splitlines()[-1].endswith(" install git")


def test_a_mirror_that_moved_on_is_told_with_what_to_do(tmp_path: Path) -> None:
    """A real pacman's other words are in tests/lab/test_package_managers.py; a mirror that answers 404 is not."""
    words = "-Qq) echo glibc ;; -T) shift; echo \"$@\"; exit 127 ;; -Sp) ;; *) echo 'error: 404' >&2; exit 1 ;;"
    pacman = f"case $1 in {words} esac\n"
    path = local.tool(tmp_path / "bin", "pacman", pacman)
    done = local.run(Script(decide.INSTALL["pacman"], (listing(tmp_path), "", "git", "gcc")), PATH=path)
    assert done.returncode == 1
    assert "paddock: pacman could not install git gcc; if its mirror has moved on, run 'pacman -Syu'" in done.stderr
