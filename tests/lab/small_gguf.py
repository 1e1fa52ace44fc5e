"""Small files that are whole GGUFs: a mixture of experts with weights of zeros, in one file or in several."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

TRAINED = 40_960  # tokens
LAYERS, EXPERTS = 4, 8
EXPERT_BYTES = EXPERTS * 64 * 64 * 4 * 3  # of a layer: gate, up and down in F32
ATTENTION_BYTES = LAYERS * 64 * 64 * 4  # q alone
DENSE_BYTES = ATTENTION_BYTES + LAYERS * (64 + 64 * 64) * 4  # and the norm, and the shared expert
CACHE_ROW = (LAYERS * 32, LAYERS * 32)  # one head


def write(path: Path, tokens: int = 100, part: int = 0, parts: int = 1, mla: bool = False, fill: int = 0) -> Path:
    """A model, or one part of it: the first has the metadata, the layers are dealt out. `tokens` make the header long,
    `fill` makes files differ."""
    writer = gguf.GGUFWriter(path, "qwen3moe")
    if part == 0:
        writer.add_name("small")
        writer.add_block_count(LAYERS)
        writer.add_context_length(TRAINED)
        writer.add_embedding_length(64)
        writer.add_head_count(2)
        writer.add_head_count_kv(1)
        writer.add_expert_count(EXPERTS)
        writer.add_expert_used_count(2)
        if mla:
            writer.add_kv_lora_rank(512)
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list([f"token {number}" for number in range(tokens)])
        writer.add_token_merges([f"a{number} b" for number in range(tokens)])
        writer.add_chat_template("{{ messages }}")
    if parts > 1:
        writer.add_uint16("split.no", part)
        writer.add_uint16("split.count", parts)
    for layer in range(part, LAYERS, parts):
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", np.full(64, fill, np.float32))
        writer.add_tensor(f"blk.{layer}.attn_q.weight", np.full((64, 64), fill, np.float32))
        for name in ("gate", "up", "down"):
            writer.add_tensor(f"blk.{layer}.ffn_{name}_exps.weight", np.full((EXPERTS, 64, 64), fill, np.float32))
        writer.add_tensor(f"blk.{layer}.ffn_gate_shexp.weight", np.full((64, 64), fill, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def shards(folder: Path, name: str, count: int = 3) -> dict[str, Path]:
    """All parts of one model by their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{name}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]
    return {one: write(folder / one, part=at, parts=count) for at, one in enumerate(names)}
