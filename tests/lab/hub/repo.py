"""Repositories of the lab's Hub: files, commits and refs, with ids that are the same on every run."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from tests.lab.sdist import sha256_of

if TYPE_CHECKING:
    from pathlib import Path

HEX = set("0123456789abcdef")


@dataclass(frozen=True)
class File:
    """One file of a commit: kept by LFS when it lies on the disk (weights), by git when it is given as bytes."""

    size: int  # bytes
    sha256: str
    git_oid: str  # of the content, or of the LFS pointer
    content: bytes | Path
    pointer_size: int | None = None  # bytes; None: not kept by LFS

    @classmethod
    def of(cls, content: bytes | Path) -> File:
        """Measure `content`: a path becomes an LFS file, bytes become a plain one."""
        if isinstance(content, bytes):
            return cls(len(content), hashlib.sha256(content).hexdigest(), _git_oid(content), content)
        size, digest = content.stat().st_size, sha256_of(content)
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {size}\n".encode()
        return cls(size, digest, _git_oid(pointer), content, len(pointer))

    @property
    def lfs(self) -> bool:
        """Whether the Hub redirects to its CDN for this file."""
        return self.pointer_size is not None

    def open(self) -> BinaryIO:
        """The content, to be read and closed by the caller."""
        return io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open("rb")


def _git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclass
class Repo:
    """A model repository. `gated`: files need an accepted token; `private`: all of it does."""

    name: str  # "org/name"
    gated: bool = False
    private: bool = False
    commits: dict[str, dict[str, File]] = field(default_factory=dict)  # commit id: path: file
    branches: dict[str, str] = field(default_factory=dict)  # name: commit id
    tags: dict[str, str] = field(default_factory=dict)

    def commit(self, files: dict[str, bytes | Path | File], branch: str = "main", tag: str | None = None) -> str:
        """Make a commit that holds exactly `files`, move `branch` to it, and return its id (40 hex digits)."""
        tree = {path: f if isinstance(f, File) else File.of(f) for path, f in sorted(files.items())}
        listing = "".join(f"{file.git_oid} {path}\n" for path, file in tree.items())
        text = f"repo {self.name}\nparent {self.branches.get(branch, '')}\n{listing}"
        commit = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.commits[commit] = tree
        self.branches[branch] = commit
        if tag is not None:
            self.tags[tag] = commit
        return commit

    def move(self, branch: str, commit: str) -> None:
        """Point `branch` at another commit of this repository. Raises KeyError when there is no such commit."""
        if commit not in self.commits:
            raise KeyError(f"{self.name} has no commit {commit}")
        self.branches[branch] = commit

    def resolve(self, revision: str) -> str | None:
        """The commit id that a branch, a tag or the beginning of a commit id means; None when nothing fits."""
        if found := self.branches.get(revision) or self.tags.get(revision):
            return found
        if len(revision) >= 7 and set(revision) <= HEX:
            matches = [commit for commit in self.commits if commit.startswith(revision)]
            return matches[0] if len(matches) == 1 else None
        return None
