"""What the planner says of numbers and settings that do not fit, against a llama-fit-params that does as it is told."""

from __future__ import annotations

import math
from typing import Any

from roles.memory.plan import Plan
from tests.unit.fake_oracle import DENSE, KNOWS, Fake


def test_a_number_of_the_inventorys_own_is_obeyed_where_it_fits(fake: Fake) -> None:
    fake.total = 2300
    plan = Plan.model_validate(fake.plan(n_cpu_moe=5, explicit=True))
    assert (plan.n_cpu_moe, plan.problem) == (5, "")
    assert [one.n_cpu_moe for one in (plan.better, plan.worse) if one] == [4, 6]


def test_a_number_that_does_not_fit_is_refused_with_the_figures_and_the_one_that_does(fake: Fake) -> None:
    fake.total = 2300
    told = fake.refusal(n_cpu_moe=1, explicit=True)
    assert told.startswith(
        "n_cpu_moe=1 does not fit: CUDA0 would hold 1333 MiB (model 1150, context 80, compute 100), and 1300 of its"
        " 2300 MiB are for it (500 reserved, margin 200, runtime 300); n_cpu_moe=2 fits. "
    )
    assert fake.recorded()["problem"].endswith("n_cpu_moe=2 fits")
    assert len(fake.calls()) <= math.ceil(math.log2(9)) + 2


def test_who_only_wants_to_be_warned_gets_the_plan_all_the_same(fake: Fake) -> None:
    fake.total = 2300
    plan = fake.plan(n_cpu_moe=1, explicit=True, check="warn")
    assert plan["n_cpu_moe"] == 1
    assert plan["problem"]


ALTERNATIVES: list[dict[str, Any]] = [
    {"option": "-ub", "changes": {"-ub": "400"}, "told": "ubatch 400 instead of 500"},
    {"option": "-ctk", "changes": {"-ctk": "q8_0", "-ctv": "q8_0"}, "told": "KV q8_0 instead of f16"},
    {"option": "-c"},
    {"option": "-ctk", "changes": {"-ctk": "q4_0", "-ctv": "q4_0"}, "told": "KV q4_0 instead of f16"},
]


def test_where_nothing_fits_it_says_what_would_the_cheapest_loss_first(fake: Fake) -> None:
    fake.total = 1970  # 970: with all experts on the CPU it takes 983
    told = fake.refusal(alternatives=ALTERNATIVES)
    problem, *others = told.split("; ")
    assert problem.startswith("n_cpu_moe=8 does not fit: CUDA0 would hold 983 MiB")
    assert others == [
        "ubatch 400 instead of 500 fits at n_cpu_moe=8",
        "KV q8_0 instead of f16 fits at n_cpu_moe=8",
        "context=6144 fits at n_cpu_moe=8",
        "KV q4_0 instead of f16 fits at n_cpu_moe=7. Change that, or take the risk with memory_check='warn'",
    ]
    assert len(fake.calls()) < 40


def test_where_no_smaller_wish_helps_it_is_the_model(fake: Fake) -> None:
    fake.total = 1500
    assert "; backend='cpu' needs no VRAM; no smaller ubatch, cache type or context alone would; " in fake.refusal(
        alternatives=ALTERNATIVES
    )


def test_a_device_without_a_layer_says_nothing_of_a_split_that_gives_it_one(fake: Fake) -> None:
    """Two cards, the first empty with one layer; its compute buffers are not bounded by those of nothing."""
    fake.devices, fake.total, fake.options = ("CUDA0", "CUDA1"), 2100, (*KNOWS, "-ot")
    fake.trouble = (
        "if ' -ngl 1 ' in ' '.join(words): print('CUDA0 0 0 0 \\nCUDA1 1020 40 100 \\nHost 1 1 1 '); sys.exit()"
    )
    cards = [{"name": "RTX 3050", "total": 6144, "reserve": 500}] * 2
    plan = Plan.model_validate(fake.plan(gpu_layers=1, moe_layers=[], explicit=True, check="warn", cards=cards))
    assert plan.problem == (
        "gpu_layers=1 does not fit: CUDA1 would hold 1163 MiB (model 1020, context 40, compute 100), and 1100 of its"
        " 2100 MiB are for it (500 reserved, margin 200, runtime 300); gpu_layers=99 fits"
    )
    assert {one.gpu_layers: one.devices[0].compute for one in plan.tried}[99] > 1


def test_the_sentence_about_what_does_not_fit_counts_no_logits_of_a_whole_batch(fake: Fake) -> None:
    fake.total, fake.options = 1700, (*KNOWS, "-ot")  # 700, and weights and cache alone are 880
    assert "CUDA0 would hold 902 MiB (model 800, context 80, compute 19)" in fake.refusal()


def test_a_number_that_does_not_fit_names_the_key_that_would(fake: Fake) -> None:
    fake.options, fake.total = (*KNOWS, "--n-cpu-ffn"), 2300
    told = fake.refusal(**DENSE, gpu_layers=99, explicit=True)
    assert "; gpu_layers='auto' (--n-cpu-ffn 2) fits. " in told


def test_a_limit_of_ones_own_that_is_in_the_way_is_told_with_the_one_that_is_not(fake: Fake) -> None:
    told = fake.refusal(limit=1200)  # less 300 for the runtime are 900, and 983 are needed
    assert "n_cpu_moe=8 does not fit" in told
    assert "; vram_limit_mib=1283 fits at n_cpu_moe=8" in told
    assert Plan.model_validate(fake.plan(limit=1283)).n_cpu_moe == 8
    fake.total = 1970
    assert "vram_limit_mib=1" not in fake.refusal(limit=960).partition("; ")[2], "the card itself is too small"
