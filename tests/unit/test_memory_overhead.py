"""What the runtime takes of a card: by the book at first, by what was measured there later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roles.memory.observe import MEMORY, look_at_memory
from roles.memory.overhead import Measured, overhead

CARD = ("GPU-1",)


def measured(held: int, release: str = "r1", cards: tuple[str, ...] = CARD) -> Measured:
    return Measured(release=release, cards=cards, held=held, planned=4000)


@pytest.mark.parametrize(
    ("kind", "cards", "seen", "expected"),
    [
        ("cuda", CARD, [], 320),
        ("rpc", (), [measured(4500)], 0),
        ("cpu", (), [], 0),
        ("cuda", CARD, [measured(4250)], 256),
        ("cuda", CARD, [measured(4200), measured(4250)], 256),  # the newest
        ("cuda", CARD, [measured(4250), measured(4600, release="r0")], 256),  # of this release
        ("cuda", CARD, [measured(4600, release="r0")], 608),  # or of another on this card
        ("cuda", ("GPU-2",), [measured(4250)], 320),
        ("cuda", ("GPU-1", "GPU-2"), [measured(4250, cards=("GPU-1", "GPU-2"))], 320),
        ("cuda", CARD, [measured(4010), measured(9000)], 320),  # no runtime takes that
    ],
)
def test_a_measured_figure_of_this_card_goes_before_the_documented_one(
    kind: str, cards: tuple[str, ...], seen: list[Measured], expected: int
) -> None:
    assert overhead(kind, "r1", cards, seen) == expected


def test_the_history_tells_what_a_process_held_of_what_was_planned(tmp_path: Path) -> None:
    share = {"device": "CUDA0", "model": 1594, "context": 1800, "compute": 1203}
    whole: dict[str, Any] = {
        "release": "r1",
        "cards": [{"name": "some", "uuid": "GPU-1"}],
        "resources": {"peak_vram_mib": 4900},
        "plan": {"devices": [share]},
        "settings": {},
    }
    others = [
        {**whole, "settings": None},
        {**whole, "plan": None},
        {**whole, "resources": {"peak_vram_mib": None}},
        {"schema": 1},
        7,
    ]
    history = tmp_path / "history.jsonl"
    history.write_text("\n".join(map(json.dumps, [*others, whole])) + '\n{"release": "r1", "ca')
    assert looked_at(history) == (Measured(release="r1", cards=CARD, held=4900, planned=4597),)
    cache = {"settings": {"moe_cache_mib": 100}}
    history.write_text("\n".join(json.dumps({**whole, **cache, "plan": {"devices": each}}) for each in ([], [share])))
    [cached] = looked_at(history)
    assert overhead("cuda", "r1", CARD, [cached]) == 208, "a cache of experts is no runtime: plans count it beside that"


def looked_at(history: Path) -> tuple[Measured, ...]:
    told = look_at_memory({"folder": str(history.parent / "none"), "history": str(history)})
    return MEMORY.seen.model_validate(told).measured
