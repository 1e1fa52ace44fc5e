"""What one host shall be: its settings, and the pins that they were resolved to. Known before the host is touched."""

from __future__ import annotations

from dataclasses import dataclass

from roles.settings import Settings


@dataclass(frozen=True)
class ModelPin:
    """A file on the Hub: which commit, how many bytes, which sha256, and where to get it."""

    repo: str
    file: str
    commit: str
    size: int
    sha256: str
    url: str


@dataclass(frozen=True)
class Wishes:
    """`commit` is llama.cpp's; `model` is None where the model is a file on the host already."""

    settings: Settings
    commit: str
    model: ModelPin | None
