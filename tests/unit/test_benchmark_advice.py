"""What to try next, by what the newest figures tell."""

from __future__ import annotations

from typing import Any

import pytest

from roles.benchmark.advice import FLAGGED, advice
from roles.benchmark.comparison import latest
from roles.benchmark.record import Result
from tests.unit import measured, planted_history
from tests.unit.planted_history import LAPTOP_CARD

CALM: dict[str, Any] = {"kind": "full", "n_ubatch": 2048, "type_k": "q4_0", "type_v": "q4_0", "n_ctx": 122880}
FREE = {"peak_vram_mib": 4000, "peak_vram_others_mib": 700}
FULL = {"peak_vram_mib": 5342, "peak_vram_others_mib": 750}


def told(**changes: Any) -> str:
    newest = Result.model_validate(measured.entry(**{**CALM, **changes}))
    return "\n".join(advice(newest, None))


def test_nothing_is_advised_where_nothing_comes_to_mind() -> None:
    assert told() == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "smoke", "depths": [0, 2048]}, "roles.benchmark.full"),
        ({"n_cpu_moe": 44, "n_ubatch": 512}, "ubatch = 2048"),
        ({"type_k": "f16"}, "`q8_0` or `q4_0`"),
        ({"n_cpu_moe": 44, "cards": [LAPTOP_CARD], "resources": FREE}, "1444 MiB of VRAM stayed free at the peak"),
        ({"cards": [LAPTOP_CARD], "resources": {"series": {"pcie_width": [1.0, 4.0]}}}, "ran on 4 of its 8 PCIe lanes"),
    ],
)  # fmt: skip
def test_what_is_advised(changes: dict[str, Any], words: str) -> None:
    assert words in told(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "smoke", "depths": [0, 1024]},
        {"n_cpu_moe": 0, "n_ubatch": 512},
        {"type_k": "f16", "n_ctx": 4096},
        {"n_cpu_moe": 44, "cards": [LAPTOP_CARD], "resources": FULL},
        {"n_cpu_moe": 44, "cards": [LAPTOP_CARD, LAPTOP_CARD], "resources": FREE},
        {"n_cpu_moe": 44, "cards": [LAPTOP_CARD], "resources": {"peak_vram_mib": None}},
        {"cards": [LAPTOP_CARD], "resources": {"series": {"pcie_width": [8.0, 1.0, None]}}},
        {"flags": [{"flag": "something new", "why": "x"}]},
    ],
)
def test_what_does_not_hold_is_not_advised(changes: dict[str, Any]) -> None:
    assert told(**changes) == ""


def test_what_was_measured_in_full_is_not_advised_again() -> None:
    smoke, full = ({**CALM, "kind": kind, "depths": [0, 2048]} for kind in ("smoke", "full"))
    runs = [Result.model_validate(measured.entry(**each)) for each in ({**full, "driver": "1"}, full, smoke)]
    assert "roles.benchmark.full" not in "\n".join(advice(runs[-1], latest(runs)))
    assert "roles.benchmark.full" in "\n".join(advice(runs[-1], latest([runs[0], runs[2]])))


def test_flags_come_first_and_once() -> None:
    flags = [{"flag": "battery", "why": "a"}, {"flag": "swap", "why": "b"}, {"flag": "battery", "why": "c"}]
    assert told(flags=flags).split("\n") == [FLAGGED["battery"], FLAGGED["swap"]]


def test_a_slower_release_can_be_pinned_away() -> None:
    results = planted_history.laptop()
    first, second, *_ = advice(results[-1], latest(results))
    assert first.startswith("pin the release of before with `llama_ref` (it was 9c5b3f7a1), or set ")
    assert first.endswith('`benchmark_on_regression = "rollback"`')
    assert "benchmark_ab = True" in second


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({"driver": "575.64.03"}, {"driver": "580.95.05"}, "go back to driver 575.64.03"),
        (
            {"release": "b1-aa", "build_commit": "9c5b3f7a1"},
            {"release": "b1-bb", "build_commit": "9c5b3f7a1"},
            "as before: the same commit",
        ),
        ({"settings": {"ubatch": 2048}}, {"settings": {"ubatch": 512}}, "take back what the inventory changed: ubatch"),
    ],
)
def test_what_else_made_it_slower_is_named(before: dict[str, Any], now: dict[str, Any], words: str) -> None:
    fast = Result.model_validate(measured.entry(rows=[measured.row(0, 0, 30)], **before))
    slow = Result.model_validate(measured.entry(rows=[measured.row(0, 0, 20)], **now))
    assert words in "\n".join(advice(slow, latest([fast, slow])))
