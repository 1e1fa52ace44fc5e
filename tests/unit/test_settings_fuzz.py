"""Whatever an inventory says: settings or sentences, never an exception, and sentences that name the key."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from roles import settings
from roles.settings.check import FOREIGN
from roles.settings.records import OWNER

MANY = examples(max_examples=10_000 if os.environ.get("PADDOCK_SOAK") else 200, derandomize=True)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=5), SCALARS, max_size=2)
KEYS = st.sampled_from(sorted(OWNER)) | st.text(min_size=1, max_size=20)
MODEL = {"model_path": "/m.gguf"}


@MANY
@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_any_data_gives_settings_or_sentences(data: dict[str, Any]) -> None:
    problems = settings.errors(data)
    assert all(problem == problem.strip() and "\n" not in problem for problem in problems)
    if not problems:
        settings.of(data)


@MANY
@given(st.sampled_from(sorted(OWNER)), VALUES)
def test_a_value_that_is_refused_is_told_with_its_key(key: str, value: Any) -> None:
    data = {**MODEL, key: value}
    if key in ("model_repo", "model_file"):
        data = {"model_repo": "a/b", "model_file": "c.gguf", key: value}
    problems = settings.errors(data)
    assert all(key in problem or "model" in problem or "rpc" in problem for problem in problems), problems


@MANY
@given(st.text(min_size=1, max_size=12).filter(lambda key: key not in OWNER))
def test_a_key_that_nobody_knows_is_refused_unless_it_is_pyinfras(key: str) -> None:
    problems = settings.errors({**MODEL, key: 1})
    foreign = bool(FOREIGN.match(key))
    assert bool(problems) != foreign
