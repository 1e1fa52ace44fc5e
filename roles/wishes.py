"""What one host shall be: its settings, and the pins that they were resolved to. Known before the host is touched."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from roles.settings import Settings


@dataclass(frozen=True)
class Anatomy:
    """What the header of a GGUF tells before a weight is there: bytes, tokens of context, 0 where it is silent.

    `expert_bytes`: of each layer; `attention_bytes`: of all layers; `dense_bytes`: of all that a device holds when it
    holds every layer, but for the experts. `cache_row`: elements of the K and of the V cache for one token, where
    attention is a plain one. `mla`: attention is compressed.
    """

    architecture: str
    layers: int = 0
    experts: int = 0
    experts_used: int = 0
    expert_bytes: tuple[int, ...] = ()
    attention_bytes: int = 0
    trained_context: int = 0
    mla: bool = False
    dense_bytes: int = 0
    cache_row: tuple[int, int] = (0, 0)
    chat_template: str = field(default="", repr=False)

    def __str__(self) -> str:
        told = [self.architecture, f"{self.layers} layers"]
        if self.experts:
            told.append(f"{self.experts} experts" + (f", {self.experts_used} used" if self.experts_used else ""))
        if mean := sum(self.expert_bytes) // max(sum(size > 0 for size in self.expert_bytes), 1):
            told.append(f"{mean / 1e6:.1f} MB of experts a layer")
        if self.attention_bytes:
            told.append(f"{self.attention_bytes / 1e6:.1f} MB of attention")
        told.append(f"trained for {self.trained_context} tokens" if self.trained_context else "trained context unknown")
        return ", ".join([*told, "chat template" if self.chat_template else "no chat template"])


@dataclass(frozen=True)
class PinnedFile:
    """One file of a model: its path in the repository, bytes, sha256, and where to get it. A URL may be a secret."""

    path: str
    size: int
    sha256: str
    url: str = field(repr=False)


@dataclass(frozen=True)
class ModelPin:
    """A model that is downloaded: its files in llama.cpp's order, all in one folder on the host.

    `source` is told to people (owner/name, or a host); `folder` is its own below the models; `anatomy` is None as long
    as nobody has read the header.
    """

    source: str
    commit: str
    folder: str
    files: tuple[PinnedFile, ...]
    anatomy: Anatomy | None = None

    @property
    def file(self) -> str:
        """The path of the first file: the one that llama-server is given."""
        return self.files[0].path

    @property
    def size(self) -> int:
        return sum(one.size for one in self.files)

    @property
    def sha256(self) -> str:
        """Of the one file; of several, a digest of theirs."""
        if len(self.files) == 1:
            return self.files[0].sha256
        return hashlib.sha256(" ".join(one.sha256 for one in self.files).encode()).hexdigest()


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
    ready-made page, `toolkit` where the host's own CUDA toolkit is used. `locked`: the folders of all models in the
    lock, which are kept."""

    settings: Settings
    commit: str
    model: ModelPin | None
    patches: tuple[Patch, ...] = ()
    ui: UiPin | None = None
    toolkit: ToolkitPin | None = None
    locked: tuple[str, ...] = ()
