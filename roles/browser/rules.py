"""How Chromium reads a folder of policy files: which are skipped, and whose word counts. Pure.

Every regular file is read, whatever its name; the last one in byte order wins a key; a file that is broken is skipped
whole. The dialect is that of Chromium's JSON reader (comments, commas before a closing bracket, line breaks in strings,
\\xHH). tests/lab/test_browser.py asks the real Chromium about every row of tests/unit/policy_files.yaml.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from roles.browser.observe import PolicyFile

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)|[\[\]{},]|[^"\[\]{},/]+|.', re.S)
ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|.)|[\n\r]", re.S)
DEEPEST = 200  # base::internal::kAbsoluteMaxDepth of Chromium's reader
LONGEST = 400  # digits of a number; no more fits into a double


@dataclass(frozen=True)
class Said:
    """What is in force for one key, and the file that says it."""

    file: str
    value: Any


def content(text: str | None) -> dict[str, Any] | None:
    """The policies of one file; None where the browser skips it."""
    if text is None:
        return None
    plain = _plain(text.removeprefix("\ufeff"))
    if plain is None:
        return None
    try:
        found = json.loads(plain, parse_constant=_none_such, parse_float=_number, parse_int=_number)
        json.dumps(found, ensure_ascii=False).encode("utf-8")  # half a surrogate pair is an error there
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def in_force(files: Iterable[PolicyFile]) -> dict[str, Said]:
    """What the files, which are in byte order, say together."""
    said: dict[str, Said] = {}
    for file in files:
        for key, value in (content(file.text) or {}).items():
            said[key] = Said(file.name, value)
    return said


def same(one: Any, other: Any) -> bool:
    """Equal in type too: the browser takes neither true nor 1.0 for 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _plain(text: str) -> str | None:
    """The text as plain JSON; None where it is nested too deeply, or a comment has no end."""
    out: list[str] = []
    depth = 0
    for token in TOKEN.findall(text):
        unclosed = token.startswith("/*") and not re.search(r"..\*/\Z", token, re.S)
        if token.startswith(("//", "/*")):
            token = " "
        elif token[0] == '"' and len(token) > 1:
            token = ESCAPE.sub(_escaped, token)
        elif token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
            _drop_comma(out)
        if depth > DEEPEST or unclosed:
            return None
        if token.strip() or not out or not out[-1].isspace():
            out.append(token)
    return "".join(out)


def _drop_comma(out: list[str]) -> None:
    """One comma before a closing bracket, unless nothing stands before it."""
    at = len(out) - 1
    while at >= 0 and out[at].isspace():
        at -= 1
    before = at - 1
    while before >= 0 and out[before].isspace():
        before -= 1
    if at > 0 and out[at] == "," and out[before] not in ("[", "{", ","):
        del out[at]


def _escaped(found: re.Match[str]) -> str:
    if found[0] in "\n\r":
        return "\\n" if found[0] == "\n" else "\\r"
    return f"\\u00{found[1][1:]}" if len(found[1]) == 3 else found[0]


def _number(text: str) -> int | float:
    """An integer is one of 32 bits that is written as one; all else is a float."""
    if len(text) > LONGEST:
        raise ValueError("a number that is too long")
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number that is too large")
    whole = re.fullmatch(r"-?\d+", text) and text != "-0" and -(2**31) <= value < 2**31
    return int(text) if whole else value


def _none_such(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
