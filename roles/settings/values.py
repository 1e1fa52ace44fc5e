"""Values as people write them: sizes, shares, durations, one-line texts."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue

Auto = Literal["auto"]
SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# The browsers that Paddock has a policy for.
BrowserName = Literal["chrome", "chrome-for-testing", "chromium", "brave"]
# What Chrome's own definitions (policy_definitions/GenerativeAI) say of the values of policies about AI.
KNOWN_POLICIES: dict[str, type[bool] | range] = {
    "BuiltInAIAPIsEnabled": bool,
    "ComponentUpdatesEnabled": bool,
    "HelpMeWriteSettings": range(3),
}
REFUSED_POLICIES = {
    "GenAILocalFoundationalModelSettings": "is what browser_policy sets",
    "GenAiDefaultSettings": "does nothing in a file: browsers take it from the cloud only",
}
TIME_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def size_in_bytes(text: str, of: int | None = None) -> int:
    """`24G` as bytes; K, M, G and T count by 1024, as in systemd. `85%` is a share of `of` bytes. Raises ValueError."""
    if share := re.fullmatch(r"([0-9]{1,2}|100)%", text):
        if of is None:
            raise ValueError(f"{text!r} is a share; write a size, as in 24G")
        return of * int(share[1]) // 100 >> 20 << 20
    match = re.fullmatch(r"([0-9]+)([KMGT]?)", text)
    if of is not None and re.fullmatch(r"[0-9]+%", text):
        raise ValueError(f"{text!r} is not a size that can be had; a share is at most 100%")
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


def check_policies(policies: dict[str, JsonValue]) -> dict[str, JsonValue]:
    for name, value in policies.items():
        if not re.fullmatch(r"[A-Z][A-Za-z0-9]+", name):
            raise ValueError(f"{name!r} is not the name of a policy; they are written as in BuiltInAIAPIsEnabled")
        if name in REFUSED_POLICIES:
            raise ValueError(f"the policy {name} {REFUSED_POLICIES[name]}")
        known = KNOWN_POLICIES.get(name)
        if known is bool and not isinstance(value, bool):
            raise ValueError(f"the policy {name} is true or false, and not {value!r}")
        if isinstance(known, range) and (type(value) is not int or value not in known):
            raise ValueError(f"the policy {name} is a number from 0 to {known[-1]}, and not {value!r}")
        if value is None or (type(value) is float) or (type(value) is int and not -(2**31) <= value < 2**31):
            raise ValueError(f"the policy {name} is {value!r}, a value that no policy can have")
    return policies


def check_architectures(text: str) -> str:
    """As cmake's CMAKE_CUDA_ARCHITECTURES has it; `native` would build for no card where none is visible."""
    if text not in ("auto", "all", "all-major") and not re.fullmatch(
        r"[0-9]{2,3}[af]?(-real|-virtual)?(;[0-9]{2,3}[af]?(-real|-virtual)?)*", text
    ):
        raise ValueError("is written as in 86-real or 86-real;120-real (or auto, all, all-major)")
    return text


Size = Annotated[str, AfterValidator(check_size)]
SizeOrShare = Annotated[str, AfterValidator(check_size_or_share)]
Duration = Annotated[str, AfterValidator(check_duration)]
Text = Annotated[str, Field(min_length=1), AfterValidator(check_one_line)]
Word = Annotated[str, Field(min_length=1), AfterValidator(check_word)]
Architectures = Annotated[Text, AfterValidator(check_architectures)]
Toolkit = Annotated[Text, AfterValidator(check_toolkit)]
HostPath = Annotated[Text, AfterValidator(check_host_path)]
Port = Annotated[int, Field(ge=1, le=65535)]
CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
