"""The keys of the benchmark role."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from roles.settings.base import Record, key
from roles.settings.values import Auto


class Benchmark(Record):
    """What is measured: in a smoke run at a deploy that changed something, and in a full run on request."""

    benchmark_depths: Auto | tuple[Annotated[int, Field(ge=0)], ...] = key(
        "auto",
        "tokens of context per figure; auto: 0, 2048 (smoke), 0, 32k, 100k, 118k (full); [] is none",
        [0, 32768],
    )
    benchmark_tokens: int = key(128, "tokens generated per figure", 256, ge=2)
    benchmark_repetitions: int = key(3, "samples of each figure; smoke takes what fits into two minutes", 5, ge=1)
    benchmark_ab: bool = key(
        False,
        "after a change: measure what was served before and what is now in alternation",
        True,
    )
    benchmark_on_regression: Literal["warn", "rollback"] = key(
        "warn",
        "what becomes of a release that is slower: it is told, or the former one comes back",
        "rollback",
    )
    benchmark_llama_bench: bool = key(False, "in a full run llama-bench too; the service stops for it", True)
