"""Which browsers the probe finds, how they were installed, and what it reads in their folders: on real files."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from roles.browser import observe
from roles.browser.observe import BROWSER, BrowserSeen, Folder, browser_folder, look_at_browser
from roles.browser.table import BY_ID, FILE, FOLDERS, ROWS, row_id
from tests.unit import local
from tests.unit.local import needs_root
from tests.unit.planted_browsers import moved, plant


def look(root: Path, *names: str) -> dict[str, Any]:
    """What is seen of these rows, by row."""
    rows = [{"id": name, **asdict(moved(name, root))} for name in names]
    answer = look_at_browser({"rows": rows, "folders": [], "files": 9, "most": 99})
    return {one.id: one for one in BrowserSeen.model_validate(answer).installs}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, and a PATH on which no tool of this machine is asked about its packages."""
    for name in ("dpkg-query", "rpm", "snap"):
        local.tool(tmp_path / "bin", name, "exit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


@pytest.mark.parametrize("name", [name for name, row in BY_ID.items() if row.marks])
def test_every_browser_is_found_by_its_marks_and_by_nothing_else(home: Path, name: str) -> None:
    assert look(home, *BY_ID) == {}
    plant(home, moved(name, home).marks[0].replace("*", "linux-139.0.7258.66").removeprefix(str(home)))
    assert name in look(home, *BY_ID)
    shared = set(moved(name, home).marks)
    assert all(shared & set(moved(other, home).marks) for other in look(home, *BY_ID))


def packager(home: Path, tool: str, lines: str, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for a package manager: the browsers' packages cannot be installed in a unit test."""
    local.tool(home / "bin", tool, f"printf '{lines}'\n")
    real = os.path.exists, os.path.isdir
    monkeypatch.setattr(os.path, "exists", lambda path: path == database or real[0](path))
    monkeypatch.setattr(os.path, "isdir", lambda path: path == database or real[1](path))


def test_a_deb_tells_its_version(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(home, "/opt/google/chrome-beta/chrome")
    lines = "google-chrome-beta 140.0.7339.5-1 installed\\nchromium  not-installed\\n"
    packager(home, "dpkg-query", lines, "/var/lib/dpkg/status", monkeypatch)
    seen = look(home, "Google Chrome beta (native)")["Google Chrome beta (native)"]
    assert (seen.packaging, seen.version) == ("deb", "140.0.7339.5-1")


def test_an_rpm_tells_its_version(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(home, "/usr/lib64/chromium-browser/chromium-browser")
    lines = "package google-chrome-stable is not installed\\nchromium 139.0.7258.154 installed\\n"
    packager(home, "rpm", lines, "/usr/lib/sysimage/rpm", monkeypatch)
    seen = look(home, "Chromium (native)")["Chromium (native)"]
    assert (seen.packaging, seen.version) == ("rpm", "139.0.7258.154")


def test_a_package_of_arch_tells_its_version(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(home, "/opt/brave-bin/brave")
    names = ["brave-bin-1:1.81.137-1", "linux-6.16.1-1", "ALPM_DB_VERSION"]
    monkeypatch.setattr(observe, "entries", lambda folder: names if folder == "/var/lib/pacman/local" else [])
    seen = look(home, "Brave (native)")["Brave (native)"]
    assert (seen.packaging, seen.version) == ("pacman", "1:1.81.137")


def test_a_browser_that_no_package_brought_is_told_apart(home: Path) -> None:
    plant(home, "/usr/lib/chromium/chromium")
    seen = look(home, "Chromium (native)")["Chromium (native)"]
    assert (seen.packaging, seen.version) == ("other", None)


HEAD = "Interface     Plug                                     Slot  Notes\\n"
PLUG = "system-files  chromium:etc-chromium-browser-policies"


@pytest.mark.parametrize(
    ("lines", "reaches"),
    [
        (f"{HEAD}{PLUG}  :system-files  manual\\n", True),
        (f"{HEAD}browser-support  chromium:browser-sandbox  :browser-support  -\\n{PLUG}  -  -\\n", False),
        (f"{HEAD}home  chromium:home  :home  -\\n", None),
        ("", None),
    ],
)
def test_a_snap_reads_its_policy_where_its_plug_is_connected(home: Path, lines: str, reaches: bool | None) -> None:
    local.tool(home / "bin", "snap", f"test \"$*\" = 'connections chromium' && printf '{lines}'\n")
    plant(home, "/snap/chromium/current/meta/snap.yaml", "name: chromium\nversion: 139.0.7258.66\n")
    seen = look(home, "Chromium (snap)")["Chromium (snap)"]
    assert (seen.packaging, seen.version, seen.reaches) == ("snap", "139.0.7258.66", reaches)


@pytest.mark.parametrize(
    ("metadata", "override", "reaches"),
    [
        ("[Context]\nshared=network;\nfilesystems=xdg-download;host-etc;\n", None, True),
        ("[Context]\nfilesystems=host-etc:ro;\n", None, True),
        ("[Context]\nfilesystems=xdg-download;\n", None, False),
        ("[Context]\nfilesystems=host-etc;\n", "[Context]\nfilesystems=!host-etc;\n", False),
        ("[Context]\nfilesystems=xdg-download;\n", "[Context]\nfilesystems=host-etc;\n", True),
        ("[Context]\nfilesystems=host-etc;\n", "[Context]\nfilesystems=!host;\n", True),
        ("[Context]\nfilesystems=host;\n", "[Context]\nfilesystems=!host-etc;\n", True),
        ("[Context]\nfilesystems=host:ro;\n", "[Context]\nfilesystems=!host;\n", False),
        ("[Context]\nfilesystems=host-etc;\n", "[Context]\nfilesystems=!host:reset;\n", False),
        ("[Context]\nfilesystems=host-etc;\n", "[Context]\nfilesystems=!host:reset;host-etc;\n", True),
        (None, None, None),
    ],
)
def test_a_flatpak_reads_its_policy_where_it_may_see_etc(
    home: Path, metadata: str | None, override: str | None, reaches: bool | None
) -> None:
    name, app = "Google Chrome (com.google.Chrome)", "com.google.Chrome"
    base = moved(name, home).marks[1].removeprefix(str(home))
    plant(home, f"{base}/active/deploy")
    if metadata is not None:
        plant(home, f"{base}/active/metadata", metadata)
    if override is not None:
        plant(home, f".local/share/flatpak/overrides/{app}", override)
    seen = look(home, name)[name]
    assert (seen.packaging, seen.reaches) == ("flatpak", reaches)


def folder_of(path: Path, files: int = 200, most: int = 99) -> Folder:
    return Folder.model_validate(browser_folder(str(path), files, most))


def test_every_regular_file_of_a_folder_is_read_in_byte_order(tmp_path: Path) -> None:
    for name in ("b", ".a", "Z", "paddock.json", "é", "a.bak"):
        (tmp_path / name).write_text(name)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    (tmp_path / "latin").write_bytes(b"\xe9")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_text("odd name")
    seen = folder_of(tmp_path)
    assert [file.name for file in seen.files] == [
        ".a",
        "Z",
        "a.bak",
        "b",
        "latin",
        "link",
        "paddock.json",
        "é",
        "\\xff",
    ]
    assert [file.text for file in seen.files if file.name in ("latin", "link")] == [None, "b"]
    assert seen.file("link") is not None
    assert [file.mode for file in seen.files if file.name in ("link", "b")] == [0o644, 0o777]
    assert seen.modes[str(tmp_path)] == tmp_path.stat().st_mode & 0o7777


def test_what_is_too_large_or_too_many_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 100)
    (tmp_path / "b").write_text("x" * 99)
    seen = folder_of(tmp_path, files=1)
    assert ([file.whole for file in seen.files], seen.more) == ([False], True)
    assert ([file.whole for file in folder_of(tmp_path, files=2).files], folder_of(tmp_path, 2).more) == (
        [False, True],
        False,
    )


@pytest.mark.parametrize("mode", [needs_root(0o600), needs_root(0o640)])
def test_a_file_that_only_root_can_read_is_none_for_a_browser(tmp_path: Path, mode: int) -> None:
    (tmp_path / FILE).write_text("{}")
    (tmp_path / FILE).chmod(mode)
    assert folder_of(tmp_path).files == ()


def test_a_folder_behind_a_link_is_as_open_as_the_folder_is(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "managed").symlink_to(tmp_path / "elsewhere")
    seen = folder_of(tmp_path / "managed")
    assert seen.modes[str(tmp_path / "managed")] == 0o700
    assert seen.closed == str(tmp_path / "managed")


def test_a_folder_that_is_missing_has_no_mode(tmp_path: Path) -> None:
    seen = folder_of(tmp_path / "policies/managed")
    assert seen.files == ()
    assert seen.modes[str(tmp_path / "policies/managed")] is None


def test_the_whole_look_of_this_machine_is_an_answer() -> None:
    answer = look_at_browser({**BROWSER.ask(None), "rows": []})
    assert set(BrowserSeen.model_validate(answer).folders) == set(FOLDERS)
    assert all(row_id(row) in BY_ID for row in ROWS)
