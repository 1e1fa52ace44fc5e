"""Which old releases go: beyond the number and the disk that the inventory grants, and never one in use."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roles.llama_cpp import decide
from roles.llama_cpp.observe import LLAMA_CPP
from roles.llama_cpp.release import wanted_release
from roles.observation import Observation
from roles.remote import Script
from tests.unit import hosts, local
from tests.unit.deciding import acting, resting

GB = 1 << 30


def shelf(*sizes: float, in_use: str = "") -> Observation:
    """Releases r0, r1, ... from the oldest to the newest, sizes in GiB; `in_use` by their numbers."""
    lying = {f"r{at}": {"size": int(size * GB), "built_ns": at} for at, size in enumerate(sizes)}
    fields = {
        "shelf": lying,
        "releases": {key: {} for key in lying},
        "in_use": [f"r{number}" for number in in_use],
    }
    return hosts.converged(llama_cpp=fields)


def collected(**data: Any) -> Any:
    return partial(decide.collected, hosts.wishes(**data))


@pytest.mark.parametrize(
    ("data", "sizes", "in_use", "gone"),
    [
        ({}, (1, 1, 1, 1), "3", ["r0"]),
        ({}, (1, 1, 1, 1, 1), "4", ["r1", "r0"]),
        ({}, (1, 1, 1, 1), "0", ["r1"]),
        ({}, (1, 1, 1, 1, 1), "01", ["r3", "r2"]),
        ({"keep_releases": 1}, (1, 1), "1", ["r0"]),
        ({"keep_releases": 1}, (1, 1, 1), "02", ["r1"]),
        ({"releases_disk_max": "2G"}, (1, 1, 1), "2", ["r0"]),
        ({"releases_disk_max": "2G"}, (1, 5, 1), "2", ["r1"]),
        ({"releases_disk_max": "1G"}, (1, 1, 5), "2", ["r1", "r0"]),
    ],
)
def test_the_oldest_go_first_and_what_is_in_use_stays(
    data: dict[str, Any], sizes: tuple[float, ...], in_use: str, gone: list[str]
) -> None:
    decision = acting(collected(**data), shelf(*sizes, in_use=in_use))
    (step,) = decision.steps
    assert list(step.script.args) == gone
    assert decision.reasons[0].endswith(": " + ", ".join(gone))
    assert set(gone).isdisjoint(decision.after[LLAMA_CPP].releases)


@pytest.mark.parametrize(
    ("data", "sizes", "in_use"),
    [
        ({}, (), ""),
        ({}, (1, 1, 1), "2"),
        ({"keep_releases": 1}, (1, 1, 1), "012"),
        ({"releases_disk_max": "1G"}, (9, 9), "01"),
        ({"releases_disk_max": "3G"}, (1, 1, 1), "2"),
    ],
)
def test_nothing_goes_that_is_granted_or_in_use(data: dict[str, Any], sizes: tuple[float, ...], in_use: str) -> None:
    resting(collected(**data), shelf(*sizes, in_use=in_use))


def test_what_is_wanted_stays_though_nothing_refers_to_it_yet() -> None:
    """A run of one role, or a service that somebody stopped: the unit still names the old release."""
    wanted = wanted_release(hosts.wishes(keep_releases=1), hosts.converged()).key
    lying = {"old": {"size": GB, "built_ns": 1}, wanted: {"size": GB, "built_ns": 2}}
    fields = {"shelf": lying, "releases": {key: {} for key in lying}, "in_use": ["old"]}
    resting(collected(keep_releases=1, releases_disk_max="1G"), hosts.converged(llama_cpp=fields))


def test_the_size_that_is_freed_is_told() -> None:
    told = acting(collected(), shelf(0.5, 1, 1, 1, in_use="3")).reasons[0]
    assert told == "remove an old release of llama.cpp (537 MB): r0"


def test_the_script_leaves_what_a_process_runs_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".local/share/paddock/releases/r0"
    (folder / "bin").mkdir(parents=True)
    (folder / "stamp.json").write_text("{}")
    program = folder / "bin/llama-server"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    with subprocess.Popen([str(program), "60"]) as process:
        local.run(Script(decide.COLLECT, ("r0",)))
        assert folder.exists()
        process.kill()
    local.run(Script(decide.COLLECT, ("r0",)))
    assert not folder.exists()


def test_the_script_removes_them_and_leaves_one_that_has_come_into_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    data = tmp_path / ".local/share/paddock"
    for key in ("r0", "r1", "r2", "r3"):
        (data / "releases" / key / "bin").mkdir(parents=True)
        (data / "releases" / key / "stamp.json").write_text("{}")
    units = tmp_path / ".config/systemd/user"
    units.mkdir(parents=True)
    (units / "some.service").write_text(f"ExecStart={data}/releases/r1/bin/llama-server\n")
    (data / "last-good.json").write_text(f"ExecStart={data}/releases/r2/bin/llama-server\n")
    (data / "releases" / "mine").mkdir()
    (data / "releases" / ".gone-r0" / "bin").mkdir(parents=True)
    local.run(Script(decide.COLLECT, ("r0", "r1", "r2", "mine", "absent")))
    assert sorted(path.name for path in (data / "releases").iterdir()) == ["mine", "r1", "r2", "r3"]
