"""What one host shall be: its settings, and the pins that they were resolved to. Known before the host is touched."""

from __future__ import annotations

import hashlib
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
class Patch:
    """A change to llama.cpp's source: the name of its file, and its text."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class UiPin:
    """The page of one llama.cpp tag, ready-made: an archive, its sha256, and where to get it."""

    sha256: str
    url: str


@dataclass(frozen=True)
class Wheel:
    """One of the packages that NVIDIA's CUDA toolkit is made of on PyPI."""

    name: str
    version: str
    sha256: str
    url: str


@dataclass(frozen=True)
class ToolkitPin:
    """NVIDIA's CUDA toolkit as wheels; `version` as its nvcc tells it, as in 13.2."""

    version: str
    wheels: tuple[Wheel, ...]

    @property
    def folder(self) -> str:
        """Where it is on the host; other wheels are another folder."""
        digest = hashlib.sha256(" ".join(wheel.sha256 for wheel in self.wheels).encode()).hexdigest()
        return f"~/.local/share/paddock/toolkits/{self.version}-{digest[:8]}"


@dataclass(frozen=True)
class Wishes:
    """`commit` is llama.cpp's; `model` is None where the model is a file on the host already, `ui` where there is no
    ready-made page, `toolkit` where the host's own CUDA toolkit is used."""

    settings: Settings
    commit: str
    model: ModelPin | None
    patches: tuple[Patch, ...] = ()
    ui: UiPin | None = None
    toolkit: ToolkitPin | None = None
