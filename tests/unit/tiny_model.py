"""The model that proves a new release before it may serve: a mixture of experts with K-quants, as small as may be.

`python -m tests.unit.tiny_model` writes roles/llama_cpp/acceptance.gguf.gz anew. Its weights repeat, so that it packs
into some kilobytes; what it says means nothing, and saying it takes every kernel that a real one of its kind takes.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from roles.llama_cpp.decide import TINY_MODEL
from tests.lab.models import weights

LAYERS, EXPERTS, USED = 2, 4, 2
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 64  # quantized caches want a multiple of 32
WIDTH = 256  # one block of a K-quant
PERIOD = 8  # rows until the weights repeat
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581"]
Kind = gguf.GGMLQuantizationType
Types = gguf.TokenType


def shapes() -> Iterator[tuple[str, tuple[int, ...], Kind]]:
    """Name, shape and type of every tensor, as Q4_K_M has them."""
    yield "token_embd.weight", (len(PIECES), WIDTH), Kind.Q4_K
    yield "output_norm.weight", (WIDTH,), Kind.F32
    yield "output.weight", (len(PIECES), WIDTH), Kind.Q6_K
    for layer in range(LAYERS):
        for name, rows in {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}.items():
            yield f"blk.{layer}.attn_{name}.weight", (rows * HEAD_DIM, WIDTH), Kind.Q4_K
        yield f"blk.{layer}.attn_output.weight", (WIDTH, HEADS * HEAD_DIM), Kind.Q4_K
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", (WIDTH,), Kind.F32
        for name in ("attn_q_norm", "attn_k_norm"):
            yield f"blk.{layer}.{name}.weight", (HEAD_DIM,), Kind.F32
        yield f"blk.{layer}.ffn_gate_inp.weight", (EXPERTS, WIDTH), Kind.F32
        for name, kind in {"gate": Kind.Q4_K, "up": Kind.Q4_K, "down": Kind.Q6_K}.items():
            yield f"blk.{layer}.ffn_{name}_exps.weight", (EXPERTS, WIDTH, WIDTH), kind


def repeated(bits: np.random.PCG64, shape: tuple[int, ...], kind: Kind) -> Any:
    """Weights whose rows repeat."""
    if len(shape) == 1:
        return weights(bits, shape, kind, 1.0)
    rows = weights(bits, (PERIOD, shape[-1]), kind, 0.0)
    count = int(np.prod(shape[:-1]))
    return np.tile(rows, (-(-count // PERIOD), 1))[:count].reshape(*shape[:-1], -1)


def write(path: Path) -> None:
    writer = gguf.GGUFWriter(path, "qwen3moe")
    writer.add_name("Acceptance")
    writer.add_block_count(LAYERS)
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_expert_feed_forward_length(WIDTH)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_K_M)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(PIECES)
    writer.add_token_scores([0.0] * len(PIECES))
    writer.add_token_types([Types.UNKNOWN, Types.CONTROL, Types.CONTROL, *[Types.BYTE] * 256, Types.NORMAL])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    bits = np.random.PCG64(0)
    for name, shape, kind in shapes():
        writer.add_tensor(name, repeated(bits, shape, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def packed() -> bytes:
    """The file, compressed, the same on every machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "acceptance.gguf"
        write(path)
        return gzip.compress(path.read_bytes(), compresslevel=9, mtime=0)


if __name__ == "__main__":
    TINY_MODEL.write_bytes(packed())
