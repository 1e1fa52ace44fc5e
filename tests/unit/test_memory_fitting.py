"""What fits, which splits there are to try, and how few questions find the first that does."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.memory import fitting_program as fitting

MOE: dict[str, Any] = {"layers": 4, "moe_layers": [0, 1, 2, 3], "gpu_layers": None, "n_cpu_moe": None}
DENSE: dict[str, Any] = {**MOE, "moe_layers": [], "knows_n_cpu_ffn": True}
JOB: dict[str, Any] = {
    "cards": [],
    "reserve": 0,
    "margin": 256,
    "overhead": 320,
    "limit": None,
    "moe_cache": 0,
}


@pytest.mark.parametrize(
    ("total", "reserve", "limit", "room"),
    [
        (6144, 768, None, 4800),  # the article's laptop, with its desktop
        (6144, 0, None, 5568),
        (6144, 768, 4096, 3776),  # for somebody who plays: the overhead is part of what it may take
        (6144, 768, 99999, 4800),
        (512, 768, None, -832),
    ],
)
def test_the_room_is_what_desktop_margin_and_runtime_leave(
    total: int, reserve: int, limit: int | None, room: int
) -> None:
    assert fitting.room(total, reserve, 256, 320, limit) == room


def test_figures_that_were_cut_down_are_counted_up_and_an_unused_device_takes_nothing() -> None:
    assert fitting.taken([1594, 3240, 1203]) == 6040
    assert fitting.taken([0, 0, 0]) == 0
    assert fitting.lacking({"A": [10, 0, 0], "B": [50, 0, 0]}, {"A": 20, "B": 40}) == 13
    assert fitting.lacking({}, {}) == 0


def test_a_card_is_known_by_its_name_as_cuda_counts_them_in_another_order() -> None:
    cards = [{"name": "RTX 3050", "total": 6144, "reserve": 768}, {"name": "RTX 4090", "total": 24564, "reserve": 0}]
    devices = [
        {"device": "CUDA0", "name": "NVIDIA RTX 4090", "total": 24080},
        {"device": "CUDA1", "name": "NVIDIA RTX 3050", "total": 6200},
    ]
    found = fitting.budgets(devices, {**JOB, "cards": cards})
    assert [(one["device"], one["total"], one["reserve"], one["room"]) for one in found] == [
        ("CUDA0", 24080, 0, 23504),  # what CUDA itself has is less than what nvidia-smi tells
        ("CUDA1", 6144, 768, 4800),
    ]


def test_two_cards_of_one_name_are_two() -> None:
    cards = [{"name": "RTX 3050", "total": 6144, "reserve": 768}, {"name": "RTX 3050", "total": 6144, "reserve": 0}]
    devices = [{"device": f"CUDA{at}", "name": "NVIDIA RTX 3050", "total": 6144} for at in range(2)]
    assert [one["reserve"] for one in fitting.budgets(devices, {**JOB, "cards": cards})] == [768, 0]


def test_a_cache_of_experts_is_shared_by_the_devices_and_takes_of_their_room() -> None:
    devices = [{"device": f"CUDA{at}", "name": "some", "total": 6144} for at in range(2)]
    assert [one["room"] for one in fitting.budgets(devices, {**JOB, "moe_cache": 401})] == [5367, 5367]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["n_cpu_moe=0", "n_cpu_moe=1", "n_cpu_moe=2", "n_cpu_moe=3", "n_cpu_moe=4"]),
        ({"moe_layers": [2, 3]}, ["n_cpu_moe=0", "n_cpu_moe=3", "n_cpu_moe=4"]),
        ({"n_cpu_moe": 2}, ["n_cpu_moe=2"]),
        ({"n_cpu_moe": 2, "gpu_layers": 3}, ["n_cpu_moe=2"]),
    ],
)
def test_of_a_mixture_of_experts_each_rung_moves_the_experts_of_one_more_layer(
    changes: dict[str, Any], expected: list[str]
) -> None:
    assert [fitting.shown(one) for one in fitting.ladder({**MOE, **changes})] == expected


def test_all_layers_are_on_the_devices_unless_the_inventory_says_otherwise() -> None:
    assert {one["gpu_layers"] for one in fitting.ladder(MOE)} == {99}
    assert {one["gpu_layers"] for one in fitting.ladder({**MOE, "gpu_layers": 3})} == {3}


def test_a_dense_model_gives_up_its_feed_forward_weights_first_and_then_whole_layers() -> None:
    shown = [fitting.shown(one) for one in fitting.ladder({**DENSE, "layers": 2})]
    assert shown == [
        "gpu_layers=99",
        "gpu_layers=99, --n-cpu-ffn 1",
        "gpu_layers=99, --n-cpu-ffn 2",
        "gpu_layers=2, --n-cpu-ffn 2",
        "gpu_layers=1, --n-cpu-ffn 2",
    ]


def test_where_the_release_lacks_that_option_it_is_whole_layers_alone() -> None:
    shown = [fitting.shown(one) for one in fitting.ladder({**DENSE, "layers": 2, "knows_n_cpu_ffn": False})]
    assert shown == ["gpu_layers=99", "gpu_layers=2", "gpu_layers=1"]
    assert fitting.ladder({**DENSE, "gpu_layers": 1}) == [fitting.split(1)]


@given(st.lists(st.booleans(), max_size=130), st.booleans())
def test_the_search_finds_what_brute_force_finds_and_asks_few_questions(answers: list[bool], monotone: bool) -> None:
    if monotone:
        answers = sorted(answers)
    asked: list[int] = []

    def fits(rung: int) -> bool:
        asked.append(rung)
        return answers[rung]

    found = fitting.first(len(answers), fits)
    assert len(asked) <= math.ceil(math.log2(len(answers) + 1))
    assert len(set(asked)) == len(asked)
    if sorted(answers) == answers:
        assert found == next((rung for rung, fit in enumerate(answers) if fit), None)
    elif found is not None:  # out of order: not the best perhaps, but one that was seen to fit
        assert found in asked
        assert answers[found]


@given(st.integers(1, 130), st.integers(0, 1))
def test_the_questions_of_a_plan_stay_within_the_bound(layers: int, moe: int) -> None:
    """The search, and two for the state and the next worse split where there is one left."""
    wanted = {**DENSE, "layers": layers, "moe_layers": list(range(layers)) if moe else []}
    rungs = len(fitting.ladder(wanted))
    assert math.ceil(math.log2(rungs + 1)) <= math.ceil(math.log2(layers + 1)) + 2


@given(st.integers(8192, 1 << 20), st.integers(1, 100), st.integers(0, 2000), st.integers(0, 20000))
def test_a_smaller_context_fits_where_the_need_is_a_straight_line(
    context: int, per_1024: int, fixed: int, free: int
) -> None:
    def need(tokens: int) -> int:
        return fixed + tokens * per_1024 // 1024

    found = fitting.smaller_context(context, need(context), need(context // 2), free)
    if need(context) > free and found:
        assert found % 1024 == 0
        assert fitting.LEAST_CONTEXT <= found < context
        assert need(found) <= free + per_1024


def test_no_smaller_context_helps_where_the_context_takes_nothing() -> None:
    assert fitting.smaller_context(8192, 500, 500, 400) == 0
    assert fitting.smaller_context(8192, 10_000, 6000, 400) == 0


def test_the_device_that_lacks_most_is_told_with_every_item() -> None:
    devices = [{"device": "CUDA0", "name": "some", "total": 6144}]
    found = fitting.budgets(devices, {**JOB, "reserve": 768, "limit": 4096})
    assert fitting.too_much({"CUDA0": [2188, 3240, 1203]}, found) == (
        "CUDA0 would hold 6634 MiB (model 2188, context 3240, compute 1203), and 3776 of its 6144 MiB are for it"
        " (768 reserved, margin 256, runtime 320, vram_limit_mib is 4096)"
    )


def test_a_card_that_its_desktop_fills_lacks_nothing_where_nothing_is_put_on_it() -> None:
    rooms, shares = {"CUDA0": 4800, "CUDA1": -320}, {"CUDA0": [4000, 300, 100], "CUDA1": [0, 0, 0]}
    assert fitting.lacking(shares, rooms) == 0
    assert fitting.lacking({**shares, "CUDA1": [100, 0, 0]}, rooms) == 423
    devices = [{"device": "CUDA0", "name": "some", "total": 5376}, {"device": "CUDA1", "name": "old", "total": 256}]
    told = fitting.too_much({**shares, "CUDA0": [4800, 0, 0]}, fitting.budgets(devices, JOB))
    assert told.startswith("CUDA0 would hold 4803 MiB"), "the card that lacks something"
