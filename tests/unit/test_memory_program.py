"""The planner as it runs on a host, against a llama-fit-params that does as it is told."""

from __future__ import annotations

import base64
import json
import math
import os
import signal
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from roles.memory.decide import PROGRAM
from roles.memory.fitting_program import lacking, ladder
from roles.memory.plan import Plan
from tests.unit.fake_oracle import KNOWS, Fake
from tests.unit.programs import assert_old_python_can_run


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_old_python_can_run_it() -> None:
    assert_old_python_can_run(PROGRAM)


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
    plan = Plan.model_validate(fake.plan())
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
    plan = Plan.model_validate(fake.plan())
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


def test_the_model_is_asked_about_as_the_server_will_run_it_and_by_nobody_elses_settings(fake: Fake) -> None:
    fake.plan(extra=["--poll", "50", "--no-webui", "--slot-save-path", "/x"])
    words, _ = fake.calls()[0]
    assert words[2:16] == [*fake.wanted()["words"], "--poll", "50"]
    assert words[-2:] == ["--fit-print", "on"]
    assert "--slot-save-path" not in words
    assert "--no-webui" not in words


def test_a_model_that_is_still_to_come_is_a_twin_of_full_size_and_gone_afterwards(fake: Fake) -> None:
    header = b"GGUF and so on"
    packed = base64.b64encode(zlib.compress(header)).decode()
    twin = [{"name": f"m-0000{number}-of-00002.gguf", "size": 1 << 33, "header": packed} for number in (1, 2)]
    fake.plan(twin=twin, model="~/nowhere.gguf")
    words, size = fake.calls()[0]
    assert words[1] == str(fake.data / "plans/.twin/m-00001-of-00002.gguf")
    assert size == 1 << 33
    assert names(fake.data / "plans") == ["d1.json", "lock"]


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


def test_a_card_without_room_for_a_question_is_not_asked(fake: Fake) -> None:
    fake.smi = "echo 'NVIDIA RTX 3050, 120'"
    told = fake.refusal()
    assert told.startswith("NVIDIA RTX 3050 has 120 MiB of VRAM free, and llama.cpp needs about 400 to say")
    assert told.endswith("close what holds it (chrome 900)")
    assert fake.calls() == []


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (
            "sys.stderr.write('junk\\nerror: failed to load model\\n'); sys.exit(1)",
            "(status 1): error: failed to load model",
        ),
        ("os.abort()", "(status -6): nothing"),
        ("print('Host x y z'); sys.exit()", "(status 0): Host x y z"),
        (
            "print('CUDA7 1 2 3 \\nHost 1 2 3 '); sys.exit()",
            "llama-fit-params and llama-server do not agree on CUDA0, CUDA7",
        ),
    ],
)
def test_an_oracle_that_fails_is_quoted_and_nothing_is_recorded(fake: Fake, trouble: str, told: str) -> None:
    fake.trouble = trouble
    assert fake.refusal().endswith(told)
    assert fake.recorded() is None
    assert not (fake.data / "plans/.twin").exists()
    fake.trouble = ""
    assert fake.plan()["checked"]


def test_an_oracle_that_hangs_is_killed(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.trouble = "import time; time.sleep(60)"
    quick = PROGRAM.replace("ANSWER_SECONDS = 120", "ANSWER_SECONDS = 1")
    assert quick != PROGRAM
    monkeypatch.setattr("tests.unit.fake_oracle.PROGRAM", quick)
    assert fake.refusal().startswith("llama-fit-params gave no answer within 1 s")


@pytest.mark.parametrize("options", [(), ("-m", "-c")])
def test_a_release_that_cannot_tell_needs_numbers(fake: Fake, options: tuple[str, ...]) -> None:
    fake.options = options
    assert fake.refusal().startswith("this release of llama.cpp has no llama-fit-params --fit-print to plan with")
    plan = Plan.model_validate(fake.plan(n_cpu_moe=5, explicit=True))
    assert (plan.checked, plan.n_cpu_moe, plan.gpu_layers, plan.devices) == (False, 5, 99, ())


def test_what_a_killed_run_left_is_cleared_and_old_plans_go_with_their_release(fake: Fake) -> None:
    plans = fake.data / "plans"
    (plans / ".twin").mkdir(parents=True)
    (plans / ".twin/half").write_text("x")
    (plans / "gone.json").write_text(json.dumps({"release": "r0"}))
    (plans / "torn.json").write_text("{")
    (plans / "kept.json").write_text(json.dumps({"release": "r1"}))
    fake.plan()
    assert names(plans) == ["d1.json", "kept.json", "lock"]


def test_killed_in_the_middle_of_a_question_the_next_run_plans_as_if_nothing_had_been(fake: Fake) -> None:
    fake.trouble = "import time; time.sleep(60)"
    header = base64.b64encode(zlib.compress(b"GGUF")).decode()
    process = fake.start(twin=[{"name": "m.gguf", "size": 1 << 33, "header": header}])
    end = time.monotonic() + 30
    while not fake.calls() and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    assert names(fake.data / "plans") == [".twin", "lock"]
    fake.trouble = ""
    fake.plan()
    assert names(fake.data / "plans") == ["d1.json", "lock"]


def test_a_disk_that_is_full_is_told(fake: Fake) -> None:
    (fake.data / "plans/d1.json.new").mkdir(parents=True)
    assert fake.refusal().startswith("the plan cannot be recorded: Is a directory")


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


@pytest.mark.parametrize("layers", [8, 31, 32, 40, 48])
def test_buffers_of_one_split_are_not_taken_for_those_of_another_that_holds_more(fake: Fake, layers: int) -> None:
    """With the experts of all layers on the CPU the server reserves less, and halving may ask there first."""
    fake.layers, fake.options = layers, (*KNOWS, "-ot")
    least = layers * 100 + 80 // layers * layers  # weights and cache without any experts
    for room in (*range(least + 25, least + 260, 60), *range(least + 121, least + 126)):
        fake.total = room + 1000
        plan = Plan.model_validate_json(fake.run(check="warn").stdout.splitlines()[-1])
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


def test_the_sentence_about_what_does_not_fit_counts_no_logits_of_a_whole_batch(fake: Fake) -> None:
    fake.total, fake.options = 1700, (*KNOWS, "-ot")  # 700, and weights and cache alone are 880
    assert "CUDA0 would hold 902 MiB (model 800, context 80, compute 19)" in fake.refusal()


DENSE: dict[str, Any] = {"moe_layers": [], "n_cpu_moe": None}


def test_a_number_that_does_not_fit_names_the_key_that_would(fake: Fake) -> None:
    fake.options, fake.total = (*KNOWS, "--n-cpu-ffn"), 2300
    told = fake.refusal(**DENSE, gpu_layers=99, explicit=True)
    assert "; gpu_layers='auto' (--n-cpu-ffn 2) fits. " in told


def test_layers_of_the_inventorys_own_server_args_stay_and_are_not_counted_twice(fake: Fake) -> None:
    fake.options = (*KNOWS, "--n-cpu-ffn")
    plan = Plan.model_validate(fake.plan(**DENSE, gpu_layers=99, explicit=True, extra=["--n-cpu-ffn", "4"]))
    assert [words.count("--n-cpu-ffn") for words, _ in fake.calls()] == [1] * len(fake.calls())
    assert plan.devices[0].model == 8 * 100 + 4 * 50
    assert plan.n_cpu_ffn is None
    assert [(one.gpu_layers, one.n_cpu_ffn) for one in (plan.better, plan.worse) if one] == [(8, None)]


def test_a_limit_of_ones_own_that_is_in_the_way_is_told_with_the_one_that_is_not(fake: Fake) -> None:
    told = fake.refusal(limit=1200)  # less 300 for the runtime are 900, and 983 are needed
    assert "n_cpu_moe=8 does not fit" in told
    assert "; vram_limit_mib=1283 fits at n_cpu_moe=8" in told
    assert Plan.model_validate(fake.plan(limit=1283)).n_cpu_moe == 8
    fake.total = 1970
    assert "vram_limit_mib=1" not in fake.refusal(limit=960).partition("; ")[2], "the card itself is too small"
