"""Two mixtures of experts for the GPU machine: a small one to serve, and the header of a big one to plan for.

The weights of the small one repeat, so that it packs into a few megabytes and is some hundreds once unpacked: enough
to tell a plan from the noise of a runtime. What it says means nothing.
"""

from __future__ import annotations

import gzip
import math
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests.lab.models import weights
from tests.unit.tiny_model import PIECES, Kind, Types

PERIOD = 8  # rows until the weights of a layer repeat


@dataclass(frozen=True)
class Shape:
    """A qwen3moe: how many and how wide."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    experts: int
    experts_used: int
    expert_width: int
    tokens: int


SERVED = Shape("GPU check", 12, 1024, 16, 4, 64, 32, 4, 512, 0)
# As Qwen3 30B-A3B and its kin; 122,880 tokens of it are what the smallest card is planned for.
PLANNED = Shape("GPU plan", 48, 2048, 32, 4, 128, 128, 8, 768, 151_936)
CONTEXT = 262_144


def tensors(shape: Shape, tokens: int) -> Iterator[tuple[str, tuple[int, ...], Kind]]:
    """Name, shape and type of every tensor, as Q4_K_M has them."""
    yield "token_embd.weight", (tokens, shape.width), Kind.Q4_K
    yield "output_norm.weight", (shape.width,), Kind.F32
    yield "output.weight", (tokens, shape.width), Kind.Q6_K
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        for name, rows in {"q": shape.heads, "k": shape.kv_heads, "v": shape.kv_heads}.items():
            yield f"{prefix}attn_{name}.weight", (rows * shape.head_dim, shape.width), Kind.Q4_K
        yield prefix + "attn_output.weight", (shape.width, shape.heads * shape.head_dim), Kind.Q4_K
        for name in ("attn_norm", "ffn_norm"):
            yield f"{prefix}{name}.weight", (shape.width,), Kind.F32
        for name in ("attn_q_norm", "attn_k_norm"):
            yield f"{prefix}{name}.weight", (shape.head_dim,), Kind.F32
        yield prefix + "ffn_gate_inp.weight", (shape.experts, shape.width), Kind.F32
        for name in ("gate", "up"):
            yield f"{prefix}ffn_{name}_exps.weight", (shape.experts, shape.expert_width, shape.width), Kind.Q4_K
        yield prefix + "ffn_down_exps.weight", (shape.experts, shape.width, shape.expert_width), Kind.Q6_K


def drawn(bits: np.random.PCG64, name: str, shape: tuple[int, ...], kind: Kind) -> Any:
    """Random weights. Those of vocabulary and router do not repeat: tokens and experts would tie."""
    if not name.startswith("blk.") or len(shape) == 1 or "ffn_gate_inp" in name:
        return weights(bits, shape, kind, 1.0 if len(shape) == 1 else 0.0)
    rows = weights(bits, (PERIOD, shape[-1]), kind, 0.0)
    count = math.prod(shape[:-1])
    return np.tile(rows, (-(-count // PERIOD), 1))[:count].reshape(*shape[:-1], -1)


def size_of(shape: tuple[int, ...], kind: Kind) -> int:
    """Bytes of a tensor."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    return math.prod(shape) // values * size


def write(path: Path, shape: Shape, with_weights: bool) -> int:
    """Write the model, or its header alone, to `path`; return the size in bytes that the whole file has."""
    writer = gguf.GGUFWriter(path, "qwen3moe")
    pieces = [*PIECES, *(f"<t{number}>" for number in range(shape.tokens - len(PIECES)))]
    describe(writer, shape)
    describe_vocabulary(writer, pieces)
    bits, whole = np.random.PCG64(0), 0
    for name, dimensions, kind in tensors(shape, len(pieces)):
        size = size_of(dimensions, kind)
        whole += writer.ggml_pad(size, gguf.GGUF_DEFAULT_ALIGNMENT)
        if with_weights:
            writer.add_tensor(name, drawn(bits, name, dimensions, kind), raw_dtype=kind)
        else:
            writer.add_tensor_info(name, list(dimensions), np.dtype(np.float32), size, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    if with_weights:
        writer.write_tensors_to_file()
    else:
        writer.write_ti_data_to_file()
    writer.close()
    if with_weights:
        return path.stat().st_size
    return int(writer.ggml_pad(path.stat().st_size, gguf.GGUF_DEFAULT_ALIGNMENT)) + whole


def describe(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_name(shape.name)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_K_M)
    writer.add_block_count(shape.layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.expert_width)
    writer.add_expert_feed_forward_length(shape.expert_width)
    writer.add_expert_count(shape.experts)
    writer.add_expert_used_count(shape.experts_used)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)


def describe_vocabulary(writer: gguf.GGUFWriter, pieces: list[str]) -> None:
    """Bytes, and as many further pieces as the shape wants."""
    further = len(pieces) - len(PIECES)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([0.0] * len(pieces))
    writer.add_token_types(
        [Types.UNKNOWN, Types.CONTROL, Types.CONTROL, *[Types.BYTE] * 256, *[Types.NORMAL] * (1 + further)]
    )
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def pack(out: Path, shape: Shape, with_weights: bool) -> int:
    """The file, compressed, the same on every machine; returns the bytes of the whole model."""
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        path = Path(folder) / "model.gguf"
        size = write(path, shape, with_weights)
        with path.open("rb") as plain, out.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
            shutil.copyfileobj(plain, packed, 1 << 20)
    return size
