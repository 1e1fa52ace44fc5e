"""What shows every key is made from the records, and not stale."""

from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from roles.settings import page
from roles.settings.records import RECORDS

KEYS = {name: field for record in RECORDS.values() for name, field in record.model_fields.items()}


def test_the_page_of_settings_is_what_the_records_say() -> None:
    assert page.PAGE.read_text("utf-8") == page.page(), "stale: run `make docs`"


def test_the_defaults_for_all_hosts_are_what_the_records_say() -> None:
    assert page.GROUP_DATA.read_text("utf-8") == page.group_data(), "stale: run `make docs`"


@pytest.mark.parametrize(("name", "field"), KEYS.items(), ids=KEYS)
def test_every_key_has_a_meaning_and_an_example_that_is_valid(name: str, field: FieldInfo) -> None:
    assert field.description
    [example] = field.examples or []
    value = tuple(example) if isinstance(example, list) else example
    kind: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    checked: TypeAdapter[Any] = TypeAdapter(kind)
    assert checked.validate_python(value, strict=True) == value
    assert value != field.default, "an example that is the default shows nothing"
