"""The two places that show every key, made from the records: `python -m roles.settings.page` writes them anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from roles.settings.records import RECORDS, Settings
from roles.settings.values import check_duration, check_host_path, check_size, check_size_or_share

ROOT = Path(__file__).parents[2]
GROUP_DATA = ROOT / "group_data" / "all.py"
PAGE = ROOT / "docs" / "settings.md"


def literal(value: Any) -> str:
    """A value as Python that one may paste into an inventory."""
    value = list(value) if isinstance(value, tuple) else value
    return json.dumps(value) if isinstance(value, str | list) else repr(value)


def kind(field: FieldInfo) -> str:
    """The type in words."""
    return _kind(field.annotation, field.metadata)


def _kind(annotation: Any, metadata: list[Any] | None = None) -> str:
    named = {
        check_size: "size",
        check_size_or_share: "size or share",
        check_duration: "duration",
        check_host_path: "path",
    }
    for item in metadata or []:
        if getattr(item, "func", None) in named:
            return named[item.func]
    plain = {int: "integer", float: "number", bool: "true or false", str: "text", type(None): "None"}
    if annotation in plain:
        return plain[annotation]
    if get_origin(annotation) is tuple:
        return f"list of {_kind(get_args(annotation)[0])}"
    if get_origin(annotation) is dict:
        return "values by name"
    if get_origin(annotation) is Literal:
        return " or ".join(literal(value) for value in get_args(annotation))
    if hasattr(annotation, "__metadata__"):
        return _kind(annotation.__origin__, list(annotation.__metadata__))
    return " or ".join(dict.fromkeys(_kind(option) for option in get_args(annotation)))


def group_data() -> str:
    """Every key with its default, as pyinfra's data for all hosts."""
    lines = [
        '"""Every key with its default, its unit and its meaning. A host\'s own data goes first.',
        "",
        "pyinfra finds this file from the checkout, where it is run; the same defaults hold without it.",
        "Made from roles/settings/: `make docs` writes it anew.",
        '"""',
    ]
    for role, record in RECORDS.items():
        lines += ["", f"# {role}: {record.__doc__}", ""]
        for name, field in record.model_fields.items():
            lines.append(f"{name} = {literal(field.default)}  # {field.description}")
    only = Settings.model_fields["only"]
    return "\n".join([*lines, "", f"only = {literal(only.default)}  # {only.description}", ""])


def page() -> str:
    """A table per role."""
    lines = [
        "# Settings",
        "",
        "Every key that an inventory may use, flat, as pyinfra's data is. What is wrong with any of them is told for",
        "all hosts at once, before any command runs. Sizes are written `24G` (K, M, G, T count by 1024), shares `85%`,",
        "durations `90min` or `2h`, and `~` is the home of the *host's* user. This page is made from the records in",
        "`roles/settings/` by `make docs`.",
    ]
    for role, record in RECORDS.items():
        lines += ["", f"## {role}", "", str(record.__doc__), "", "| key | type | default | example | meaning |"]
        lines.append("|---|---|---|---|---|")
        lines += [row(name, field) for name, field in record.model_fields.items()]
    lines += ["", "## For a single run", "", "| key | type | default | example | meaning |", "|---|---|---|---|---|"]
    return "\n".join([*lines, row("only", Settings.model_fields["only"]), ""])


def row(name: str, field: FieldInfo) -> str:
    example = (field.examples or [None])[0]
    cells = [f"`{name}`", kind(field), f"`{literal(field.default)}`", f"`{literal(example)}`", str(field.description)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> None:
    """Write both."""
    GROUP_DATA.write_text(group_data(), "utf-8")
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
