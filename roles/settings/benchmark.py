"""The keys of the benchmark role."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from roles.settings.base import Record, key


class Benchmark(Record):
    """What the smoke run measures."""

    benchmark_depths: tuple[Annotated[int, Field(ge=0)], ...] = key(
        (0, 2048), "tokens already in the context when a figure is taken", [0, 32768]
    )
    benchmark_tokens: int = key(64, "tokens generated per figure", 128, ge=2)
