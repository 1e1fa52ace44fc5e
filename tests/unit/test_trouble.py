"""The last lines of a run whose inventory is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles.trouble import no_inventory


def test_a_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["pyinfra", "-y", "mine.py", "deploy.py"])
    Path("deploy.py").touch()
    assert no_inventory() == "the file mine.py does not exist"
    Path("mine.py").touch()
    assert no_inventory() == "is that file an inventory?"
