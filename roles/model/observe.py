"""The model's files on the host, what their sidecars say of them, and which other models were downloaded."""

from __future__ import annotations

from typing import Any

from roles.machine import MODELS
from roles.model.observe_stored import (
    HELPERS,
    below,
    downloads,
    paths_in,
    sidecar_of,
    texts_of_units,
    used_by_processes,
)
from roles.observation import Fragment, Seen
from roles.probe_tools import gguf_metadata, node


def look_at_model(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import os
    import re

    def file_at(path: str) -> dict[str, Any]:
        part, bad = node(path + ".part"), node(path + ".bad")
        return {
            "path": path,
            "file": node(os.path.realpath(path)),
            "sidecar": sidecar_of(path),
            "part_size": part["size"] if part else 0,
            "bad_size": bad["size"] if bad else 0,
        }

    path = os.path.expanduser(ask["path"])
    header = gguf_metadata(path) if os.path.isfile(path) else None
    metadata = header or {}
    architecture = metadata.get("general.architecture")
    shard = re.search(r"-00001-of-(\d{5})\.gguf$", path)
    parts = (
        [f"{path[:-20]}-{number:05}-of-{shard.group(1)}.gguf" for number in range(2, int(shard.group(1)) + 1)]
        if shard
        else []
    )
    root, stored = os.path.realpath(os.path.expanduser(ask["models"])), []
    for folder, files in downloads(root).items():
        nodes = [at for at in map(node, files) if at]
        newest = max([at["mtime_ns"] for at in nodes], default=0)
        stored.append({"folder": folder, "size": sum(at["size"] for at in nodes), "mtime_ns": newest})
    using = [path]
    if len(stored) > 1:  # or there is nothing to remove, and no need to ask all processes
        using += [one for text in texts_of_units() for one in paths_in(text)]
        using += used_by_processes(root)
    return {
        **file_at(path),
        "rest": [file_at(os.path.expanduser(one)) for one in ask["rest"]],
        "missing": [one for one in parts if not ask["rest"] and not os.path.exists(one)],
        "is_gguf": header is not None,
        "architecture": architecture,
        "layers": metadata.get(f"{architecture}.block_count"),
        "experts": metadata.get(f"{architecture}.expert_count"),
        "leading_dense": metadata.get(f"{architecture}.leading_dense_block_count") or 0,
        "trained_context": metadata.get(f"{architecture}.context_length"),
        "mla": f"{architecture}.attention.kv_lora_rank" in metadata,
        "stored": stored,
        "named": below(root, using),
    }


class File(Seen):
    """What stands at a path; size in bytes."""

    kind: str
    mode: int
    uid: int
    size: int
    mtime_ns: int


class Sidecar(Seen):
    """What was verified of a file when it was downloaded. Same size and mtime: the same bytes."""

    sha256: str
    size: int
    mtime_ns: int


class FileSeen(Seen):
    """One file of a model; `path` is absolute, `part_size` what has come of it so far, `bad_size` what came
    wrong and makes room when it must, in bytes."""

    path: str
    file: File | None
    sidecar: Sidecar | None = None
    part_size: int = 0
    bad_size: int = 0

    @property
    def verified(self) -> str | None:
        """The sha256 of the file as it stands, without reading it again; None where nobody has verified it."""
        if self.file is None or self.sidecar is None:
            return None
        same = (self.file.size, self.file.mtime_ns) == (self.sidecar.size, self.sidecar.mtime_ns)
        return self.sidecar.sha256 if same else None


class Stored(Seen):
    """A model that was downloaded, wanted now or not: its folder below the models, bytes, its newest file's time."""

    folder: str
    size: int
    mtime_ns: int


class ModelSeen(FileSeen):
    """The first file, and the `rest` of a model in several. `missing`: parts that a given one lacks. From the file's
    own header: `trained_context` in tokens, `leading_dense` layers without experts, and whether its attention is
    compressed (MLA). `named`: what units and processes use of the models that are `stored`: their folders, an owner's,
    or `.` for all."""

    rest: tuple[FileSeen, ...] = ()
    missing: tuple[str, ...] = ()
    is_gguf: bool
    architecture: str | None = None
    layers: int | None = None
    experts: int | None = None
    leading_dense: int = 0
    trained_context: int | None = None
    mla: bool = False
    stored: tuple[Stored, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[FileSeen, ...]:
        return (self, *self.rest)


def ask_for_model(wishes: Any) -> dict[str, Any]:
    """Where the model is, or shall be."""
    if wishes.model is None:
        return {"path": wishes.settings.model.model_path, "rest": [], "models": MODELS}
    first, *rest = [f"{MODELS}/{wishes.model.folder}/{one.path}" for one in wishes.model.files]
    return {"path": first, "rest": rest, "models": MODELS}


MODEL = Fragment("model", look_at_model, ask_for_model, ModelSeen, helpers=HELPERS)
