"""group_data/all.py is a copy of the records, for people: it must not say anything else."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from roles import settings
from roles.settings import records

FILE = Path(__file__).parents[2] / "group_data" / "all.py"
FIELDS = {key: field for record in records.RECORDS.values() for key, field in record.model_fields.items()}
FIELDS["only"] = settings.Settings.model_fields["only"]
SAID = {key: value for key, value in runpy.run_path(str(FILE)).items() if not key.startswith("_")}
LINES = FILE.read_text("utf-8").splitlines()
COMMENTS = {line.partition(" = ")[0]: line.rpartition("  # ")[2] for line in LINES if " = " in line}


def as_record(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def test_the_file_has_the_keys_of_the_records_in_their_order() -> None:
    assert list(SAID) == list(FIELDS)


@pytest.mark.parametrize("key", FIELDS)
def test_each_default_is_the_records_own(key: str) -> None:
    assert as_record(SAID[key]) == FIELDS[key].default
    assert type(as_record(SAID[key])) is type(FIELDS[key].default)


@pytest.mark.parametrize("key", FIELDS)
def test_the_comment_after_each_key_is_its_description(key: str) -> None:
    assert FIELDS[key].description
    assert COMMENTS[key] == FIELDS[key].description


def test_each_record_has_its_heading() -> None:
    headings = [f"# {role}: {record.__doc__}" for role, record in records.RECORDS.items()]
    assert [line for line in LINES if line in headings] == headings


def test_with_a_model_the_file_is_a_valid_inventory() -> None:
    assert settings.errors({**SAID, "model_path": "~/some.gguf"}) == []
