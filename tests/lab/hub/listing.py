"""The JSON shapes in which the Hub's API describes files, trees and refs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.lab.hub.repo import File, Repo


def sibling(path: str, file: File, blobs: bool) -> dict[str, Any]:
    """A file as model_info lists it; its size and ids only when asked for (`?blobs=true`)."""
    if not blobs:
        return {"rfilename": path}
    entry: dict[str, Any] = {"rfilename": path, "blobId": file.git_oid, "size": file.size}
    if file.lfs:
        entry["lfs"] = {"sha256": file.sha256, "size": file.size, "pointerSize": file.pointer_size}
    return entry


def tree(files: dict[str, File], folder: str, recursive: bool) -> list[dict[str, Any]]:
    """The entries of a folder ("" for the root) as list_repo_tree reads them."""
    prefix = f"{folder}/" if folder else ""
    entries: dict[str, dict[str, Any]] = {}
    for path, file in files.items():
        if not path.startswith(prefix):
            continue
        parents = path[len(prefix) :].split("/")[:-1]
        for depth in range(1, len(parents) + 1 if recursive else min(len(parents), 1) + 1):
            name = prefix + "/".join(parents[:depth])
            oid = hashlib.sha1(f"tree {name}".encode(), usedforsecurity=False).hexdigest()
            entries[name] = {"type": "directory", "oid": oid, "size": 0, "path": name}
        if recursive or not parents:
            entries[path] = _tree_file(path, file)
    return [entries[name] for name in sorted(entries)]


def _tree_file(path: str, file: File) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "oid": file.git_oid, "size": file.size, "path": path}
    if file.lfs:
        entry["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": file.pointer_size}
    return entry


def refs(repo: Repo) -> dict[str, Any]:
    """Branches and tags as list_repo_refs reads them."""

    def entries(kind: str, named: dict[str, str]) -> list[dict[str, str]]:
        return [{"name": n, "ref": f"refs/{kind}/{n}", "targetCommit": commit} for n, commit in named.items()]

    return {"branches": entries("heads", repo.branches), "converts": [], "tags": entries("tags", repo.tags)}


def inventory(repo: Repo) -> dict[str, Any]:
    """Everything of a repository, for tests: its refs, and size and sha256 of every file of every commit."""
    commits = {
        commit: {path: {"size": file.size, "sha256": file.sha256} for path, file in files.items()}
        for commit, files in repo.commits.items()
    }
    return {"gated": repo.gated, "branches": repo.branches, "tags": repo.tags, "commits": commits}
