"""What the probe sees of models on disk and of browsers that run: real files and processes of this machine."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from roles import probe_tools
from roles.browser import freed, observe_models
from roles.browser.observe_models import MODELS, ModelsSeen, look_at_browser_models
from roles.browser.table import BY_ID, MODEL_SERVICE
from tests.unit import local
from tests.unit.planted_browsers import HOMES, moved, plant


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def models(home: Path, *names: str) -> ModelsSeen:
    rows = [{"id": name, **asdict(moved(name, home))} for name in names or BY_ID]
    ask = {**MODELS.ask(None), "rows": rows}
    return ModelsSeen.model_validate(look_at_browser_models(ask))


def test_models_of_all_kinds_and_packagings_are_found_and_sized(home: Path) -> None:
    for name, data in HOMES.items():
        plant(home, f"{data}/OptGuideOnDeviceModel/2025.6.30.1229/weights.bin", "x" * 1000)
        plant(home, f"{data}/OptGuideOnDeviceClassifierModel/1/a.bin", "x" * 20)
        plant(home, f"{data}/OptGuideManifestModel/ab/1/b.bin", "x" * 3)
        plant(home, f"{data}/OptimizationGuideModelsManifest/manifest.json", "x" * 5000)
        plant(home, f"{data}/Last Version", f"139.0.{len(name)}.1")
    seen = {profile.id: profile for profile in models(home).profiles}
    assert set(seen) == set(HOMES)
    for name, profile in seen.items():
        assert (profile.size, profile.version) == (1023, f"139.0.{len(name)}.1")
        assert (profile.path, profile.running, profile.owner) == (str(home / HOMES[name]), False, "")


def test_the_empty_folders_that_a_browser_makes_and_leaves_are_no_models(home: Path) -> None:
    plant(home, ".config/google-chrome/Default/x")
    (home / ".config/google-chrome/OptGuideOnDeviceModel").mkdir()
    (home / ".config/google-chrome/OptGuideManifestModel/0a1b").mkdir(parents=True)
    [profile] = models(home, "Google Chrome (native)").profiles
    assert profile.models == {}


def test_what_is_deleted_is_not_seen_again_and_what_is_no_model_is_not_seen_at_all(home: Path) -> None:
    """A real tree through look, delete, look: both sides mean the same."""
    folder = home / ".config/google-chrome"
    plant(home, ".config/google-chrome/OptGuideManifestModel/0a1b/1/weights.bin", "x" * 9)
    (folder / "OptGuideManifestModel/0a1b/up").symlink_to("/")
    (folder / "OptGuideOnDeviceModel").symlink_to("/usr")
    [profile] = models(home, "Google Chrome (native)").profiles
    assert list(profile.models) == ["OptGuideManifestModel"]
    done = local.run(freed.deletion(profile.model_copy(update={"id": ""})).script)
    assert done.returncode == 0, done.stderr
    [profile] = models(home, "Google Chrome (native)").profiles
    assert profile.models == {}
    assert (folder / "OptGuideOnDeviceModel").is_symlink()


def test_a_look_ends_in_a_folder_that_does_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe_models, "MOST", 3)
    for number in range(9):
        plant(home, f".config/google-chrome/OptGuideOnDeviceModel/{number}/a", "x")
    [profile] = models(home, "Google Chrome (native)").profiles
    assert 0 < profile.size <= 3


def test_a_moved_configuration_is_followed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "elsewhere"))
    plant(home, "elsewhere/chromium/OptGuideOnDeviceModel/weights.bin", "x")
    [profile] = models(home, "Chromium (native)").profiles
    assert (profile.path, profile.size) == (str(home / "elsewhere/chromium"), 1)


@contextmanager
def process(*line: str) -> Iterator[int]:
    """A process with this command line, once it has it: at first it has that of the one that started it."""
    with subprocess.Popen([line[0], "-c", "read x", *line[1:]], executable="/bin/sh", stdin=subprocess.PIPE) as started:
        while not Path(f"/proc/{started.pid}/cmdline").read_bytes().startswith(f"{line[0]}\0".encode()):
            time.sleep(0.01)
        yield started.pid
        started.kill()


def test_a_running_browser_and_its_own_directory_are_seen(home: Path) -> None:
    plant(home, ".config/google-chrome/Default/x")
    plant(home, "work profile/OptGuideOnDeviceModel/weights.bin", "x")
    (home / "a link").symlink_to(home / "work profile")
    with process(f"{home}/opt/google/chrome/chrome", f"--user-data-dir={home}/a link"):
        seen = {profile.path: profile for profile in models(home, "Google Chrome (native)").profiles}
    assert {path: profile.running for path, profile in seen.items()} == {
        str(home / ".config/google-chrome"): True,
        str(home / "work profile"): True,
    }
    assert not models(home, "Google Chrome (native)").profiles[0].running


def test_the_lock_of_a_browser_that_crashed_is_not_taken_for_one_that_runs(home: Path) -> None:
    plant(home, ".config/chromium/Default/x")
    (home / ".config/chromium/SingletonLock").symlink_to(f"{os.uname().nodename}-{os.getpid()}")
    [profile] = models(home, "Chromium (native)").profiles
    assert not profile.running


def test_the_process_that_holds_a_model_is_known_by_its_command_line(home: Path) -> None:
    with process(f"{home}/chrome", "--type=utility", f"--utility-sub-type={MODEL_SERVICE}", "--lang=de") as pid:
        services = models(home).services
    assert [(one.pid, one.program, one.id) for one in services] == [(pid, f"{home}/chrome", "")]
    chrome = f"{home}/opt/google/chrome/chrome"
    with process(chrome, "--type=utility", f"--utility-sub-type={MODEL_SERVICE}") as pid:
        services = models(home).services
    assert [(one.pid, one.program, one.id) for one in services] == [(pid, chrome, "Google Chrome (native)")]


FLATPAKS = ("Google Chrome (com.google.Chrome)", "Microsoft Edge (com.microsoft.Edge)", "Opera (com.opera.Opera)")


def test_a_flatpak_is_known_by_its_scope_and_not_taken_for_another(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel says of this process is a stand-in: nothing here runs in a Flatpak's scope."""
    for name in FLATPAKS:
        plant(home, f"{BY_ID[name].data[0]}/Default/x")
    own = f"/proc/{os.getpid()}"
    told = {
        f"{own}/cgroup": "0::/user.slice/app.slice/app-flatpak-com.google.Chrome-4711.scope\n",
        f"{own}/cmdline": f"/app/extra/chrome\0--type=utility\0--utility-sub-type={MODEL_SERVICE}\0",
    }
    monkeypatch.setattr(observe_models, "read", lambda path, *more: told.get(path) or probe_tools.read(path, *more))
    seen = models(home)
    assert {one.id: one.running for one in seen.profiles} == {name: name == FLATPAKS[0] for name in FLATPAKS}
    assert [(one.pid, one.id) for one in seen.services] == [(os.getpid(), FLATPAKS[0])]
