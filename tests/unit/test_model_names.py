"""Which files of a repository an inventory means: by path, by any part, or by a quantization."""

from __future__ import annotations

import pytest

from roles.lock import CannotPin
from roles.model import names

FILES = [
    "README.md",
    "mmproj-F16.gguf",
    "imatrix_unsloth.gguf",
    "m-Q4_K_M.gguf",
    "m-Q4_K_S.gguf",
    "m-UD-IQ2_M.gguf",
    "m.Q8_0.gguf",
    "Q6_K/m-Q6_K-00001-of-00002.gguf",
    "Q6_K/m-Q6_K-00002-of-00002.gguf",
    "BF16/m-00001-of-00003.gguf",
    "BF16/m-00003-of-00003.gguf",
]
SIX = ["Q6_K/m-Q6_K-00001-of-00002.gguf", "Q6_K/m-Q6_K-00002-of-00002.gguf"]


@pytest.mark.parametrize(
    ("wanted", "paths"),
    [
        ("m-Q4_K_M.gguf", ["m-Q4_K_M.gguf"]),
        ("Q4_K_M", ["m-Q4_K_M.gguf"]),
        ("q4_k_s", ["m-Q4_K_S.gguf"]),
        ("IQ2_M", ["m-UD-IQ2_M.gguf"]),
        ("UD-IQ2_M", ["m-UD-IQ2_M.gguf"]),
        ("Q8_0", ["m.Q8_0.gguf"]),
        ("Q6_K", SIX),
        (SIX[0], SIX),
        (SIX[1], SIX),
    ],
)
def test_a_path_a_part_or_a_quantization_names_one_model(wanted: str, paths: list[str]) -> None:
    assert names.chosen(wanted, FILES, "o/m at main") == paths


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("m-Q5_K_M.gguf", "o/m at main has no file 'm-Q5_K_M.gguf'; it has m-Q4_K_M.gguf, "),
        ("Q4_K", "o/m at main has no GGUF quantized as 'Q4_K'; it has "),
        ("F16", "o/m at main has no GGUF quantized as 'F16'; it has "),
        ("BF16", "o/m at main has 2 of the 3 parts of this model; it lacks BF16/m-00002-of-00003.gguf"),
        ("m", "o/m at main has 6 models that 'm' fits: BF16/m-00001-of-00003.gguf, "),
        ("Q6_K/m-Q6_K-00003-of-00003.gguf", "o/m at main has no file 'Q6_K/m-Q6_K-00003-of-00003.gguf'; it has Q6_K/"),
    ],
)
def test_what_fits_none_or_several_is_told_with_what_there_is(wanted: str, sentence: str) -> None:
    with pytest.raises(CannotPin) as told:
        names.chosen(wanted, FILES, "o/m at main")
    assert str(told.value).startswith(sentence)


def test_a_repository_without_a_gguf_is_told_so() -> None:
    with pytest.raises(CannotPin, match=r"has no GGUF quantized as 'Q4_0', nor any GGUF$"):
        names.chosen("Q4_0", ["README.md", "model.safetensors"], "o/m at main")
