"""A GGUF's header from its bytes: what is read of them, where they are cut, and why some are refused."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from roles.model import gguf_header
from roles.model.gguf_header import Cut, NoModel
from tests.lab import small_gguf


def test_every_cut_of_a_header_is_known_as_one(tmp_path: Path) -> None:
    data = small_gguf.write(tmp_path / "a.gguf").read_bytes()
    length = gguf_header.parsed(data, len(data)).length
    for end in range(0, length, 17):
        with pytest.raises(Cut):
            gguf_header.parsed(data[:end], len(data))
    assert gguf_header.parsed(data[:length], len(data)).length == length


@pytest.mark.parametrize(
    ("at", "patch", "sentence"),
    [
        (0, b"GGML", "is not a GGUF: it does not begin like one"),
        (4, struct.pack("<I", 1), "is a GGUF of version 1, and llama.cpp reads 2 and 3"),
        (4, struct.pack("<I", 0x03000000), "is a GGUF of version 50331648"),
        (8, struct.pack("<Q", 1 << 60), "is damaged: its header counts"),
        (16, struct.pack("<Q", 1 << 60), "is damaged: its header counts"),
    ],
)
def test_a_header_that_llama_cpp_would_not_read_is_told(tmp_path: Path, at: int, patch: bytes, sentence: str) -> None:
    data = bytearray(small_gguf.write(tmp_path / "a.gguf").read_bytes())
    data[at : at + len(patch)] = patch
    with pytest.raises(NoModel, match=sentence):
        gguf_header.parsed(bytes(data), len(data))


def test_lists_of_lists_are_no_header_however_deep() -> None:
    """llama.cpp refuses a list in a list (ggml/src/gguf.cpp); whoever follows them all runs out of stack."""
    deep = struct.pack("<IQ", 9, 1) * 50_000
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"a" + struct.pack("<I", 9) + deep
    with pytest.raises(NoModel, match="has a list of the type 9 in its header, which llama"):
        gguf_header.parsed(data, len(data))


def test_a_header_without_a_tensor_needs_no_room_behind_it(tmp_path: Path) -> None:
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)
    assert (len(data) % 32, gguf_header.parsed(data, len(data)).data) == (24, 0)


def test_a_quantization_that_is_newer_than_the_gguf_package_is_no_obstacle(tmp_path: Path) -> None:
    data = bytearray(small_gguf.write(tmp_path / "a.gguf").read_bytes())
    name = b"blk.0.attn_norm.weight"
    at = data.index(name) + len(name)
    [dimensions] = struct.unpack_from("<I", data, at)
    struct.pack_into("<I", data, at + 4 + 8 * dimensions, 250)
    header_ = gguf_header.parsed(bytes(data), len(data))
    with pytest.raises(gguf_header.Unknown, match="is not a valid GGMLQuantizationType"):
        gguf_header.anatomy([header_])


def test_compressed_attention_is_told(tmp_path: Path) -> None:
    data = small_gguf.write(tmp_path / "a.gguf", mla=True).read_bytes()
    assert gguf_header.anatomy([gguf_header.parsed(data, len(data))]).mla
