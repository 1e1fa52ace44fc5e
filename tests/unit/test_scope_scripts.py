"""On the host, from one scope to the other: the data moves, however often that is killed; one service gives way."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from roles.remote import Script
from roles.removal.observe import look_at_made
from roles.service import decide
from roles.service.observe import ask_for_service, look_at_service
from tests.unit import hosts, local

USER = getpass.getuser()


@pytest.mark.parametrize("half", ["", "moved", "claimed"])
def test_the_move_goes_on_where_it_was_killed(half: str, tmp_path: Path) -> None:
    """A rename within a disk; the other way, a copy, has no moment in which anything is lost."""
    home, there = tmp_path / "home/paddock", tmp_path / "opt/paddock"
    (home / "created").mkdir(parents=True)
    (home / "models").mkdir()
    there.parent.mkdir()
    if half:
        (home / "created/paths").write_text(f"{there}\n")
        home.rename(there)
    if half == "claimed":
        home.mkdir()
        (home / "run.lock").write_text("me\n")
    arguments = (USER, str(home), str(there))
    for _ in range(2):
        done = local.run(Script(decide.PLACE, (*arguments, "out")))
        assert done.returncode == 0, done.stderr
    assert (home.readlink(), (home / "models").is_dir()) == (there, True)
    assert (there / "run.lock").exists() == (half == "claimed")
    assert local.run(Script(decide.PLACE, (*arguments, "home"))).returncode == 0
    assert (home.is_symlink(), (home / "models").is_dir(), there.exists()) == (False, True, False)


@pytest.mark.parametrize("half", ["link gone", "claimed", "copied", "left behind"])
def test_the_way_home_goes_on_where_it_was_killed(half: str, tmp_path: Path) -> None:
    home, there = moved(tmp_path)
    home.unlink()
    if half == "claimed":
        (home / "created").mkdir(parents=True)
        (home / "created/paths").write_text("/home/dev/.cache\n")
        (home / "run.lock").write_text("me\n")
    if half in ("copied", "left behind"):
        shutil.copytree(there, home)
    if half == "left behind":
        (there / "models/some.gguf").unlink()
    done = local.run(Script(decide.PLACE, (USER, str(home), str(there), "home")))
    assert done.returncode == 0, done.stderr
    assert (home / "models/some.gguf").read_text() == "x"
    assert (home / "run.lock").exists() == (half == "claimed")
    assert (home.is_symlink(), there.exists()) == (False, False)


def moved(folder: Path) -> tuple[Path, Path]:
    """A home whose data has moved out, and where that is."""
    home, there = folder / "home/paddock", folder / "opt/paddock"
    for made in (home / "created", home / "models", there.parent):
        made.mkdir(parents=True)
    (home / "models/some.gguf").write_text("x")
    assert local.run(Script(decide.PLACE, (USER, str(home), str(there), "out"))).returncode == 0
    return home, there


def test_a_home_that_the_move_out_had_not_left_yet_is_not_taken_for_whole(tmp_path: Path) -> None:
    """On another disk it is copied: the copy is whole, and of the home the record has gone first."""
    home, there = moved(tmp_path)
    home.unlink()
    (home / "releases").mkdir(parents=True)
    done = local.run(Script(decide.PLACE, (USER, str(home), str(there), "home")))
    assert (done.returncode, (home / "models/some.gguf").read_text()) == (0, "x")
    lines = decide.PLACE.splitlines()
    assert lines.index('    out) rm -rf "$1/created" ;;') < lines.index('    rm -rf "$1"')


@pytest.mark.parametrize("half", ["a folder", "another's"])
def test_a_folder_of_that_name_that_no_move_made_is_left_alone_and_nothing_is_lost(half: str, tmp_path: Path) -> None:
    home, there = tmp_path / "home/paddock", tmp_path / "opt/paddock"
    for made in (home / "created", home / "models", there / "created"):
        made.mkdir(parents=True)
    user = USER
    if half == "another's":
        (there / "created/paths").write_text(f"{there}\n")
        user = "daemon"
    for way in ("out", "home"):
        done = local.run(Script(decide.PLACE, (user, str(home), str(there), way)))
        assert done.returncode == (way == "out"), done.stderr
        assert (f"{there} is there and not Paddock's, or another user's" in done.stderr) is (way == "out")
    assert (home / "models").is_dir()
    assert there.is_dir()


@pytest.mark.parametrize(("theirs", "seen"), [(False, True), (True, False)])
def test_the_systems_service_of_another_user_is_neither_replaced_nor_removed(
    theirs: bool, seen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "paddock-llama-server.service").write_text("# Written by Paddock.\n")
    away = tmp_path / "away"
    away.mkdir()
    monkeypatch.setattr("os.getuid", lambda: away.stat().st_uid + theirs)
    ask = {**ask_for_service(hosts.wishes()), "elsewhere": str(tmp_path), "away": str(away)}
    assert look_at_service({**ask, "key_file": None, "port": 1})["elsewhere"] is seen
    monkeypatch.setattr("roles.removal.observe.entries", lambda folder: ["paddock-llama-server.service"])
    monkeypatch.setattr("roles.removal.observe.read", lambda path, most=0: "# Written by Paddock.\n")
    assert look_at_made({"policies": [], "away": str(away)})["system"] is seen


def test_a_link_of_the_users_own_is_left_alone_and_told(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    done = local.run(Script(decide.PLACE, ("root", str(tmp_path / "home"), str(tmp_path / "opt/paddock"), "out")))
    assert "is a link of your own to" in done.stderr
    assert (tmp_path / "home").resolve() == tmp_path / "disk"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_models_that_are_mounted_are_not_copied_to_another_disk_and_lost_here(tmp_path: Path) -> None:
    home, there = tmp_path / "home/paddock", tmp_path / "opt"
    mounted = [home / "models", there]
    for folder in (home / "created", *mounted):
        folder.mkdir(parents=True)
    try:
        for folder in mounted:
            subprocess.run(["mount", "-t", "tmpfs", "lab", folder], check=True, timeout=30)
        (home / "models/some.gguf").write_text("x")
        done = local.run(Script(decide.PLACE, (USER, str(home), str(there / "paddock"), "out")))
        assert f"paddock: {home}/models is a mount, which cannot move to another disk" in done.stderr
        assert (home / "models/some.gguf").exists()
        assert not list(there.iterdir())
    finally:
        for folder in mounted:
            subprocess.run(["umount", folder], check=False, timeout=30)


@pytest.mark.parametrize("passes", [True, False])
def test_the_users_service_goes_once_the_systems_has_passed_and_comes_back_where_it_has_not(
    passes: bool, tmp_path: Path
) -> None:
    """Both managers and the switch are played: only root on a host with systemd has them."""
    units, state = tmp_path / "home/.config/systemd/user", tmp_path / "state"
    units.mkdir(parents=True)
    (state / "bin").mkdir(parents=True)
    for name in ("paddock-llama-server.service", "paddock-watchdog.timer"):
        (units / name).write_text("# Written by Paddock.\n")
    (units / "paddock-mine.service").write_text("[Service]\n")
    log = f'echo "$(basename "$0") $*" >>{tmp_path}/calls\n'
    path = local.tool(tmp_path / "bin", "runuser", log)
    local.tool(tmp_path / "bin", "getent", f"echo dev:x:1000:1000::{tmp_path}/home:/bin/sh\n")
    local.tool(tmp_path / "bin", "systemctl", "exit 3\n")
    local.tool(tmp_path / "bin", "systemd-run", f"{log}echo paddock: no device\nexit {0 if passes else 1}\n")
    arguments = (f"{state}/bin/paddock-switch", "{}", "60", "1000", "dev", "1000")
    done = local.run(Script(decide.SWITCH, arguments), PATH=path)
    assert (done.returncode == 0) is passes, done.stderr
    calls = [line.partition("systemctl --user ")[2] for line in (tmp_path / "calls").read_text().splitlines()]
    stops = [call for call in calls if call.startswith("stop ")]
    assert stops == [f"stop paddock-{name}" for name in ("switch.service", "watchdog.timer", "llama-server.service")]
    again = ["start paddock-llama-server.service", "start paddock-watchdog.timer"]
    assert (calls[-2:] == again) is not passes
    left = {one.name for one in units.iterdir()}
    ours = {"paddock-llama-server.service", "paddock-watchdog.timer"}
    assert left == {"paddock-mine.service", *(() if passes else ours)}
    assert (state / "wanted.json").stat().st_mode & 0o777 == 0o600
