"""The script that puts a policy file in its place: whole, readable, and nothing beside it."""

from __future__ import annotations

from pathlib import Path

from roles.browser import decide
from roles.remote import Script
from tests.unit import local
from tests.unit.browsers import POLICY


def write(path: Path, umask: int = 0o077, record: Path = Path("/dev/null")) -> None:
    script = Script(f"umask {umask:o}\n{decide.WRITE}", (str(path), POLICY, str(record)))
    done = local.run(script)
    assert done.returncode == 0, done.stderr


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_under_a_strict_umask_everybody_can_read_the_file_and_its_folders(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    path = tmp_path / "opt/chrome/policies/managed/paddock.json"
    write(path)
    assert path.read_text() == POLICY
    assert mode(path) == 0o644
    new = [parent for parent in path.parents if tmp_path in parent.parents]
    assert [mode(folder) for folder in new] == [0o755] * 4


def test_folders_that_it_makes_are_on_record_and_those_that_were_there_are_not(tmp_path: Path) -> None:
    (tmp_path / "opt").mkdir()
    for _ in range(2):
        write(tmp_path / "opt/chrome/managed/paddock.json", record=tmp_path / "record")
    made = [str(tmp_path / "opt/chrome/managed"), str(tmp_path / "opt/chrome")]
    assert (tmp_path / "record").read_text().splitlines() == made


def test_no_draft_is_left_where_the_browser_reads_or_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "policies/managed/paddock.json"
    write(path)
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()) == [
        Path("policies/managed/paddock.json")
    ]


def test_what_stood_there_is_replaced_and_its_neighbours_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "managed"
    folder.mkdir(mode=0o711)
    (folder / "other.json").write_text("{}")
    (folder / "paddock.json").symlink_to(folder / "other.json")
    write(folder / "paddock.json")
    assert (folder / "other.json").read_text() == "{}"
    assert not (folder / "paddock.json").is_symlink()
    assert (folder / "paddock.json").read_text() == POLICY
    assert mode(folder) == 0o711, "a folder that was there is not ours"


def test_a_folder_in_the_files_place_is_an_error_and_not_filled(tmp_path: Path) -> None:
    path = tmp_path / "managed/paddock.json"
    path.mkdir(parents=True)
    done = local.run(Script(decide.WRITE, (str(path), POLICY, "/dev/null")))
    assert done.returncode != 0
    assert list(path.iterdir()) == []
    assert [one.name for one in tmp_path.iterdir()] == ["managed"], "no draft is left beside it"
