"""The lock: what a tag, a branch or a file on the Hub was resolved to, in a YAML file beside the inventory.

Later runs use it and ask nobody; `make update-pins` moves it. Written when a run begins to execute, never in a dry run.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError
from pyinfra.api import Inventory

HEADER = "# Written by Paddock: what each ref and file was resolved to. `make update-pins` moves it.\n"


T = TypeVar("T")


class CannotPin(Exception):
    """A ref or a file could not be resolved; the text says why and what to do."""


class LockError(Exception):
    """The lock file cannot be used; the text says why."""


class Lock:
    """Entries by kind and name. Missing file: empty."""

    def __init__(self, path: Path, empty: bool = False) -> None:
        """`empty`: as if the file had no entries, so that everything is resolved anew."""
        self.path = path
        self.changed = False
        self._entries = {} if empty else self._read()

    def _read(self) -> dict[str, dict[str, Any]]:
        if not self.path.exists():
            return {}
        try:
            entries = yaml.safe_load(self.path.read_text("utf-8")) or {}
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise LockError(f"{self.path} cannot be read: {' '.join(str(error).split())}") from error
        if not isinstance(entries, dict) or not all(isinstance(kind, dict) for kind in entries.values()):
            raise LockError(
                f"{self.path} is not a lock file; restore it, or delete it to have everything resolved anew"
            )
        return entries

    def get(self, kind: str, name: str, form: type[T]) -> T | None:
        """What a name was resolved to; None where it was not. Raises LockError where somebody broke the entry."""
        value = self._entries.get(kind, {}).get(name)
        if value is None:
            return None
        try:
            return TypeAdapter(form).validate_python(value)
        except ValidationError:
            raise LockError(f"{self.path}: the entry {name!r} under {kind} is not whole; delete it") from None

    def names(self, kind: str) -> list[str]:
        """The names of all entries of a kind."""
        return list(self._entries.get(kind, {}))

    def put(self, kind: str, name: str, value: Any) -> None:
        self._entries.setdefault(kind, {})[name] = value
        self.changed = True

    def update(self, other: Lock, whole: bool = False) -> list[str]:
        """Take over another lock's entries; returns a line per entry that is new or another one, old -> new. `whole`:
        entries that the other has not are dropped, and told as well."""
        told = []
        for kind, entries in other._entries.items():
            for name, value in entries.items():
                old = self._entries.get(kind, {}).get(name)
                if old != value:
                    told.append(f"{kind} {name}: {_shown(old)} -> {_shown(value)}")
                    self.put(kind, name, value)
        for kind, entries in self._entries.items() if whole else ():
            for name in entries.keys() - other._entries.get(kind, {}).keys():
                told.append(f"{kind} {name}: {_shown(entries.pop(name))} -> none")
                self.changed = True
        return told

    def save(self) -> None:
        """Atomic; does nothing where nothing was resolved."""
        if not self.changed:
            return
        draft = self.path.with_name(self.path.name + ".new")
        draft.write_text(HEADER + yaml.safe_dump(self._entries, sort_keys=True), "utf-8")
        draft.replace(self.path)
        self.changed = False


def _shown(value: Any) -> str:
    """An entry in a few words: commits and digests by their beginning."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        return " ".join(f"{name} {_shown(one)}" for name, one in value.items() if name != "url")
    if isinstance(value, list):
        return ", ".join(_shown(one) for one in value)
    text = str(value)
    return text[:12] if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text) else text


def inventory_file(inventory: Inventory) -> Path | None:
    """The file that this run's inventory was read from; None for a list of hosts. pyinfra keeps its name as a group."""
    for word in sys.argv[1:]:
        path = Path(word)
        if path.suffix == ".py" and path.stem in inventory.groups and path.is_file():
            return path
    return None


def beside(inventory: Inventory) -> Path:
    """Where the lock of this run's inventory is: beside the file, or in the working directory for a list of hosts."""
    path = inventory_file(inventory)
    return path.with_suffix(".lock.yml") if path else Path("paddock.lock.yml")
