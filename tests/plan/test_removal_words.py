"""The two words of a removal by the real command line: a slip in one must not cost the models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plan.runs import host, run
from tests.unit import hosts


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("keep_model=true", "keep_model: no such word; keep_models?"),
        ("keep-models=true", "keep-models: no such word; keep_models?"),
        ("keep_models=yes", "keep_models='yes': it is true or false"),
    ],
)
def test_a_slip_is_refused_before_any_command(tmp_path: Path, word: str, told: str) -> None:
    made = run(tmp_path, {"one": host(hosts.bare_answers())}, "--dry", "--data", word, to="roles.remove")
    assert made.code == 2, made.err
    assert any(line.endswith(told) for line in made.last_lines()), made.err


@pytest.mark.parametrize("words", [("--dry",), ("-y", "--dry")])
def test_what_would_go_is_shown_by_any_dry_run(tmp_path: Path, words: tuple[str, ...]) -> None:
    answers = {"host": hosts.bare_answers()["host"], "made": {"units": ["paddock-llama-server.service"]}}
    made = run(tmp_path, {"one": host(answers)}, *words, to="roles.remove")
    assert made.code == 0, made.err
    assert any(line.endswith("remove paddock-llama-server.service") for line in made.said("one")), made.err


def test_other_data_is_no_slip(tmp_path: Path) -> None:
    answers = {"host": hosts.bare_answers()["host"], "made": {}}
    made = run(tmp_path, {"one": host(answers)}, "--dry", "--data", "ssh_user=dev", to="roles.remove")
    assert (made.code, made.last_words("one")) == (0, []), made.err
