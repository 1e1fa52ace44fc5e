"""The same model on other cards: which split, how many experts, how much context."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from roles.memory import explore_program as explore
from roles.memory.fitting_program import TRUNCATED, ladder, room

JOB: dict[str, Any] = {
    "sizes": [6144, 8192, 12288, 16384, 24576],
    "layers": 48,
    "moe_layers": list(range(48)),
    "gpu_layers": None,
    "n_cpu_moe": None,
    "reserve": 768,
    "margin": 256,
    "overhead": 320,
    "context": 122880,
    "trained": 262144,
}


class Card:
    """Stands in for llama-fit-params with the figures of the 48-layer qwen3moe of 8.4 GB that llama.cpp's October 2026
    told, KV q4_0 and -ub 2048: 1000 MiB without experts, 148.5 for those of a layer."""

    def __init__(self) -> None:
        self.asked: set[tuple[int, str]] = set()

    def ask(self, split: dict[str, Any], changes: dict[str, str]) -> dict[str, Any]:
        context = int(changes.get("-c", JOB["context"]))
        self.asked.add((split["n_cpu_moe"], str(context)))
        model = 1000 + int(148.5 * (48 - split["n_cpu_moe"]))
        return {"devices": {"CUDA0": [model, context * 3240 // 122880, 1203]}}


def test_more_vram_takes_more_experts_and_more_context() -> None:
    rows = explore.explored(JOB, Card().ask, "CUDA0")
    assert [row["size"] for row in rows] == JOB["sizes"]
    assert [row["split"]["n_cpu_moe"] if row["split"] else None for row in rows] == [None, 39, 11, 0, 0]
    assert [row["context"] for row in rows] == [98304, 175104, 262144, 262144, 262144]
    shares = [row["experts"] for row in rows]
    assert shares[0] is None
    assert [round(share, 2) for share in shares[1:]] == [0.19, 0.77, 1.0, 1.0]


def test_what_is_told_fits_and_the_next_better_does_not() -> None:
    card = Card()
    for row in explore.explored(JOB, card.ask, "CUDA0"):
        assert row["room"] == room(row["size"], 768, 256, 320, None)
        if row["split"]:
            assert row["takes"] <= row["room"]
        if row["split"] and row["split"]["n_cpu_moe"]:
            better = {"n_cpu_moe": row["split"]["n_cpu_moe"] - 1}
            assert explore.held(card.ask(better, {}), "CUDA0") > row["room"]
        most = {"-c": str(row["context"] + 1024)}
        last = {"n_cpu_moe": 48}
        assert row["context"] == JOB["trained"] or explore.held(card.ask(last, most), "CUDA0") > row["room"]


def test_the_questions_are_bounded_and_most_answers_serve_for_several_cards() -> None:
    card = Card()
    explore.explored(JOB, card.ask, "CUDA0")
    assert len(card.asked) <= explore.questions(JOB)
    assert len(card.asked) < 35


@given(st.lists(st.integers(1000, 100_000), min_size=2, max_size=6), st.integers(1, 60))
def test_a_larger_card_is_never_worse(sizes: list[int], layers: int) -> None:
    job = {**JOB, "sizes": sorted(sizes), "layers": layers, "moe_layers": list(range(layers))}

    def ask(split: dict[str, Any], changes: dict[str, str]) -> dict[str, Any]:
        context = int(changes.get("-c", JOB["context"])) // 64
        return {"devices": {"CUDA0": [500 + 130 * (layers - split["n_cpu_moe"]), context, 300]}}

    rows = explore.explored(job, ask, "CUDA0")
    splits = [ladder(job).index(row["split"]) if row["split"] else len(ladder(job)) for row in rows]
    assert splits == sorted(splits, reverse=True)
    assert [row["context"] for row in rows] == sorted(row["context"] for row in rows)


def test_without_a_card_the_weights_are_the_headers_and_the_rest_is_the_cpus() -> None:
    job = {**JOB, "dense_bytes": 1000 << 20, "expert_bytes": [100 << 20] * 48}
    asked = []

    def ask(split: dict[str, Any], changes: dict[str, str]) -> dict[str, Any]:
        asked.append(split["gpu_layers"])
        return {"host": [5800, 3240, 700], "devices": {}}

    answer = explore.by_header(job, ask)({"n_cpu_moe": 44}, {})
    assert answer == {"devices": {explore.CARD: [1400, 3240, 700]}}
    assert asked == [0]
    assert explore.held(answer, explore.CARD) == 5340 + TRUNCATED
