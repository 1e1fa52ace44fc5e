"""The lab's models are what llama.cpp needs and what their names say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gguf
import numpy as np
import pytest

from tests.lab import models
from tests.lab.sdist import CACHE, sha256_of

if TYPE_CHECKING:
    from pathlib import Path

Kind = gguf.GGMLQuantizationType


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model, made now."""
    return models.tiny_moe(models.default_vocab(), tmp_path_factory.mktemp("models") / models.TINY_MOE_FILE)


@pytest.fixture(scope="module")
def reader(tiny: Path) -> gguf.GGUFReader:
    """The tiny model, opened by the gguf package."""
    return gguf.GGUFReader(tiny)


def value(reader: gguf.GGUFReader, key: str) -> object:
    """One metadata value."""
    return reader.fields[key].contents()


def test_the_tiny_model_is_a_mixture_of_experts_of_under_40_megabytes(tiny: Path, reader: gguf.GGUFReader) -> None:
    assert tiny.stat().st_size < 40_000_000
    assert value(reader, "general.architecture") == "qwen3moe"
    assert value(reader, "qwen3moe.block_count") == models.LAYERS == 6
    assert value(reader, "qwen3moe.expert_count") == models.EXPERTS == 8
    assert value(reader, "qwen3moe.expert_used_count") == models.EXPERTS_USED == 2


def test_its_key_value_cache_can_be_quantized(reader: gguf.GGUFReader) -> None:
    # Quantized blocks of the cache hold 32 values of one head.
    assert int(str(value(reader, "qwen3moe.attention.key_length"))) % 32 == 0
    assert int(str(value(reader, "qwen3moe.attention.value_length"))) % 32 == 0


def test_its_experts_and_its_attention_are_k_quants(reader: gguf.GGUFReader) -> None:
    kinds = {tensor.name: tensor.tensor_type for tensor in reader.tensors}
    for layer in range(models.LAYERS):
        assert kinds[f"blk.{layer}.attn_q.weight"] == Kind.Q4_K
        assert kinds[f"blk.{layer}.attn_v.weight"] == Kind.Q6_K
        assert kinds[f"blk.{layer}.ffn_up_exps.weight"] == Kind.Q4_K
        assert kinds[f"blk.{layer}.ffn_down_exps.weight"] == Kind.Q6_K


def test_every_layer_has_the_tensors_that_llama_cpp_moves_by_n_cpu_moe(reader: gguf.GGUFReader) -> None:
    names = {tensor.name for tensor in reader.tensors}
    for layer in range(models.LAYERS):
        assert {f"blk.{layer}.ffn_{part}_exps.weight" for part in ("gate", "up", "down")} <= names


@pytest.mark.parametrize("name", ["token_embd.weight", "output.weight", "blk.3.ffn_down_exps.weight"])
def test_its_quantized_weights_are_small_and_centred_on_zero(reader: gguf.GGUFReader, name: str) -> None:
    tensor = next(tensor for tensor in reader.tensors if tensor.name == name)
    weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    assert np.isfinite(weights).all()
    assert abs(weights.mean()) < 0.002
    assert weights.std() == pytest.approx(models.SPREAD, rel=0.05)


def test_the_merges_of_its_vocabulary_make_tokens_that_it_has(reader: gguf.GGUFReader) -> None:
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = reader.fields["tokenizer.ggml.merges"].contents()
    assert [merge.replace(" ", "") for merge in merges] == tokens[256 : models.BASE_TOKENS]
    assert tokens[models.BASE_TOKENS :] == models.SPECIAL_TOKENS
    assert tokens[int(str(value(reader, "tokenizer.ggml.eos_token_id")))] == "<|im_end|>"


def test_it_comes_out_the_same_every_time_and_differs_by_seed(tiny: Path, tmp_path: Path) -> None:
    other = models.tiny_moe(models.default_vocab(), tmp_path / "other.gguf", seed=1)
    assert sha256_of(tiny) == models.TINY_MOE_SHA256
    assert sha256_of(other) != sha256_of(tiny)
    assert other.stat().st_size == tiny.stat().st_size


def test_a_failure_leaves_no_half_a_model(tmp_path: Path) -> None:
    nothing = tmp_path / "vocab.gguf"
    nothing.write_bytes(b"GGUF")
    before = sorted(tmp_path.iterdir())
    with pytest.raises((ValueError, IndexError)):
        models.tiny_moe(nothing, tmp_path / "out.gguf")
    assert sorted(tmp_path.iterdir()) == before


def test_the_real_model_is_the_pinned_one() -> None:
    if not (models.MODELS / models.GEMMA_FILE).exists():
        pytest.skip(f"{models.GEMMA_FILE} (253 MB) is not in {CACHE} yet: python -m tests.lab.models fetches it")
    assert sha256_of(models.cached_gemma()) == models.GEMMA_SHA256
