"""Which split the planner finds, against a llama-fit-params that does as it is told."""

from __future__ import annotations

import math

import pytest

from roles.memory.fitting_program import lacking, ladder
from roles.memory.plan import Plan
from tests.unit.fake_oracle import DENSE, KNOWS, Fake


def test_the_fewest_experts_stay_on_the_cpu_with_which_it_fits(fake: Fake) -> None:
    # 3000 - 500 - 200 - 300 = 2000 MiB: 800 dense, 80 of cache, 100 to compute, 3 for rounding, and 8 x 50 of experts.
    assert fake.plan()["n_cpu_moe"] == 0
    fake.total = 2300  # 1300: room for 6 of 8 layers' experts
    plan = Plan.model_validate(fake.plan())
    assert (plan.n_cpu_moe, plan.moe_layers_on_cpu, plan.moe_layers) == (2, 2, 8)
    assert (plan.gpu_layers, plan.layers, plan.offloaded) == (99, 9, 9)
    (device,) = plan.devices
    assert (device.device, device.model, device.context, device.compute) == ("CUDA0", 1100, 80, 100)
    assert plan.budgets[0].room == 1300
    assert plan.host.model == 100


@pytest.mark.parametrize("total", range(2270, 2720, 90))
def test_it_is_what_trying_every_split_would_find(fake: Fake, total: int) -> None:
    fake.total = total
    plan = fake.searched()
    rooms = {"CUDA0": total - 1000}
    fitting = [
        one["n_cpu_moe"]
        for one in ladder(fake.wanted())
        if lacking({"CUDA0": [800 + (8 - one["n_cpu_moe"]) * 50, 80, 100]}, rooms) <= 0
    ]
    assert plan.n_cpu_moe == fitting[0]
    assert plan.calls <= math.ceil(math.log2(9)) + 2


@pytest.mark.parametrize("total", range(2200, 2720, 20))
def test_logits_of_a_whole_batch_that_no_server_reserves_cost_no_layer(fake: Fake, total: int) -> None:
    fake.total, fake.options = total, (*fake.options, "-ot")
    plan = fake.searched()
    fitting = [
        one["n_cpu_moe"]
        for one in ladder(fake.wanted())
        if lacking({"CUDA0": [800 + (8 - one["n_cpu_moe"]) * 50, 80, 25 + 25 // 8 + 1]}, {"CUDA0": total - 1000}) <= 0
    ]
    assert plan.n_cpu_moe == fitting[0]
    assert {one.devices[0].compute for one in plan.tried} == {plan.devices[0].compute} == {29}
    assert plan.calls <= math.ceil(math.log2(9)) + 2


def test_the_next_better_and_the_next_worse_are_in_the_plan(fake: Fake) -> None:
    fake.total = 2300
    plan = Plan.model_validate(fake.plan())
    assert plan.better is not None
    assert plan.worse is not None
    assert (plan.better.n_cpu_moe, plan.better.devices[0].total, plan.better.lacking) == (1, 1330, 33)
    assert (plan.worse.n_cpu_moe, plan.worse.devices[0].total, plan.worse.lacking) == (3, 1230, -67)


def test_several_devices_get_layers_by_their_room_and_each_must_hold_its_own(fake: Fake) -> None:
    fake.devices = ("CUDA0", "CUDA1")
    cards = [{"name": "RTX 3050", "total": 6144, "reserve": 500}, {"name": "RTX 3050", "total": 6144, "reserve": 0}]
    plan = Plan.model_validate(fake.plan(cards=cards))
    assert plan.tensor_split == (2000, 2500)
    assert [one.device for one in plan.devices] == ["CUDA0", "CUDA1"]
    words, _ = fake.calls()[0]
    assert words[words.index("-ts") + 1] == "2000,2500"


def test_whoever_spreads_the_layers_by_own_rules_is_left_alone(fake: Fake) -> None:
    fake.devices = ("CUDA0", "CUDA1")
    plan = fake.plan(own_tensor_split=True, extra=["-ts", "1,3"])
    assert plan["tensor_split"] == []
    words, _ = fake.calls()[0]
    assert words.count("-ts") == 1


@pytest.mark.parametrize("own", [True, False])
def test_a_device_that_gets_nothing_is_in_order_only_where_the_inventory_says_so(fake: Fake, own: bool) -> None:
    fake.devices = ("CUDA0", "CUDA1")
    fake.trouble = "print('CUDA0 100 1 1 \\nHost 1 1 1 '); sys.exit()"
    if own:
        assert [one["device"] for one in fake.plan(own_tensor_split=True)["devices"]] == ["CUDA0"]
    else:
        assert fake.refusal().endswith("do not agree on CUDA1")


def test_who_takes_every_device_away_gets_a_plan_without_one_and_the_gate_judges(fake: Fake) -> None:
    fake.options = (*KNOWS, "--device", "-ot")
    fake.trouble = "print('Host 1 1 1 '); sys.exit()"
    own = {"own_tensor_split": True, "extra": ["--device", "none"], "n_cpu_moe": 2, "gpu_layers": 99, "explicit": True}
    plan = fake.plan(**own)
    assert (plan["devices"], plan["problem"]) == ([], "")


def test_a_dense_model_keeps_feed_forward_weights_on_the_cpu_where_the_release_can(fake: Fake) -> None:
    fake.total = 2300
    fake.options = (*KNOWS, "-ncffn, --n-cpu-ffn")
    plan = fake.plan(moe_layers=[])
    assert (plan["gpu_layers"], plan["n_cpu_moe"], plan["n_cpu_ffn"]) == (99, None, 2)


def test_and_else_whole_layers(fake: Fake) -> None:
    fake.total = 2300
    plan = fake.plan(moe_layers=[])
    assert (plan["gpu_layers"], plan["n_cpu_moe"], plan["n_cpu_ffn"], plan["offloaded"]) == (7, None, None, 7)


def test_on_the_cpu_there_is_one_question_or_two_and_no_split(fake: Fake) -> None:
    fake.devices = ()
    plan = fake.plan(backend="cpu")
    assert (plan["devices"], plan["host"]["model"], plan["offloaded"]) == ([], 1200, 0)
    assert len(fake.calls()) <= 2
    assert not [words for words, _ in fake.calls() if "-ngl" in words or "--n-cpu-moe" in words]


@pytest.mark.parametrize("layers", [8, 31, 32, 40, 48])
def test_buffers_of_one_split_are_not_taken_for_those_of_another_that_holds_more(fake: Fake, layers: int) -> None:
    """With the experts of all layers on the CPU the server reserves less, and halving may ask there first."""
    fake.layers, fake.options = layers, (*KNOWS, "-ot")
    least = layers * 100 + 80 // layers * layers  # weights and cache without any experts
    for room in (*range(least + 25, least + 260, 60), *range(least + 121, least + 126)):
        fake.total = room + 1000
        plan = fake.searched()
        number = plan.n_cpu_moe or 0
        served = least + (layers - number) * 50 + 500 // (30 if number >= layers - 1 else 20)
        assert not plan.problem
        assert served <= room, number


def test_with_the_least_on_the_card_its_own_buffers_are_what_counts(fake: Fake) -> None:
    fake.total, fake.options = 1905, (*KNOWS, "-ot")  # 905: 800 + 80 + 3, and 16 with an eighth
    plan = Plan.model_validate(fake.plan())
    assert (plan.n_cpu_moe, plan.devices[0].compute, plan.problem) == (8, 19, "")
    assert Plan.model_validate(fake.plan(n_cpu_moe=8, explicit=True)).problem == ""
    fake.total = 1895
    assert "CUDA0 would hold 902 MiB" in fake.refusal()


def test_devices_that_work_at_the_same_time_keep_the_buffers_that_they_hold_several_times(fake: Fake) -> None:
    fake.devices, fake.options = ("CUDA0", "CUDA1"), (*KNOWS, "-ot")
    cards = [{"name": "RTX 3050", "total": 6144, "reserve": 500}] * 2
    fake.total = 1000 + 842  # 600 + 40 + 200 + 3 do not fit on each, and with one layer's experts moved there are 29
    plan = Plan.model_validate(fake.plan(cards=cards))
    assert {one.n_cpu_moe: one.devices[0].compute for one in plan.tried if one.n_cpu_moe in (0, 1)} == {0: 200, 1: 29}
    assert plan.n_cpu_moe == 1


def test_layers_of_the_inventorys_own_server_args_stay_and_are_not_counted_twice(fake: Fake) -> None:
    fake.options = (*KNOWS, "--n-cpu-ffn")
    plan = Plan.model_validate(fake.plan(**DENSE, gpu_layers=99, explicit=True, extra=["--n-cpu-ffn", "4"]))
    assert [words.count("--n-cpu-ffn") for words, _ in fake.calls()] == [1] * len(fake.calls())
    assert plan.devices[0].model == 8 * 100 + 4 * 50
    assert plan.n_cpu_ffn is None
    assert [(one.gpu_layers, one.n_cpu_ffn) for one in (plan.better, plan.worse) if one] == [(8, None)]
