"""Whether the memory is planned: which plan is meant, when one is made, and when one stops a host."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from roles.llama_cpp.release import wanted_release
from roles.memory import decide, report, wanted
from roles.memory.observe import MEMORY, MemorySeen
from roles.memory.plan import Plan
from roles.memory.words import TO_COME
from roles.observation import Observation
from roles.service.observe import SERVICE
from roles.service.unit import wanted_unit
from roles.wishes import Anatomy, Wishes
from tests.unit import hosts, seed
from tests.unit.deciding import Decide, acting, at_rest, in_order, left_out, reasons, refusal, resting

RPC: dict[str, Any] = {"backend": "rpc", "rpc_servers": ["127.0.0.1:50052"]}
NOT_THERE: dict[str, Any] = {"file": None, "is_gguf": False, "layers": None, "experts": None}
KNOWN = Anatomy("qwen3moe", 4, 128, 8, expert_bytes=(0, 7, 7, 7))


def planned(wishes: Wishes | None = None, headers: tuple[bytes, ...] = (), **data: Any) -> Decide:
    return partial(decide.planned, wishes or hosts.wishes(**data), headers, None)


def unplanned(wishes: Wishes, **changes: dict[str, Any]) -> Observation:
    return hosts.converged(wishes, memory={"plans": {}}, **changes)


def job(decision_on: Decide, seen: Observation) -> Any:
    (step,) = acting(decision_on, seen).steps
    assert step.script.python
    return json.loads(step.script.args[0])


def with_plan(wishes: Wishes, answers: hosts.Answers, **fields: Any) -> Observation:
    return hosts.parsed({**answers, "memory": {"plans": hosts.plans(wishes, answers, **fields)}})


def laptop(**changes: dict[str, Any]) -> hosts.Answers:
    """The seed's machine, built and with its model."""
    answers = seed.laptop_answers(**changes)
    release = wanted_release(seed.wishes(), hosts.parsed(answers))
    return hosts.changed(answers, {"llama_cpp": {"releases": {release.key: release.stamp}}})


def test_what_was_planned_once_is_not_asked_again() -> None:
    for wishes in (hosts.wishes(), hosts.wishes(**RPC), hosts.wishes(hosts.HUB_DATA, **RPC)):
        resting(planned(wishes), hosts.converged(wishes))


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        ({"context": 65536}, {}),
        ({"ubatch": 1024}, {}),
        ({"cache_type_k": "q8_0", "cache_type_v": "q8_0"}, {}),
        ({"flash_attention": "on"}, {}),
        ({"n_cpu_moe": 40}, {}),
        ({"gpu_layers": 20}, {}),
        ({"server_args": ["--no-kv-offload"]}, {}),
        ({"vram_limit_mib": 4096}, {}),
        ({"vram_margin_mib": 128}, {}),
        ({"vram_reserve_mib": 0}, {}),
        ({"rpc_servers": ["127.0.0.1:50052", "127.0.0.1:50053"]}, {}),
        ({"llama_cmake_args": ["GGML_NATIVE=OFF"]}, {}),
        ({}, {"model": {"file": {"kind": "file", "mode": 0, "uid": 0, "size": 5, "mtime_ns": 5}}}),
    ],
)
def test_everything_that_decides_about_memory_asks_for_another_plan(
    data: dict[str, Any], changes: dict[str, Any]
) -> None:
    before, after = hosts.wishes(**RPC), hosts.wishes(**{**RPC, **data})
    seen = hosts.converged(before, **changes)
    assert wanted.plan_of(after, seen) is None
    assert wanted.plan_of(before, hosts.converged(before)) is not None


@pytest.mark.parametrize(
    "data",
    [{"port": 8080}, {"temperature": 0.5}, {"cache_ram_mib": 0}, {"threads": 3}, {"memory_check": "warn"}],
)
def test_what_takes_no_vram_does_not(data: dict[str, Any]) -> None:
    before, after = hosts.wishes(**RPC), hosts.wishes(**{**RPC, **data})
    assert wanted.plan_of(after, hosts.converged(before)) == wanted.plan_of(before, hosts.converged(before))


@pytest.mark.parametrize("used", [10, 6000])
def test_a_card_that_others_use_is_the_same_card(used: int) -> None:
    digests = {
        wanted.digest(seed.wishes(), hosts.parsed(laptop(gpu=hosts.nvidia(seed.RTX_3050, used=each))))
        for each in (750, used)
    }
    assert len(digests) == 1
    other = hosts.parsed(laptop(gpu=hosts.nvidia(("NVIDIA RTX 4060", "8.6"))))
    assert wanted.digest(seed.wishes(), other) not in digests


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
    gpu = hosts.nvidia(seed.RTX_3050)
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


@pytest.mark.parametrize(
    ("data", "moe", "words"),
    [
        ({}, True, f"-ngl 99 --n-cpu-moe {TO_COME}"),
        ({}, False, f"-ngl {TO_COME} "),
        ({"n_cpu_moe": 44}, True, "-ngl 99 --n-cpu-moe 44"),
        ({"gpu_layers": 20}, False, "-ngl 20 "),
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


def process(pid: int, name: str, used: int) -> str:
    body = f"<pid>{pid}</pid><type>G</type><process_name>{name}</process_name><used_memory>{used} MiB</used_memory>"
    return f"<process_info>{body}</process_info>"


def used_by(*processes: str, used: int) -> hosts.Answers:
    gpu = hosts.nvidia(seed.RTX_3050, used=used)
    xml = f'<gpu id="1"><uuid>GPU-00000000</uuid>{"".join(processes)}</gpu>'
    return laptop(gpu={**gpu, "xml": {"rc": 0, "out": xml}})


OURS = process(7, "/home/dev/.local/share/paddock/releases/x/bin/llama-server", 4600)
TRIED = [
    {
        "gpu_layers": 99,
        "n_cpu_moe": number,
        "devices": [{"device": "CUDA0", "model": 1000, "context": 0, "compute": 0}],
        "host": {"device": "Host", "model": 0, "context": 0, "compute": 0},
        "lacking": lacking,
    }
    for number, lacking in ((43, 50), (44, -100), (45, -240), (46, -380))
]


def test_vram_that_others_hold_beyond_the_reserve_is_a_warning_with_names_and_no_other_plan() -> None:
    budget = {"device": "CUDA0", "name": f"NVIDIA {seed.RTX_3050[0]}", "total": 6144, "reserve": 768, "margin": 256}
    fields = {"budgets": [{**budget, "overhead": 320, "limit": None, "room": 4800}], "tried": TRIED}
    calm = used_by(OURS, process(8, "/usr/bin/kwin", 700), used=5300)
    resting(planned(seed.wishes()), with_plan(seed.wishes(), calm, **fields))
    loud = used_by(OURS, process(8, "/usr/bin/kwin", 300), process(9, "/opt/chrome", 700), used=5600)
    assert left_out(planned(seed.wishes()), with_plan(seed.wishes(), loud, **fields)) == (
        f"{seed.RTX_3050[0]}: others hold 1000 MiB of VRAM now, and vram_reserve_mib leaves them 768 (chrome 700, kwin"
        " 300); close them, or set vram_reserve_mib=1000, with which n_cpu_moe=45 fits"
    )


def test_a_plan_in_a_line_tells_the_layers_really_on_the_cpu_and_its_neighbours() -> None:
    (plan,) = hosts.plans(hosts.wishes(**RPC), hosts.converged_answers(hosts.wishes(**RPC))).values()
    plan |= {"tried": TRIED, "moe_layers": 45, "moe_layers_on_cpu": 41}
    assert report.line(Plan.model_validate(plan)) == (
        "n_cpu_moe=44 (the experts of 41 of 45 layers on the CPU): RPC0 4597 MiB (model 1594, context 1800, compute"
        " 1203) of 4800; host 7289 MiB; n_cpu_moe=43 would take 1000; n_cpu_moe=45 would take 1000"
    )


def test_a_plan_of_another_version_is_as_good_as_none() -> None:
    assert MemorySeen.model_validate({"plans": {"a": {"digest": 7}, "b": None}}).plans == {}
    assert hosts.bare()[MEMORY].plans == {}


def test_the_prediction_is_no_plan_and_is_not_told_as_one() -> None:
    wishes = hosts.wishes(**RPC)
    after = acting(planned(wishes), unplanned(wishes)).after
    (plan,) = after[MEMORY].plans.values()
    assert not plan.made
    assert at_rest(decide.planned(wishes, (), None, after))
    assert decide.planned(wishes, (), None, after).left_out is None
