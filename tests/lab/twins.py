"""Headers of models of several kinds, as llama.cpp names them, and nothing after them: files of the whole size.

The planner is asked about those. llama-server loads them too, with weights of zeros, and takes the same memory as for
any other weights. Keys and tensors are what the pinned llama.cpp's src/models/*.cpp reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

from tests.gpu import models
from tests.unit.tiny_model import PIECES, Kind

Tensor = tuple[str, tuple[int, ...], Kind]
Value = int | float | list[int]

WIDTH, HEADS, KV_HEADS, HEAD_DIM, EXPERTS, EXPERT_WIDTH = 512, 8, 2, 64, 16, 256
COMMON: dict[str, Value] = {
    "context_length": 262_144,
    "embedding_length": WIDTH,
    "feed_forward_length": 1024,
    "expert_feed_forward_length": EXPERT_WIDTH,
    "expert_count": EXPERTS,
    "expert_used_count": 4,
    "attention.head_count": HEADS,
    "attention.head_count_kv": KV_HEADS,
    "attention.key_length": HEAD_DIM,
    "attention.value_length": HEAD_DIM,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 1e6,
}


@dataclass(frozen=True)
class Twin:
    """A model: its architecture, its keys without that prefix, its tensors, and how many tokens it knows."""

    arch: str
    keys: dict[str, Value]
    tensors: tuple[Tensor, ...]
    tokens: int = 4096

    @property
    def layers(self) -> int:
        layers = self.keys["block_count"]
        assert isinstance(layers, int)
        return layers

    def write(self, path: Path) -> Path:
        """The header at `path`, and holes up to the size that it declares."""
        writer = gguf.GGUFWriter(path, self.arch)
        for key, value in self.keys.items():
            name = f"{self.arch}.{key}"
            if isinstance(value, list):
                writer.add_array(name, value)
            elif isinstance(value, float):
                writer.add_float32(name, value)
            else:
                writer.add_uint32(name, value)
        known = PIECES[: self.tokens]
        models.describe_vocabulary(writer, [*known, *(f"<t{number}>" for number in range(self.tokens - len(known)))])
        whole = 0
        for name, shape, kind in self.tensors:
            size = models.size_of(shape, kind)
            whole += writer.ggml_pad(size, gguf.GGUF_DEFAULT_ALIGNMENT)
            writer.add_tensor_info(name, list(shape), np.dtype(np.float32), size, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        writer.close()
        os.truncate(path, writer.ggml_pad(path.stat().st_size, gguf.GGUF_DEFAULT_ALIGNMENT) + whole)
        return path


def ends(tokens: int) -> Iterator[Tensor]:
    yield "token_embd.weight", (tokens, WIDTH), Kind.Q4_K
    yield "output_norm.weight", (WIDTH,), Kind.F32
    yield "output.weight", (tokens, WIDTH), Kind.Q6_K


def experts(prefix: str) -> Iterator[Tensor]:
    yield prefix + "ffn_gate_inp.weight", (EXPERTS, WIDTH), Kind.F32
    yield prefix + "ffn_gate_exps.weight", (EXPERTS, EXPERT_WIDTH, WIDTH), Kind.Q4_K
    yield prefix + "ffn_up_exps.weight", (EXPERTS, EXPERT_WIDTH, WIDTH), Kind.Q4_K
    yield prefix + "ffn_down_exps.weight", (EXPERTS, WIDTH, EXPERT_WIDTH), Kind.Q6_K


def dense(prefix: str, width: int, ending: str = "") -> Iterator[Tensor]:
    """A feed-forward network that every token goes through; `ending`: _shexp, where experts are beside it."""
    for name in ("gate", "up"):
        yield f"{prefix}ffn_{name}{ending}.weight", (width, WIDTH), Kind.Q4_K
    yield f"{prefix}ffn_down{ending}.weight", (WIDTH, width), Kind.Q4_K


def attention(prefix: str, queries: int = HEADS) -> Iterator[Tensor]:
    for name, rows in {"q": queries, "k": KV_HEADS, "v": KV_HEADS}.items():
        yield f"{prefix}attn_{name}.weight", (rows * HEAD_DIM, WIDTH), Kind.Q4_K
    yield prefix + "attn_output.weight", (WIDTH, HEADS * HEAD_DIM), Kind.Q4_K


def norms(prefix: str, *names: str, width: int = WIDTH) -> Iterator[Tensor]:
    for name in names:
        yield f"{prefix}{name}.weight", (width,), Kind.F32


def recurrent() -> Twin:
    """qwen35moe: of four layers, one has attention, and three keep a state that no context makes longer."""
    layers, kernel, state, groups, steps = 8, 4, 64, 4, 8
    inner, mixed = steps * state, 2 * groups * state + steps * state
    keys = {
        **COMMON,
        "block_count": layers,
        "full_attention_interval": 4,
        "expert_shared_feed_forward_length": EXPERT_WIDTH,
        "rope.dimension_count": 32,
        "rope.dimension_sections": [6, 5, 5, 0],
        "ssm.conv_kernel": kernel,
        "ssm.inner_size": inner,
        "ssm.state_size": state,
        "ssm.time_step_rank": steps,
        "ssm.group_count": groups,
    }

    def tensors() -> Iterator[Tensor]:
        yield from ends(Twin.tokens)
        for layer in range(layers):
            prefix = f"blk.{layer}."
            yield from norms(prefix, "attn_norm", "post_attention_norm")
            if layer % 4 == 3:
                yield from attention(prefix, 2 * HEADS)  # and a gate for each
                yield from norms(prefix, "attn_q_norm", "attn_k_norm", width=HEAD_DIM)
            else:
                yield prefix + "attn_qkv.weight", (mixed, WIDTH), Kind.Q4_K
                yield prefix + "attn_gate.weight", (inner, WIDTH), Kind.Q4_K
                yield prefix + "ssm_conv1d.weight", (mixed, kernel), Kind.F32
                yield prefix + "ssm_dt.bias", (steps,), Kind.F32
                yield prefix + "ssm_a", (steps,), Kind.F32
                yield prefix + "ssm_beta.weight", (steps, WIDTH), Kind.Q4_K
                yield prefix + "ssm_alpha.weight", (steps, WIDTH), Kind.Q4_K
                yield from norms(prefix, "ssm_norm", width=state)
                yield prefix + "ssm_out.weight", (WIDTH, inner), Kind.Q4_K
            yield from experts(prefix)
            yield from norms(prefix, "ffn_gate_inp_shexp")
            yield from dense(prefix, EXPERT_WIDTH, "_shexp")

    return Twin("qwen35moe", keys, tuple(tensors()))


def sliding_window() -> Twin:
    """gpt-oss: every second layer sees the last 128 tokens alone."""
    layers = 8
    keys = {**COMMON, "block_count": layers, "attention.sliding_window": 128, "rope.dimension_count": HEAD_DIM}

    def tensors() -> Iterator[Tensor]:
        yield from ends(Twin.tokens)
        for layer in range(layers):
            prefix = f"blk.{layer}."
            yield from norms(prefix, "attn_norm", "post_attention_norm")
            yield from attention(prefix)
            yield prefix + "attn_output.bias", (WIDTH,), Kind.F32
            yield from norms(prefix, "attn_sinks", width=HEADS)
            yield from experts(prefix)
            yield prefix + "ffn_gate_inp.bias", (EXPERTS,), Kind.F32
            for name, width in {"gate": EXPERT_WIDTH, "up": EXPERT_WIDTH, "down": WIDTH}.items():
                yield f"{prefix}ffn_{name}_exps.bias", (EXPERTS, width), Kind.F32

    return Twin("gpt-oss", keys, tuple(tensors()))


def compressed() -> Twin:
    """deepseek2: one compressed row per token (MLA) instead of keys and values; the first layer has no experts."""
    layers, queries, compressed, rotated, plain, values = 6, 256, 256, 32, 64, 64
    keys = {
        **COMMON,
        "block_count": layers,
        "leading_dense_block_count": 1,
        "expert_shared_count": 1,
        "expert_weights_scale": 1.0,
        "attention.head_count_kv": 1,
        "attention.q_lora_rank": queries,
        "attention.kv_lora_rank": compressed,
        "attention.key_length": compressed + rotated,
        "attention.value_length": compressed,
        "attention.key_length_mla": plain + rotated,
        "attention.value_length_mla": values,
        "rope.dimension_count": rotated,
    }

    def tensors() -> Iterator[Tensor]:
        yield from ends(Twin.tokens)
        for layer in range(layers):
            prefix = f"blk.{layer}."
            yield from norms(prefix, "attn_norm", "ffn_norm")
            yield from norms(prefix, "attn_q_a_norm", width=queries)
            yield from norms(prefix, "attn_kv_a_norm", width=compressed)
            yield prefix + "attn_q_a.weight", (queries, WIDTH), Kind.Q4_K
            yield prefix + "attn_q_b.weight", (HEADS * (plain + rotated), queries), Kind.Q4_K
            yield prefix + "attn_kv_a_mqa.weight", (compressed + rotated, WIDTH), Kind.Q4_K
            yield prefix + "attn_k_b.weight", (HEADS, compressed, plain), Kind.Q8_0
            yield prefix + "attn_v_b.weight", (HEADS, values, compressed), Kind.Q4_K
            yield prefix + "attn_output.weight", (WIDTH, HEADS * values), Kind.Q4_K
            if layer == 0:
                yield from dense(prefix, 1024)
            else:
                yield from experts(prefix)
                yield from dense(prefix, EXPERT_WIDTH, "_shexp")

    return Twin("deepseek2", keys, tuple(tensors()))


def big(dense: Kind = Kind.Q6_K, experts: Kind = Kind.IQ2_XXS) -> Twin:
    """As Qwen3 30B-A3B, its experts at two bits: 8.4 GB that nobody needs to have."""
    shape = models.PLANNED
    kinds = {Kind.F32: Kind.F32, Kind.Q4_K: dense, Kind.Q6_K: dense}
    keys: dict[str, Value] = {
        **COMMON,
        "block_count": shape.layers,
        "embedding_length": shape.width,
        "feed_forward_length": shape.expert_width,
        "expert_feed_forward_length": shape.expert_width,
        "expert_count": shape.experts,
        "expert_used_count": shape.experts_used,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head_dim,
        "attention.value_length": shape.head_dim,
    }
    tensors = (
        (name, dimensions, experts if "_exps" in name else kinds[kind])
        for name, dimensions, kind in models.tensors(shape, shape.tokens)
    )
    return Twin("qwen3moe", keys, tuple(tensors), shape.tokens)
