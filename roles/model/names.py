"""Which files of a repository are meant: one by its path, the parts of one, or what a quantization's name fits."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from roles.lock import CannotPin
from roles.settings import SHARD


def chosen(wanted: str, files: Iterable[str], where: str) -> list[str]:
    """The paths of one model, in llama.cpp's order. `where` is told to people. Raises CannotPin."""
    models = sets(files)
    if wanted.endswith(".gguf"):
        found = [name for name in models if key(wanted) == name]
    else:
        found = [name for name in models if fits(wanted, name)]
    if not found:
        near = difflib.get_close_matches(wanted, [paths[0] for paths in models.values()], n=3, cutoff=0.3)
        near = near or [paths[0] for paths in models.values()][:3]
        what = f"no file {wanted!r}" if wanted.endswith(".gguf") else f"no GGUF quantized as {wanted!r}"
        raise CannotPin(
            f"{where} has {what}; it has {', '.join(near)}" if near else f"{where} has {what}, nor any GGUF"
        )
    if len(found) > 1:
        told = ", ".join(models[name][0] for name in found[:6])
        raise CannotPin(f"{where} has {len(found)} models that {wanted!r} fits: {told}; write the path of one of them")
    return whole(models[found[0]], where)


def sets(files: Iterable[str]) -> dict[str, list[str]]:
    """The models among the files of a repository: the parts of one together. Not what is no model of its own."""
    found: dict[str, list[str]] = {}
    for path in sorted(files):
        name = path.rsplit("/", 1)[-1].lower()
        if name.endswith(".gguf") and not name.startswith(("mmproj", "imatrix")):
            found.setdefault(key(path), []).append(path)
    return found


def key(path: str) -> str:
    """The same for all parts of one model: its path, without the number of the part."""
    return SHARD.sub(lambda match: f"-of-{match[2]}.gguf", path)


def fits(quantization: str, name: str) -> bool:
    """Whether the name holds the quantization as a word of its own: Q4_K is not in Q4_K_M."""
    word = rf"(?<![a-z0-9_]){re.escape(quantization.lower())}(?![a-z0-9_])"
    return re.search(word, name.removesuffix(".gguf").lower()) is not None


def family(path: str) -> str:
    """The first word of a model's name, as all quantizations of it begin with in most repositories."""
    return re.split(r"[-.]", path.rsplit("/", 1)[-1])[0].lower()


def whole(paths: list[str], where: str) -> list[str]:
    """The parts of a model, all of them. Raises CannotPin."""
    match = SHARD.search(paths[0])
    if match is None:
        return paths
    count = int(match[2])
    names = [SHARD.sub(f"-{number:05}-of-{match[2]}.gguf", paths[0]) for number in range(1, count + 1)]
    if missing := [name for name in names if name not in paths]:
        raise CannotPin(
            f"{where} has {len(paths)} of the {count} parts of this model; it lacks {', '.join(missing[:3])}"
        )
    return names
