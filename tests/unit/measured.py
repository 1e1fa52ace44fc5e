"""Lines of a history of benchmarks, as the runner writes them."""

from __future__ import annotations

import json
import statistics
from typing import Any


def figure(*samples: float, **fields: Any) -> dict[str, Any]:
    return {
        "samples_ts": list(samples),
        "wall_ts": list(samples),
        "avg_ts": statistics.fmean(samples),
        "stddev_ts": statistics.stdev(samples) if len(samples) > 1 else 0.0,
        **fields,
    }


def row(depth: int, pp: float, tg: float) -> dict[str, Any]:
    """A depth with one sample each; nothing is read on an empty context."""
    return {
        "n_depth": depth,
        "pp": figure(pp, n_prompt=depth) if depth else None,
        "pp_at": figure(pp * 0.8, n_prompt=512, n_depth=depth) if depth else None,
        "tg": figure(tg, n_gen=128, n_depth=depth),
        "turn": {"n_prompt": 256, "n_depth": depth, "seconds": [1.5], "cache_n": [depth]} if depth else None,
    }


def entry(**changes: Any) -> dict[str, Any]:
    """The seed's better row as one line of a history."""
    return {
        "schema": 2,
        "kind": "full",
        "run": "20261130T120000Z-4711",
        "test_time": "2026-11-30T12:00:00Z",
        "config": "Mix-12G, n44, KV q4_0",
        "stamp": "0" * 16,
        "release": "0123456789-abcdef01",
        "depths": [0, 32768, 102400, 120832],
        "tokens": 128,
        "repetitions": 1,
        "rows": [row(0, 0, 33.6), row(32768, 875, 22.4), row(102400, 606, 13.3), row(120832, 490, 11.8)],
        "resources": {"peak_vram_mib": 5342, "peak_ram_bytes": 11_300_000_000},
        **changes,
    }


def line(**changes: Any) -> str:
    return json.dumps(entry(**changes))
