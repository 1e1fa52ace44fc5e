"""A script that changes a host looks at its claim first: whoever was taken over does nothing more there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from roles.remote import TAKEN_OVER, Failed, Script
from tests.unit.local import Here, needs_root

MINE = """{"who": "it's me@desk", "since": "$(id) {braces} %s", "pid": 1}"""
WAYS = [
    pytest.param({}, id="sh"),
    pytest.param({"live": True}, id="sh, live"),
    pytest.param({"python": True}, id="python"),
    pytest.param({"python": True, "live": True}, id="python, live"),
    needs_root({"root": True}),
]


def marking(home: Path, **way: bool) -> Script:
    """A script that leaves a mark and says so."""
    mark = str(home / "ran")
    if way.get("python"):
        return Script("import sys\nopen(sys.argv[1], 'w')\nprint('done')\n", (mark,), claim=MINE, **way)
    return Script('touch "$1"; echo done', (mark,), claim=MINE, **way)


def claimed(home: Path, text: str) -> Path:
    file = home / ".local/share/paddock/run.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (1e9, 1e9))
    return file


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("held", [None, "", "{}\n", MINE.replace("me", "you") + "\n", MINE + "\n" + MINE + "\n"])
def test_without_its_claim_nothing_of_a_script_runs(tmp_path: Path, way: dict[str, bool], held: str | None) -> None:
    file = claimed(tmp_path, held) if held is not None else None
    with pytest.raises(Failed) as caught:
        Here(HOME=str(tmp_path)).run(marking(tmp_path, **way))
    assert str(caught.value) == TAKEN_OVER
    assert not (tmp_path / "ran").exists()
    assert file is None or file.stat().st_mtime == 1e9, "another run's sign of life is its own"


@pytest.mark.parametrize("way", WAYS)
def test_with_its_claim_a_script_runs_and_gives_a_sign_of_life(tmp_path: Path, way: dict[str, bool]) -> None:
    file = claimed(tmp_path, MINE + "\n")
    assert Here(HOME=str(tmp_path)).run(marking(tmp_path, **way)) == ["done"]
    assert (tmp_path / "ran").exists()
    assert file.stat().st_mtime > time.time() - 60
    assert file.read_text() == MINE + "\n"


def test_a_script_without_a_claim_asks_for_none(tmp_path: Path) -> None:
    assert Here(HOME=str(tmp_path)).run(Script("echo done")) == ["done"]
    assert list(tmp_path.iterdir()) == []
