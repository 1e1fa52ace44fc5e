"""What a host has of downloaded models, what uses them, and what the remover leaves: on real files and processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from roles.model import collect
from roles.model.observe import ModelSeen, look_at_model
from roles.remote import Script
from tests.unit import local

ONE, TWO = "owner--name/111111111111", "owner--name/222222222222"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def models(home: Path) -> Path:
    """Two downloads of one repository, and something of the user's own in the second."""
    folder = home / ".local/share/paddock/models"
    for commit, files in {ONE: ["a.gguf", "a.gguf.part", "Q4/b.gguf"], TWO: ["a.gguf"]}.items():
        for name in files:
            download(folder / commit / name)
    (folder / TWO / "mine.gguf").write_text("mine")
    (folder / TWO / "mine.gguf.json").write_text('{"sha256": "of another tool"}')
    return folder


def download(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 1000)
    if path.suffix != ".part":
        Path(f"{path}.json").write_text(json.dumps({"sha256": "d" * 64, "size": 1000, "mtime_ns": 1}))


def look(models: Path, path: str = "no.gguf") -> ModelSeen:
    return ModelSeen.model_validate(look_at_model({"path": path, "rest": [], "models": str(models)}))


def remove(models: Path, *folders: str) -> tuple[int, str]:
    done = local.run(Script(collect.REMOVE, (str(models), *folders), python=True))
    return done.returncode, done.stdout + done.stderr


def test_a_model_goes_whole_and_its_empty_folders_with_it(models: Path) -> None:
    assert remove(models, ONE) == (0, "")
    assert not (models / ONE).exists()
    assert (models / TWO / "a.gguf").exists()


def test_what_a_download_did_not_write_stays_and_is_not_seen_as_a_model(models: Path) -> None:
    (models / TWO / "link.gguf.part").symlink_to("/dev/null")
    assert remove(models, ONE, TWO) == (0, "")
    left = sorted(path.name for path in models.rglob("*") if not path.is_dir())
    assert left == ["link.gguf.part", "mine.gguf", "mine.gguf.json"]
    assert look(models).stored == ()


@pytest.mark.parametrize("folder", ["owner--name/mine", "mine/111111111111", "owner--name"])
def test_a_folder_of_another_form_is_the_users_own(models: Path, folder: str) -> None:
    download(models / folder / "own.gguf.part")
    before = {one.folder for one in look(models).stored}
    assert before == {ONE, TWO}
    assert remove(models, folder, ONE, TWO) == (0, "")
    assert (models / folder / "own.gguf.part").exists()


def test_a_folder_that_is_a_link_is_neither_seen_nor_removed(models: Path) -> None:
    (models.parent / "disk").mkdir()
    (models / ONE).rename(models.parent / "disk/one")
    (models / ONE).symlink_to(models.parent / "disk/one")
    assert [one.folder for one in look(models).stored] == [TWO]
    assert remove(models, ONE) == (0, "")
    assert (models.parent / "disk/one/a.gguf").exists()


def test_nothing_outside_of_the_models_can_be_named(models: Path) -> None:
    download(models.parent / "other/a.gguf")
    for folder in ("../other", ".", "owner--name/../.."):
        assert remove(models, folder) == (0, "")
    assert (models.parent / "other/a.gguf").exists()
    assert {one.folder for one in look(models).stored} == {ONE, TWO}


def test_what_is_stored_is_counted_by_what_downloads_wrote(models: Path) -> None:
    note = (models / TWO / "a.gguf.json").stat().st_size
    assert {one.folder: one.size for one in look(models).stored} == {ONE: 3000 + 2 * note, TWO: 1000 + note}
    (models / "loose.gguf").write_text("x")
    assert len(look(models).stored) == 2


UNITS = ".config/systemd/user"


@pytest.mark.parametrize(
    ("file", "text", "named"),
    [
        (f"{UNITS}/my.service", "ExecStart=/r/llama-server -m {models}/{one}/a.gguf -c 4096", [ONE]),
        (f"{UNITS}/my.service", "ExecStart=/r/llama-server --model={models}/{one}/a.gguf", [ONE]),
        (f"{UNITS}/my.service", "ExecStart=/r/llama-server -m %h/.local/share/paddock/models/{one}/a.gguf", [ONE]),
        (f"{UNITS}/my.service", "ExecStart=/r/llama-server --models-dir {models}/{one}", [ONE]),
        (f"{UNITS}/my.service", "ExecStart=/r/llama-server --models-dir {models}/owner--name/", ["owner--name"]),
        (f"{UNITS}/my.service", 'Environment="LLAMA_ARG_MODELS_DIR={models}"', ["."]),
        (f"{UNITS}/my.service", "ExecStart=sh -c 'exec llama-server -m \"$HOME/link.gguf\"'", [ONE]),
        (f"{UNITS}/my.service", "ExecStart=/r/x -m ${{XDG_DATA_HOME}}/paddock/models/{one}/a.gguf", [ONE]),
        (f"{UNITS}/my.service", "ExecStart=/r/llama-server -m {models}/{one}2/a.gguf", ["owner--name/1111111111112"]),
        (f"{UNITS}/my.service", "EnvironmentFile=-%h/llama.env", [TWO]),
        (f"{UNITS}/my.service", "WorkingDirectory=%h\nExecStart=/r/llama-server -m /models/other.gguf", []),
        (f"{UNITS}/my.service", "ConditionPathExists=/proc/kmsg", []),  # who reads it waits for the kernel's next word
        (f"{UNITS}/paddock-llama-server.service.d/my.conf", "Environment=M={models}/{one}/a.gguf", [ONE]),
        (".local/share/systemd/user/my.service", "ExecStart=/r/llama-server -m {models}/{one}/a.gguf", [ONE]),
        (".config/containers/systemd/my.container", "Volume={models}/{one}:/models:ro", [ONE]),
        (".local/share/paddock/last-good.json", "ExecStart=/r/llama-server -m {home}/link.gguf", [ONE]),
    ],
)
def test_whatever_names_a_model_is_seen(home: Path, models: Path, file: str, text: str, named: list[str]) -> None:
    (home / "link.gguf").symlink_to(models / ONE / "a.gguf")
    (home / "llama.env").write_text(f"LLAMA_ARG_MODEL={models}/{TWO}/a.gguf\n")
    (home / file).parent.mkdir(parents=True, exist_ok=True)
    (home / file).write_text(text.format(models=models, home=home, one=ONE) + "\n")
    assert list(look(models).named) == named


def test_models_on_a_disk_of_their_own_are_known_by_both_names(home: Path, models: Path) -> None:
    disk = home / "a disk"
    models.rename(disk)
    models.symlink_to(disk)
    (home / UNITS).mkdir(parents=True)
    for name in (models, disk):
        (home / UNITS / "my.service").write_text(f'ExecStart=/r/llama-server -m "{name}/{ONE}/a.gguf"\n')
        assert list(look(models).named) == [ONE]
    assert {one.folder for one in look(models).stored} == {ONE, TWO}


def test_drop_ins_behind_a_link_are_read_and_a_circle_is_not_walked_twice(home: Path, models: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / "dotfiles/my.conf").write_text(f"[Service]\nEnvironment=LLAMA_ARG_MODEL={models}/{TWO}/a.gguf\n")
    (home / "dotfiles/circle").symlink_to(home / "dotfiles")
    (home / UNITS).mkdir(parents=True)
    (home / UNITS / "paddock-llama-server.service.d").symlink_to(home / "dotfiles")
    assert list(look(models).named) == [TWO]


def test_a_given_model_that_is_a_link_to_a_downloaded_one_names_it(home: Path, models: Path) -> None:
    (home / "mine.gguf").symlink_to(models / ONE / "a.gguf")
    assert list(look(models, "~/mine.gguf").named) == [ONE]


@pytest.mark.parametrize("how", ["open", "mapped", "told"])
def test_what_a_process_uses_is_seen_and_never_removed(models: Path, how: str) -> None:
    path = str(models / ONE / "a.gguf")
    programs = {
        "open": "import sys; file = open(sys.stdin.readline().strip()); print(flush=True); input()",
        "mapped": "import mmap, sys; file = open(sys.stdin.readline().strip()); "
        "data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); file.close(); print(flush=True); input()",
        "told": "input(); print(flush=True); input()",
    }
    words = [sys.executable, "-c", programs[how], *([path] if how == "told" else [])]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(path + "\n")
        process.stdin.flush()
        process.stdout.readline()
        assert list(look(models).named) == [ONE]
        assert remove(models, ONE, TWO) == (0, "")
        assert Path(path).exists()
        assert not (models / TWO / "a.gguf").exists()
        process.communicate("\n", timeout=30)
    assert remove(models, ONE) == (0, "")
    assert not (models / ONE).exists()
