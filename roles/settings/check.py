"""The data of a host as settings, or the sentences about what is wrong with it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from roles.settings.base import Record
from roles.settings.records import OWNER, RECORDS, Settings

R = TypeVar("R", bound=Record)

# Data that belongs to pyinfra and its connectors, not to Paddock.
FOREIGN = re.compile(r"_|(ssh|docker|podman|dockerssh|podmanssh|chroot|local|fake|vagrant|terraform)_")


def of(data: Mapping[str, Any]) -> Settings:
    """The settings of one host from its pyinfra data. Raises ValidationError or ValueError."""
    problems = errors(data)
    if problems:
        raise ValueError("; ".join(problems))
    return Settings.model_validate(_sorted_by_role(data))


def part_of(record: type[R], data: Mapping[str, Any]) -> R:
    """One role's settings, for a run that needs no others. Raises ValidationError."""
    return record.model_validate(_part(record, data))


def errors(data: Mapping[str, Any], record: type[Record] | None = None) -> list[str]:
    """One sentence for each thing that is wrong with the data of one host; of a record, where only that is needed."""
    found = []
    for key in data:
        if key not in OWNER and not FOREIGN.match(key):
            near = difflib.get_close_matches(key, OWNER, n=1)
            found.append(
                f"{key if key.isidentifier() else repr(key)}: no such key"
                + (f"; did you mean {near[0]}?" if near else "; docs/settings.md has all of them")
            )
    try:
        if record is None:
            Settings.model_validate(_sorted_by_role(data))
        else:
            record.model_validate(_part(record, data))
    except ValidationError as error:
        found += _sentences(error)
    return found


def _sorted_by_role(data: Mapping[str, Any]) -> dict[str, Any]:
    by_role: dict[str, Any] = {role: {} for role in RECORDS}
    for key, value in data.items():
        if key == "only":
            by_role["only"] = (
                tuple(word.strip() for word in value.split(",") if word.strip())
                if isinstance(value, str)
                else _as_tuple(value)
            )
        elif key in OWNER:
            by_role[OWNER[key]][key] = _as_tuple(value)
    return by_role


def _part(record: type[Record], data: Mapping[str, Any]) -> Any:
    return next(_sorted_by_role(data)[role] for role, each in RECORDS.items() if each is record)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _sentences(error: ValidationError) -> Iterable[str]:
    """pydantic's findings, a key's alternatives joined into one sentence, as people write them in an inventory."""
    by_key: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for item in error.errors(include_url=False, include_context=False):
        message = item["msg"].removeprefix("Value error, ").replace("a valid tuple", "a list")
        key = next((str(part) for part in item["loc"] if part in OWNER), None)
        if key is None:  # a rule about several keys, which its sentence names
            by_key.setdefault(message, [])
            continue
        by_key.setdefault(key, []).append(message[0].lower() + message[1:] if message[1:2].islower() else message)
        values[key] = item["input"]
    for key, messages in by_key.items():
        if not messages:
            yield key
            continue
        value = list(held) if isinstance(held := values.get(key), tuple) else held
        shown = re.sub(r"://[^/@]*@", "://...@", repr(value))  # what stands there may be a secret
        yield f"{key}={shown}: {_alternatives(messages)}{_hint(key, held, messages)}"


def _alternatives(messages: list[str]) -> str:
    """`must be a valid integer or 'auto'`: pydantic says `input should be` of each."""
    first, *others = dict.fromkeys(message.replace("input should be ", "must be ", 1) for message in messages)
    return (" or " if first.startswith("must be ") else ", or ").join(
        [first, *(other.removeprefix("must be ") for other in others)]
    )


def _hint(key: str, value: Any, messages: list[str]) -> str:
    """How a value of the right type is written: quotes that are too many or too few are the common slip."""
    field = RECORDS[OWNER[key]].model_fields[key] if key != "only" else None
    if field is None or not field.examples or not any("a valid " in message for message in messages):
        return ""
    unit = " (MiB)" if key.endswith("_mib") else ""
    quotes = ", without quotes" if isinstance(value, str) and value.isdigit() else ""
    return f", as in {key}={field.examples[0]!r}{unit}{quotes}"
