"""How a folder of policy files is judged: as Chromium reads it, which the lab asks about every row of the table."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from roles.browser.observe import Folder, PolicyFile, browser_folder
from roles.browser.rules import Said, content, in_force, same
from roles.browser.table import KEY

ROWS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "policy_files.yaml").read_text("utf-8"))


def as_bytes(text: str, key: str = KEY) -> bytes:
    """A file of the table, about this key; the encoding is UTF-8 unless the text begins with another."""
    for encoding in ("latin-1", "utf-16"):
        if text.startswith(f"{encoding}:"):
            return as_bytes(text.removeprefix(f"{encoding}:"), key).decode().encode(encoding)
    return re.sub(r"(?<=[{ ,])K(?=:)", f'"{KEY}"', text).replace(KEY[1:], key[1:]).encode()


def seen(files: dict[str, str]) -> list[PolicyFile]:
    found = []
    for name, written in sorted(files.items(), key=lambda file: file[0].encode()):
        try:
            text: str | None = as_bytes(written).decode()
        except UnicodeDecodeError:
            text = None
        found.append(PolicyFile(name=name, text=text))
    return found


@pytest.mark.parametrize("row", ROWS, ids=[row["what"] for row in ROWS])
def test_a_folder_is_judged_as_chromium_reads_it(row: dict[str, Any]) -> None:
    said = in_force(seen(row["files"])).get(KEY)
    if row["said"] == "error":
        assert said is not None
        assert not same(said.value, 1)
        assert not same(said.value, 0)
    elif row["said"] is None:
        assert said is None
    else:
        assert said is not None
        assert same(said.value, row["said"])


def test_the_file_whose_word_counts_is_named() -> None:
    assert in_force(seen({"10-a": "{K: 1}", "90-b": "{K: 0}", "99-c": "{"}))[KEY].file == "90-b"


def test_a_name_that_is_not_utf_8_counts_where_its_bytes_stand(tmp_path: Path) -> None:
    """It is told with a backslash, which stands before small letters; its bytes stand after them."""
    for name, value in ((b"paddock.json", 1), (b"\xff", 0)):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text(f'{{"{KEY}": {value}}}')
    folder = Folder.model_validate(browser_folder(str(tmp_path), 9, 99))
    assert in_force(folder.files)[KEY] == Said("\\xff", 0)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [(1, 1, True), (1, True, False), (1, 1.0, False), (1, "1", False), ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True)],
)
def test_values_are_the_same_in_type_too(one: object, other: object, equal: bool) -> None:
    assert same(one, other) == equal


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31 - 1) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=9,
)


@examples(max_examples=300, derandomize=True)
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.sampled_from([None, 2]))
def test_plain_json_is_read_as_plain_json(policies: dict[str, Any], indent: int | None) -> None:
    assert content(json.dumps(policies, indent=indent)) == policies


@examples(max_examples=500, derandomize=True)
@given(st.text(alphabet='{}[],:"\\/* \n1ae', max_size=40) | st.text(max_size=30))
def test_any_text_is_a_record_or_is_skipped(text: str) -> None:
    found = content(text)
    assert found is None or isinstance(found, dict)


@pytest.mark.parametrize(
    "text", ['"' * 100_000, "/*" * 100_000, "[" * 100_000, "{" * 100_000, "1" * 100_000, " ," * 100_000, "\\" * 100_000]
)
def test_nonsense_of_a_hundred_kilobytes_takes_no_time(text: str) -> None:
    begin = time.process_time()
    assert content(text) is None
    assert time.process_time() - begin < 2
