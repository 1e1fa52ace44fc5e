"""The histories of three machines with a past: drivers, releases, models and settings that came and went.

Made by a fixed recipe and not measured: what is tested with them is how figures are remembered, judged and shown.
"""

from __future__ import annotations

import math
import random
from typing import Any

from roles.benchmark.record import Result
from roles.benchmark.reports import Past
from tests.unit import measured

HOSTILE = '"><script>alert(1)</script><b>../../\u202eetc'
HOSTILE_MODEL = "</text></svg><script>alert('model')</script>\u202e\"'.gguf"
LAPTOP_CARD = {
    "name": "NVIDIA GeForce RTX 3050 6GB Laptop GPU", "uuid": "GPU-1", "memory_total": 6144,
    "pcie_gen_max": 4, "pcie_width_max": 8,
}  # fmt: skip
DESK_CARD = {**LAPTOP_CARD, "name": "NVIDIA GeForce RTX 4070", "uuid": "GPU-2", "memory_total": 12282}
PLAN = {
    "digest": "d", "gpu_layers": 99, "n_cpu_moe": 44, "layers": 49, "offloaded": 49,
    "devices": [{"device": "CUDA0", "model": 1594, "context": 2140, "compute": 1203}],
    "host": {"device": "Host", "model": 6777, "context": 0, "compute": 512},
}  # fmt: skip
SEED_DEPTHS = {0: (0.0, 33.6), 32768: (875.0, 22.4), 102400: (606.0, 13.3), 120832: (490.0, 11.8)}


def fleet() -> dict[str, Past]:
    """By name: a laptop that a release made slower, a desk that new settings made faster, and somebody's idea of a
    joke, measured twice with trouble."""
    return {"ada-laptop": Past(laptop()), "desk": Past(desk()), HOSTILE: Past(joke())}


def laptop() -> tuple[Result, ...]:
    about: dict[str, Any] = {
        "config": "Qwen3-30B-A3B-Q3_K_M, n44, KV q4_0", "cards": [LAPTOP_CARD], "cpu_info": "AMD Ryzen 5 7535HS",
        "ram_bytes": 33_400_000_000, "kernel": "6.17.5", "driver": "580.95.05", "release": "b10864-1a2b3c4d",
        "build_commit": "9c5b3f7a1", "model_filename": "/m/Qwen3-30B-A3B-Q3_K_M.gguf", "model_sha256": "a" * 64,
        "n_cpu_moe": 44, "n_ctx": 122880, "n_ubatch": 2048, "type_k": "q4_0", "type_v": "q4_0", "plan": PLAN,
        "settings": {"context": 122880, "ubatch": 2048, "cache_type_k": "q4_0"},
    }  # fmt: skip
    changes: list[tuple[dict[str, Any], float]] = [
        ({"release": "b10470-11aa22bb", "build_commit": "34af94cd9", "driver": "575.64.03"}, 0.82),
        ({"release": "b10470-11aa22bb", "build_commit": "34af94cd9", "driver": "575.64.03"}, 0.82),
        ({"release": "b10470-11aa22bb", "build_commit": "34af94cd9"}, 0.82),
        ({"release": "b10470-11aa22bb", "build_commit": "34af94cd9"}, 0.83),
        ({}, 1.0), ({}, 1.0), ({}, 1.01), ({"release": "b12464-5e6f7a8b", "build_commit": "77d0e1f2a"}, 0.87),
    ]  # fmt: skip
    return tuple(one({**about, **more}, number, speed, SEED_DEPTHS) for number, (more, speed) in enumerate(changes))


def desk() -> tuple[Result, ...]:
    about: dict[str, Any] = {
        "config": "Qwen3-30B-A3B-Q3_K_M, n12, KV q8_0", "kind": "smoke", "cards": [DESK_CARD],
        "cpu_info": "Intel Core i5-13600K", "ram_bytes": 67_000_000_000, "kernel": "6.12.57", "driver": "580.95.05",
        "release": "b10864-1a2b3c4d", "model_filename": "/m/Qwen3-30B-A3B-Q3_K_M.gguf", "model_sha256": "a" * 64,
        "n_cpu_moe": 12, "n_ctx": 65536, "n_ubatch": 512, "type_k": "q8_0", "type_v": "q8_0", "plan": PLAN,
        "settings": {"context": 65536, "ubatch": 512},
    }  # fmt: skip
    depths = {0: (0.0, 71.0), 2048: (1240.0, 68.0), 32768: (1105.0, 49.0)}
    faster = {**about, "settings": {"context": 65536, "ubatch": 2048}, "n_ubatch": 2048}
    return (
        one(about, 0, 1.0, depths),
        one(about, 1, 0.99, depths),
        one(faster, 2, 1.0, {depth: (pp * 1.6, tg) for depth, (pp, tg) in depths.items()}),
    )


def joke() -> tuple[Result, ...]:
    about: dict[str, Any] = {
        "config": HOSTILE_MODEL, "kind": "smoke", "cpu_info": HOSTILE, "release": HOSTILE, "kernel": HOSTILE,
        "model_filename": HOSTILE_MODEL, "settings": {HOSTILE: 1}, "test_time": "'); alert(1); ('",
        "flags": [{"flag": "battery", "why": HOSTILE}, {"flag": "swap", "why": "212 MiB went to swap"}],
        "left_out": [f"{HOSTILE} tokens: too slow"],
    }  # fmt: skip
    depths = {0: (0.0, 8.2), 2048: (41.0, 7.6)}
    return one(about, 0, 1.0, depths), one({**about, "model_filename": "other.gguf"}, 1, 0.93, depths)


def one(about: dict[str, Any], number: int, speed: float, depths: dict[int, tuple[float, float]]) -> Result:
    """A run: every figure three times, a per cent or so apart, and what it took over the minutes."""
    rnd = random.Random(f"{about['config']} {number}")
    rows = [row(depth, pp * speed, tg * speed, rnd) for depth, (pp, tg) in depths.items()]
    moment = f"2026-{6 + number // 2:02}-{11 + number * 2:02}T09:{10 + number}:00Z"
    return Result.model_validate(
        measured.entry(
            run=f"run-{number}", stamp=f"{number:016}", rows=rows, depths=list(depths),
            resources=resources(about, rnd), **{"test_time": moment, **about},
        )
    )  # fmt: skip


def row(depth: int, pp: float, tg: float, rnd: random.Random) -> dict[str, Any]:
    def samples(mean: float, spread: float = 0.008) -> list[float]:
        return [round(mean * math.exp(rnd.gauss(0, spread)), 2) for _ in range(3)]

    turn = {"n_prompt": 256, "n_depth": depth, "seconds": samples(4 + depth / 12000, 0.03), "cache_n": [depth] * 3}
    return {
        "n_depth": depth,
        "pp": measured.figure(*samples(pp), n_prompt=depth) if depth else None,
        "pp_at": None,
        "tg": measured.figure(*samples(tg), n_gen=128, n_depth=depth),
        "turn": turn if depth else None,
    }


def resources(about: dict[str, Any], rnd: random.Random) -> dict[str, Any]:
    """Memory that rises while the model loads and the context fills; a desktop beside it."""
    seconds = [round(5.0 * at, 1) for at in range(120)]
    rise = [1 - math.exp(-second / 60) for second in seconds]
    cards = about.get("cards", [])
    peak = 4560 if cards and cards[0]["memory_total"] == 6144 else 9800
    series: dict[str, list[float]] = {
        "anon_mib": [round(900 + 700 * share, 1) for share in rise],
        "file_mib": [round(8800 * min(1.0, share * 1.6), 1) for share in rise],
    }
    if cards:
        series["vram_mib"] = [round(peak * (0.93 + 0.07 * share), 1) for share in rise]
        series["pcie_width"] = [4.0 if peak == 4560 else 8.0 for _ in rise]
        series["vram_others_mib"] = [round(740 + rnd.uniform(-30, 60), 1) for _ in rise]
    return {
        "peak_vram_mib": peak if cards else None,
        "peak_vram_others_mib": 800 if cards else None,
        "peak_ram_bytes": 11_300_000_000,
        "memory_max_bytes": 24 << 30,
        "samples": 1200,
        "seconds": seconds,
        "series": series,
    }
