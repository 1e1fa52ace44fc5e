"""The published measurement that Paddock starts from: another person's laptop, another model. To stand beside a host's
own figures, never to judge them by."""

from __future__ import annotations

from typing import NamedTuple

TITLE = "The article's laptop: RTX 3050 6 GB, Ryzen 5 7535HS, 32 GB, as published"


class Published(NamedTuple):
    """One row: peak VRAM in MiB, RAM in GB, `figures` as (depth, pp, tg) in tokens per second; depth in tokens."""

    config: str
    vram: int
    ram: float
    figures: tuple[tuple[int, float | None, float], ...]


# From "A 40B MoE at 120k context on a laptop with 6 GB of VRAM", its table of results; the depths are its own.
ROWS = (
    Published(
        "IQ4_XS, n48, KV q8",
        5323,
        21.4,
        ((0, None, 34.4), (32 << 10, 619, 22.3), (100 << 10, 456, 11.4), (118 << 10, 346, 11.7)),
    ),
    Published(
        "Mix-12G, n44, KV q4_0",
        5342,
        11.3,
        ((0, None, 33.6), (32 << 10, 875, 22.4), (100 << 10, 606, 13.3), (118 << 10, 490, 11.8)),
    ),
)
