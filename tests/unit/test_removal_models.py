"""Of the models a removal takes what downloads wrote: what else lies there, a link and a mount are the user's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from roles import claim, observation
from roles.host import HOST
from roles.machine import MODELS
from roles.model.collect import REMOVE
from roles.remote import Script
from roles.removal import decide
from roles.removal.decide import Wanted
from roles.removal.observe import MADE, look_at_made
from tests.unit import hosts, local

FOLDER = "owner--name/cccccccccccc"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Paddock's folder on a host that it has claimed, with a release, and no model yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert local.run(Script(claim.TAKE, (claim.holder(), "", "45"))).stdout == "taken\n"
    (tmp_path / ".local/share/paddock/releases/r").mkdir(parents=True)
    return tmp_path / ".local/share/paddock"


def downloaded(models: Path) -> None:
    """A model as a download leaves it."""
    (models / FOLDER).mkdir(parents=True)
    (models / FOLDER / "some.gguf").write_bytes(b"x" * 5000)
    told = {"sha256": "d" * 64, "size": 5000, "mtime_ns": 1}
    (models / FOLDER / "some.gguf.json").write_text(json.dumps(told))


def made() -> dict[str, Any]:
    return look_at_made({"policies": [], "away": "/nonexistent"})


def remove() -> list[str]:
    """What is said, and done, of the models and the rest; then there is nothing more to do."""
    seen = observation.parse(json.dumps({"host": hosts.converged_answers()["host"], "made": made()}), (HOST, MADE))
    decision = decide.removed(Wanted(), False, seen)
    for step in decision.steps:
        if step.what in ("remove the models", "remove the rest"):
            done = local.run(step.script)
            assert (done.returncode, done.stderr) == (0, "")
    after = observation.parse(json.dumps({"host": hosts.converged_answers()["host"], "made": made()}), (HOST, MADE))
    assert not decide.removed(Wanted(), False, after).steps
    assert after[MADE].model_copy(update={"paths": ()}) == decision.after[MADE]
    return [*decision.reasons, decision.left_out or ""]


def test_what_no_download_wrote_stays_and_is_told(data: Path) -> None:
    downloaded(data / "models")
    (data / "models" / FOLDER / "mine.gguf").write_text("mine")
    told = remove()
    assert [path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file()] == [
        f"models/{FOLDER}/mine.gguf"
    ]
    assert f"what no download wrote in {MODELS}" in told[-1]


def test_behind_a_link_the_models_go_and_the_link_with_what_else_is_there_stays(data: Path, tmp_path: Path) -> None:
    disk = tmp_path / "a disk"
    downloaded(disk)
    (disk / "mine.gguf").write_text("mine")
    (data / "models").symlink_to(disk)
    assert made()["models"] >= 5000
    remove()
    assert [path.name for path in disk.iterdir()] == ["mine.gguf"]
    assert list(data.iterdir()) == [data / "models"]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_mount_is_emptied_of_models_and_no_reason_to_fail(data: Path) -> None:
    (data / "models").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "lab", data / "models"], check=True, timeout=30)
    try:
        downloaded(data / "models")
        remove()
        assert list((data / "models").iterdir()) == []
    finally:
        subprocess.run(["umount", data / "models"], check=True, timeout=30)


def test_folders_that_a_killed_download_left_empty_are_no_model_and_go(data: Path) -> None:
    (data / "models" / FOLDER).mkdir(parents=True)
    remove()
    assert not data.exists()


def test_all_goes_although_a_process_uses_it(data: Path) -> None:
    downloaded(data / "models")
    with (data / "models" / FOLDER / "some.gguf").open():
        assert local.run(Script(REMOVE, (MODELS, FOLDER), python=True)).returncode == 0
        assert made()["stored"], "a deploy leaves what is used"
        remove()
    assert not data.exists()
