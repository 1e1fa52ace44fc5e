"""Where the header of a GGUF ends, and what it tells of the model: the gguf package reads it, from a file that holds
the header alone.

Format: github.com/ggml-org/ggml, docs/gguf.md. All numbers are little-endian.
"""

from __future__ import annotations

import re
import struct
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roles.wishes import Anatomy

VERSIONS = (2, 3)
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes by type
STRING, ARRAY = 8, 9
# Every layer of these has attention, over the whole context.
PLAIN = ("llama", "qwen2", "qwen2moe", "qwen3", "qwen3moe")
MOST = 1 << 20  # keys or tensors; more is not a model but a mistake


class Cut(Exception):
    """The header goes on beyond what was read."""


class NoModel(Exception):
    """This is not a GGUF that llama.cpp could load; the text says why, and reads on after the file's name."""


class Unknown(Exception):
    """The gguf package cannot read this; llama.cpp may be newer than that. The text says why."""


@dataclass(frozen=True)
class Header:
    """The header's length in bytes, that of the tensors' data by its tensor table, and the header without the
    tokenizer's lists: with 200,000 tokens the gguf package reads for 15 s."""

    length: int
    data: int
    lean: bytes


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise Cut
        self.at = end
        return self.data[end - size : end]

    def number(self, form: str) -> int:
        [value] = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(value)

    def text(self) -> str:
        return self.take(self.number("<Q")).decode("utf-8", "replace")

    def skip(self, kind: int) -> None:
        if kind == STRING:
            self.take(self.number("<Q"))
        elif kind == ARRAY:
            item, count = self.number("<I"), self.number("<Q")
            if item in SCALARS:
                self.take(SCALARS[item] * count)
            elif item == STRING:
                self.skip_strings(count)
            else:
                raise NoModel(f"has a list of the type {item} in its header, which llama.cpp does not read")
        elif kind in SCALARS:
            self.take(SCALARS[kind])
        else:
            raise NoModel(f"has a value of the unknown type {kind} in its header")

    def skip_strings(self, count: int) -> None:
        """Some hundred thousand, in a tokenizer's lists: so without a call of our own for each."""
        at, end, length = self.at, len(self.data) - 8, struct.Struct("<Q").unpack_from
        for _ in range(count):
            if at > end:
                raise Cut
            at += 8 + length(self.data, at)[0]
        if at > len(self.data):
            raise Cut
        self.at = at


def parsed(data: bytes, size: int) -> Header:
    """The header at the beginning of a file of `size` bytes. Raises Cut and NoModel."""
    import gguf

    file = _Reader(data)
    if file.take(4) != b"GGUF":
        raise NoModel("is not a GGUF: it does not begin like one")
    version, tensors, keys = file.number("<I"), file.number("<Q"), file.number("<Q")
    if version not in VERSIONS:
        raise NoModel(f"is a GGUF of version {version}, and llama.cpp reads {' and '.join(map(str, VERSIONS))}")
    if max(tensors, keys) > MOST:
        raise NoModel(f"is damaged: its header counts {keys} keys and {tensors} tensors")
    lean, alignment = [], 32
    for _ in range(keys):
        begin = file.at
        name, kind = file.text(), file.number("<I")
        value = file.at
        file.skip(kind)
        if name == "general.alignment" and kind == 4:
            [alignment] = struct.unpack_from("<I", data, value)
        if not (name.startswith("tokenizer.") and kind == ARRAY):
            lean.append(data[begin : file.at])
    begin, end = file.at, 0
    for _ in range(tensors):
        name = file.text()
        shape = [file.number("<Q") for _ in range(file.number("<I"))]
        kind, offset = file.number("<I"), file.number("<Q")
        elements = 1
        for dimension in shape:
            elements *= dimension
        if kind in set(gguf.GGMLQuantizationType):
            block, bytes_ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)]
            end = max(end, offset + elements // block * bytes_)
    start = -(-file.at // max(alignment, 1)) * alignment
    if tensors and start + end > size:
        raise NoModel(
            f"is cut off: its tensor table needs {start + end} bytes, and it has {size} by its entry in the lock"
        )
    head = b"GGUF" + struct.pack("<IQQ", version, tensors, len(lean))
    return Header(file.at, end, head + b"".join(lean) + data[begin : file.at])


def anatomy(headers: Iterable[Header]) -> Anatomy:
    """What the headers of all files of a model tell together, read by the gguf package. Raises NoModel and Unknown."""
    import gguf

    fields: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for header in headers:
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            file.write(header.lean)
            file.truncate(len(header.lean) + header.data + (1 << 20))  # sparse: the tensors are mapped, never read
            file.flush()
            try:
                reader = gguf.GGUFReader(Path(file.name))
            except (ValueError, KeyError, IndexError) as error:
                raise Unknown(str(error)) from error
        fields = {**{name: field.contents() for name, field in reader.fields.items()}, **fields}
        sizes |= {tensor.name: int(tensor.n_bytes) for tensor in reader.tensors}
    architecture = str(fields.get("general.architecture", ""))
    if not architecture:
        raise NoModel("does not name the architecture of a model")

    def number(name: str) -> int:
        value = fields.get(f"{architecture}.{name}")
        return value if isinstance(value, int) else 0

    layers = number("block_count")
    experts, dense, served = [0] * layers, 0, layers - number("nextn_predict_layers")
    for name, size in sizes.items():
        match = re.match(r"blk\.(\d+)\.(ffn_\w+_(?:ch)?exps\.|attn_kv_b\.)?", name)
        if match and match[2] and match[2].startswith("ffn") and int(match[1]) < layers:
            experts[int(match[1])] += size
        # attn_kv_b is another form of two tensors beside it, and what comes after the last layer may not be loaded.
        if (match and not match[2] and int(match[1]) < served) or re.match(r"output(_norm)?\.weight$", name):
            dense += size
    return Anatomy(
        architecture=architecture,
        layers=layers,
        experts=number("expert_count"),
        experts_used=number("expert_used_count"),
        expert_bytes=tuple(experts) if any(experts) else (),
        attention_bytes=sum(size for name, size in sizes.items() if re.match(r"blk\.\d+\.attn_(?!\w*norm)", name)),
        trained_context=number("context_length"),
        mla=f"{architecture}.attention.kv_lora_rank" in fields,
        dense_bytes=dense,
        cache_row=_cache_row(architecture, served, number),
        chat_template=str(fields.get("tokenizer.chat_template", "")),
    )


def _cache_row(architecture: str, layers: int, number: Callable[[str], int]) -> tuple[int, int]:
    """Elements of both caches for one token; nothing where llama.cpp may hold less than all layers have heads for."""
    heads = number("attention.head_count")
    if architecture not in PLAIN or not heads or number("attention.sliding_window"):
        return 0, 0
    width, kv_heads = number("embedding_length") // heads, number("attention.head_count_kv") or heads
    sides = [number(f"attention.{side}_length") or width for side in ("key", "value")]
    return layers * kv_heads * sides[0], layers * kv_heads * sides[1]
