"""Small repositories for tests that need a Hub in the same process: a few megabytes of noise, no real models."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.hub.repo import File, Repo
from tests.lab.hub.server import Hub

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 3_000_001  # bytes of every weights file: not a round number, some 46 pieces
MODEL = "lab/model"
WEIGHTS = "model-Q4_K_M.gguf"
NESTED = "Q8_0/model Q8+0.gguf"  # a folder and characters that URLs quote
README = b"# A model for tests\n"


def noise(folder: Path, name: str) -> Path:
    """A file of SIZE bytes that depend on `name` alone and begin like a GGUF."""
    out = folder / name
    blocks = (hashlib.sha512(f"{name} {n}".encode()).digest() for n in range(SIZE // 64 + 1))
    out.write_bytes((b"GGUF" + b"".join(blocks))[:SIZE])
    return out


def sample_repos(folder: Path) -> list[Repo]:
    """`lab/model` (branch `next` holds other weights, tag `v1` is the first commit), `lab/gated`, `lab/private`."""
    weights, other = File.of(noise(folder, "weights")), File.of(noise(folder, "other"))
    model = Repo(MODEL)
    files: dict[str, bytes | Path | File] = {"README.md": README, WEIGHTS: weights, NESTED: weights}
    model.commit({"README.md": b"# Empty\n"}, tag="v1")
    model.commit(files)
    model.commit({**files, WEIGHTS: other}, branch="next")
    gated, private = Repo("lab/gated", gated=True), Repo("lab/private", private=True)
    gated.commit(files)
    private.commit(files)
    return [model, gated, private]


@contextmanager
def sample_hub(folder: Path, **options: Any) -> Iterator[Hub]:
    """A running Hub with the sample repositories, whose CDN is another host. Fails if the lab itself made a mistake."""
    with Hub(
        sample_repos(folder), cdn=("127.0.0.2", 0), renames={"lab/old": MODEL, "lab/old-gated": "lab/gated"}, **options
    ) as hub:
        yield hub
    assert hub.failures == []
