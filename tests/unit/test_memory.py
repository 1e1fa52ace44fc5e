"""Whether the memory is planned: when a plan is made and from what, and when one stops a host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from roles.memory import decide
from roles.memory.words import TO_COME
from roles.service.observe import SERVICE
from roles.service.unit import wanted_unit
from tests.unit import hosts, machines, seed
from tests.unit.deciding import in_order, left_out, reasons, refusal
from tests.unit.planned import KNOWN, NOT_THERE, RPC, job, laptop, planned, unplanned, with_plan


def test_the_program_is_told_what_the_server_is_told() -> None:
    wishes = hosts.wishes(seed.SETTINGS, n_cpu_moe="auto", gpu_layers="auto", server_args=["--poll", "50"])
    told = job(planned(wishes), hosts.parsed(laptop()))
    assert told["words"] == ["-c", "122880", "-ub", "2048", "-np", "1", "-ctk", "q4_0", "-ctv", "q4_0", "-fa", "on"]
    assert told["extra"] == ["--poll", "50"]
    assert (told["gpu_layers"], told["n_cpu_moe"], told["explicit"]) == (None, None, False)
    assert (told["layers"], told["moe_layers"]) == (48, list(range(48)))
    assert (told["backend"], told["overhead"], told["margin"]) == ("cuda", 320, 256)
    assert told["cards"] == [{"name": seed.RTX_3050[0], "total": 6144, "reserve": 768}]
    assert (told["model"], told["twin"]) == (hosts.MODEL_PATH, [])


def test_a_card_without_a_display_keeps_nothing_for_a_desktop_and_a_number_is_taken() -> None:
    gpu = machines.nvidia(seed.RTX_3050)
    dark = {**gpu, "table": {**gpu["table"], "out": gpu["table"]["out"].replace("Enabled", "Disabled")}}
    told = job(planned(hosts.wishes(seed.SETTINGS, n_cpu_moe="auto")), hosts.parsed(laptop(gpu=dark)))
    assert told["cards"][0]["reserve"] == 0
    told = job(planned(hosts.wishes(seed.SETTINGS, vram_reserve_mib=1000)), hosts.parsed(laptop()))
    assert told["cards"][0]["reserve"] == 1000


def test_leading_dense_layers_hold_no_experts() -> None:
    assert job(planned(**RPC), unplanned(hosts.wishes(**RPC), model={"leading_dense": 3}))["moe_layers"] == list(
        range(3, 48)
    )


def test_a_model_that_is_to_come_is_planned_by_its_header() -> None:
    wishes = hosts.wishes(hosts.HUB_DATA, **RPC)
    wishes = replace(wishes, model=replace(hosts.PIN, anatomy=KNOWN))
    told = job(planned(wishes, (b"GGUF...",)), unplanned(hosts.wishes(hosts.HUB_DATA, **RPC), model=NOT_THERE))
    assert [(one["name"], one["size"]) for one in told["twin"]] == [("some.gguf", hosts.PIN.size)]
    assert (told["layers"], told["moe_layers"]) == (4, [1, 2, 3])
    assert "by the header of the model" in reasons(
        planned(wishes), unplanned(hosts.wishes(hosts.HUB_DATA, **RPC), model=NOT_THERE)
    )


def test_without_a_header_the_plan_waits_for_the_download() -> None:
    wishes = hosts.wishes(hosts.HUB_DATA, **RPC)
    told = left_out(planned(wishes), unplanned(wishes, model=NOT_THERE))
    assert told == "the model's header is not known here, so the memory is planned after the download"


def test_without_a_release_or_a_model_nothing_is_planned() -> None:
    wishes = hosts.wishes(**RPC)
    bare = unplanned(wishes, llama_cpp={"releases": {}})
    assert refusal(planned(wishes), bare).endswith("is not on this host; run the llama_cpp role too")
    assert "does not exist" in refusal(planned(wishes), unplanned(wishes, model={"file": None}))


def test_llama_cpps_own_fit_is_left_alone_and_said() -> None:
    wishes = hosts.wishes(**RPC, fit="on")
    assert left_out(planned(wishes), hosts.converged(wishes)).startswith("fit='on' leaves the split to llama.cpp")
    assert " -fit on " in wanted_unit(wishes, hosts.converged(wishes)).text


def test_a_header_that_tells_no_layers_needs_a_number() -> None:
    seen = unplanned(hosts.wishes(**RPC), model={"layers": None, "experts": None})
    assert refusal(planned(**RPC), seen).endswith("set gpu_layers as a number")
    assert job(planned(**RPC, gpu_layers=20), seen)["explicit"]


TWO = ["127.0.0.1:50052", "127.0.0.1:50053"]


@pytest.mark.parametrize(
    ("data", "moe", "words"),
    [
        ({}, True, f"-ngl 99 --n-cpu-moe {TO_COME}"),
        ({}, False, f"-ngl {TO_COME} "),
        ({"n_cpu_moe": 44}, True, "-ngl 99 --n-cpu-moe 44"),
        ({"gpu_layers": 20}, False, "-ngl 20 "),
        ({"rpc_servers": TWO}, True, f"--n-cpu-moe {TO_COME} -ts {TO_COME} "),
        ({"rpc_servers": TWO, "server_args": ["-ts", "3,1"]}, True, f"--n-cpu-moe {TO_COME} -fit off "),
    ],
)
def test_on_a_bare_host_the_split_is_known_after_the_plan(data: dict[str, Any], moe: bool, words: str) -> None:
    seen = hosts.bare(model={} if moe else {"experts": None})
    for decide_on in in_order(hosts.wishes(**{**RPC, **data})).values():
        seen = decide_on(seen).after
    assert words in (seen[SERVICE].unit or "")


def test_the_service_runs_the_split_that_was_planned() -> None:
    wishes = hosts.wishes(**RPC)
    assert " -ngl 99 --n-cpu-moe 44 " in wanted_unit(wishes, hosts.converged(wishes)).text


def test_without_a_plan_the_service_is_not_started_anew() -> None:
    wishes = hosts.wishes(**RPC)
    told = refusal(in_order(wishes)["service"], unplanned(wishes))
    assert told == "no plan of the memory is recorded for this release, model and settings; run the memory role too"


def test_a_plan_that_does_not_fit_stops_the_host_without_another_question() -> None:
    for wishes in (hosts.wishes(**RPC), hosts.wishes(**RPC, memory_check="warn")):
        answers = hosts.converged_answers(wishes)
        seen = with_plan(wishes, answers, problem="it does not fit")
        if wishes.settings.memory.memory_check == "refuse":
            assert refusal(planned(wishes), seen) == (
                "it does not fit. Change that, or take the risk with memory_check='warn'"
            )
        else:
            assert left_out(planned(wishes), seen) == "it does not fit"


def test_a_service_is_not_started_by_a_plan_that_does_not_fit() -> None:
    wishes = hosts.wishes(**RPC)
    seen = with_plan(wishes, hosts.converged_answers(wishes), problem="it does not fit")
    assert refusal(in_order(wishes)["service"], seen).startswith("it does not fit. Change that")


def test_numbers_that_nobody_checked_are_said_to_be_so() -> None:
    wishes = hosts.wishes(**RPC, n_cpu_moe=44)
    seen = with_plan(wishes, hosts.converged_answers(wishes), checked=False, devices=[], budgets=[])
    assert "nobody has checked that the model fits" in left_out(planned(wishes), seen)


def test_options_whose_memory_nobody_counts_are_refused_or_taken_at_ones_own_risk() -> None:
    settings = hosts.wishes(**RPC, server_args=["--mmproj", "/x.gguf"]).settings
    assert (decide.uncounted_refusal(settings) or "").startswith("server_args: --mmproj takes memory that")
    relaxed = hosts.wishes(**RPC, server_args=["-md", "/x.gguf"], memory_check="warn").settings
    assert decide.uncounted_refusal(relaxed) is None
    assert decide.uncounted_refusal(hosts.wishes(**RPC, server_args=["--poll", "50"]).settings) is None


def test_on_the_cpu_alone_numbers_for_a_device_mean_nothing() -> None:
    wishes = hosts.wishes(n_cpu_moe=44, gpu_layers=99)
    told = left_out(planned(wishes), hosts.converged(wishes))
    assert told == "on the CPU alone n_cpu_moe=44 and gpu_layers=99 mean nothing"


def test_a_number_of_experts_for_a_model_without_any_is_told_before_and_after_the_plan() -> None:
    wishes, dense = hosts.wishes(**RPC, n_cpu_moe=3), {"experts": None}
    sentence = "this model has no experts, so n_cpu_moe=3 moves nothing; leave it out, gpu_layers is for this model"
    assert planned(wishes)(unplanned(wishes, model=dense)).left_out == sentence
    assert left_out(planned(wishes), hosts.converged(wishes, model=dense)) == sentence
    assert planned(wishes)(unplanned(wishes)).left_out is None


def test_a_plan_that_is_asked_for_anew_is_made_though_there_is_one() -> None:
    wishes = hosts.wishes(**RPC)
    decision = decide.planned(wishes, (), None, hosts.converged(wishes), again=True)
    assert decision.refusal is None
    assert len(decision.steps) == 1
    assert decision.reasons == ("plan the memory with llama.cpp itself: as asked",)
