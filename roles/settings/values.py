"""Values as people write them: sizes, shares, durations, one-line texts."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

Auto = Literal["auto"]
SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
TIME_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def size_in_bytes(text: str, of: int | None = None) -> int:
    """`24G` as bytes; K, M, G and T count by 1024, as in systemd. `85%` is a share of `of` bytes. Raises ValueError."""
    if share := re.fullmatch(r"([0-9]{1,2}|100)%", text):
        if of is None:
            raise ValueError(f"{text!r} is a share; write a size, as in 24G")
        return of * int(share[1]) // 100 >> 20 << 20
    match = re.fullmatch(r"([0-9]+)([KMGT]?)", text)
    if match is None:
        raise ValueError(f"{text!r} is not a size; write digits and K, M, G or T, as in 24G (systemd ignores 24GB)")
    return int(match[1]) * SIZE_UNITS[match[2]]


def seconds(text: str) -> int:
    """`2h` as seconds; the units are s, min, h and d. Raises ValueError."""
    match = re.fullmatch(r"([0-9]+)(s|min|h|d)", text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not a duration; write digits and s, min, h or d, as in 2h")
    return int(match[1]) * TIME_UNITS[match[2]]


def check_size(text: str) -> str:
    size_in_bytes(text)
    return text


def check_size_or_share(text: str) -> str:
    size_in_bytes(text, of=0)
    return text


def check_duration(text: str) -> str:
    seconds(text)
    return text


def check_one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line without control characters")
    if text.startswith("-"):
        raise ValueError("must not begin with a dash: it would be read as an option")
    return text


def check_host_path(text: str) -> str:
    if not text.startswith(("/", "~/")):
        raise ValueError("must begin with / or with ~/ (the home of the host's user)")
    return text


def check_word(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line without control characters")
    return text


def check_toolkit(text: str) -> str:
    """The first wheels with a compiler in them are those of CUDA 13.0: nvidia-cuda-nvcc-cu12 has ptxas alone."""
    version = text.removeprefix("wheel:")
    if version == text:
        return text
    if not re.fullmatch(r"[0-9]+\.[0-9]+", version):
        raise ValueError("a wheel has a version of two numbers, as in wheel:13.2")
    if int(version.split(".")[0]) < 13:
        raise ValueError("NVIDIA's wheels hold a compiler from CUDA 13.0 on; take wheel:13.2, or a toolkit's folder")
    return text


Size = Annotated[str, AfterValidator(check_size)]
SizeOrShare = Annotated[str, AfterValidator(check_size_or_share)]
Duration = Annotated[str, AfterValidator(check_duration)]
Text = Annotated[str, Field(min_length=1), AfterValidator(check_one_line)]
Word = Annotated[str, Field(min_length=1), AfterValidator(check_word)]
Toolkit = Annotated[Text, AfterValidator(check_toolkit)]
HostPath = Annotated[Text, AfterValidator(check_host_path)]
Port = Annotated[int, Field(ge=1, le=65535)]
CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
