"""Taking hosts of the lab away: those that are named alone, while there are others. The lab itself needs root, and a
whole one of its own, so what it does to the machine is left out here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lab import host, network, services, state
from tests.lab.common import Lab


@pytest.mark.parametrize(
    ("names", "gone", "whole"),
    [
        ([], ["demo", "mine"], True),
        (["demo"], ["demo"], False),
        (["demo", "mine"], ["demo", "mine"], True),
        (["other"], [], False),
    ],
)
def test_only_the_named_hosts_go_while_there_are_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: list[str], gone: list[str], whole: bool
) -> None:
    lab, done = Lab(tmp_path / "run", tmp_path / "cache", "none", "198.18.0"), list[str]()
    lab.run_dir.mkdir()

    def note(word: str) -> Any:
        return lambda *_: done.append(word)

    monkeypatch.setattr(host, "take_down", lambda _lab, name, _index: done.append(name))
    monkeypatch.setattr(state, "records", lambda _: [state.Record("demo", 10, "k"), state.Record("mine", 11, "k")])
    monkeypatch.setattr(services, "stop_all", note("services"))
    monkeypatch.setattr(network, "remove", note("network"))
    monkeypatch.setattr(host, "sweep", note("sweep"))
    assert host.down(lab, names) == gone
    assert [word for word in done if word in ("demo", "mine")] == gone
    assert ("services" in done, "network" in done, lab.run_dir.exists()) == (whole, whole, not whole)
