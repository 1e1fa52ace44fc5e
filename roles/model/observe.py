"""The model file on the host, and what its sidecar says of it."""

from __future__ import annotations

from typing import Any

from roles.observation import Fragment, Seen
from roles.probe_tools import gguf_metadata, node, read


def look_at_model(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import json
    import os

    path = os.path.expanduser(ask["path"])
    header = gguf_metadata(path) if os.path.isfile(path) else None
    metadata = header or {}
    architecture = metadata.get("general.architecture")
    part = node(path + ".part")
    # Of another version, or not ours at all: as if there were none.
    try:
        sidecar = json.loads(read(path + ".json") or "null")
    except ValueError:
        sidecar = None
    kinds = {"sha256": str, "size": int, "mtime_ns": int}
    ours = isinstance(sidecar, dict) and all(isinstance(sidecar.get(name), kind) for name, kind in kinds.items())
    return {
        "path": path,
        "file": node(os.path.realpath(path)),
        "is_gguf": header is not None,
        "architecture": architecture,
        "trained_context": metadata.get(f"{architecture}.context_length"),
        "mla": f"{architecture}.attention.kv_lora_rank" in metadata,
        "sidecar": sidecar if ours else None,
        "part_size": part["size"] if part else 0,
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


class ModelSeen(Seen):
    """`path` is absolute; sizes in bytes. From the file's own header: `trained_context` in tokens, and whether its
    attention is compressed (MLA)."""

    path: str
    file: File | None
    is_gguf: bool
    architecture: str | None = None
    trained_context: int | None = None
    mla: bool = False
    sidecar: Sidecar | None
    part_size: int

    @property
    def verified(self) -> str | None:
        """The sha256 of the file as it stands, without reading it again; None where nobody has verified it."""
        if self.file is None or self.sidecar is None:
            return None
        same = (self.file.size, self.file.mtime_ns) == (self.sidecar.size, self.sidecar.mtime_ns)
        return self.sidecar.sha256 if same else None


def ask_for_model(wishes: Any) -> dict[str, Any]:
    """Where the model is, or shall be: a folder of its own per repository and commit, so that an update never
    replaces what still serves."""
    if wishes.model is None:
        return {"path": wishes.settings.model.model_path}
    folder = f"{wishes.model.repo.replace('/', '--')}/{wishes.model.commit[:12]}"
    return {"path": f"~/.local/share/paddock/models/{folder}/{wishes.model.file}"}


MODEL = Fragment("model", look_at_model, ask_for_model, ModelSeen)
