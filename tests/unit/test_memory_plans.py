"""Which plan is meant, and what a recorded one says: of its choice, and of others on the card."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roles import remote
from roles.gpu.parse import Holder
from roles.host import HOST
from roles.memory import decide, operations, report, wanted
from roles.memory.observe import MEMORY, MemorySeen
from roles.memory.plan import Plan
from tests.unit import hosts, machines, seed
from tests.unit.deciding import acting, at_rest, left_out, reasons, resting
from tests.unit.fake_oracle import Fake
from tests.unit.planned import RPC, job, laptop, planned, unplanned, with_plan


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


@pytest.mark.parametrize(
    ("data", "changes", "why"),
    [
        ({"context": 65536, "vram_limit_mib": 4096}, {}, "-c 32768 -> 65536, vram_limit_mib none -> 4096"),
        ({"n_cpu_moe": 40}, {}, "n_cpu_moe auto -> 40"),
        ({"server_args": ["--no-kv-offload"]}, {}, "another server_args"),
        ({}, {"model": {"file": {"kind": "file", "mode": 0, "uid": 0, "size": 5, "mtime_ns": 5}}}, "another model"),
    ],
)
def test_why_it_is_planned_anew_is_told_by_name(data: dict[str, Any], changes: dict[str, Any], why: str) -> None:
    after = hosts.wishes(**{**RPC, **data})
    told = reasons(planned(after), hosts.converged(hosts.wishes(**RPC), **changes))
    assert told == f"plan the memory with llama.cpp itself: {why}"


def test_of_several_plans_the_nearest_is_compared_and_the_host_records_what_each_was_made_from(
    tmp_path: Path,
) -> None:
    wishes = hosts.wishes(**RPC)
    seen = hosts.converged(wishes)
    now = wanted.inputs(wishes, seen)
    [plan] = seen[MEMORY].plans.values()
    others = [plan.model_copy(update={"inputs": each}) for each in ({"-c": "1"}, {**now, "-ub": "1"}, {})]
    assert wanted.changes(now, others) == "-ub 1 -> 512"
    assert wanted.changes(now, others[2:]) == ""
    asked = job(planned(wishes), unplanned(wishes))
    assert Fake(tmp_path).plan(inputs=asked["inputs"])["inputs"] == now


@pytest.mark.parametrize("used", [10, 6000])
def test_a_card_that_others_use_is_the_same_card(used: int) -> None:
    digests = {
        wanted.digest(seed.wishes(), hosts.parsed(laptop(gpu=machines.nvidia(seed.RTX_3050, used=each))))
        for each in (750, used)
    }
    assert len(digests) == 1
    other = hosts.parsed(laptop(gpu=machines.nvidia(("NVIDIA RTX 4060", "8.6"))))
    assert wanted.digest(seed.wishes(), other) not in digests


def process(pid: int, name: str, used: int) -> str:
    body = f"<pid>{pid}</pid><type>G</type><process_name>{name}</process_name><used_memory>{used} MiB</used_memory>"
    return f"<process_info>{body}</process_info>"


def used_by(*processes: str, used: int) -> hosts.Answers:
    gpu = machines.nvidia(seed.RTX_3050, used=used)
    xml = f'<gpu id="1"><uuid>GPU-00000000</uuid>{"".join(processes)}</gpu>'
    return laptop(gpu={**gpu, "xml": {"rc": 0, "out": xml}})


OURS = process(7, "/home/dev/.local/share/paddock/releases/x/bin/llama-server", 4600)
TRIED = [
    {
        "gpu_layers": 99,
        "n_cpu_moe": number,
        "devices": [{"device": "CUDA0", "model": 1000, "context": 0, "compute": 0}],
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
        "n_cpu_moe=44 (the experts of 41 of 45 layers on the CPU): RPC0 4600 MiB (model 1594, context 1800, compute"
        " 1203) of 4800; host 7289 MiB; n_cpu_moe=43 would take at most 1003 MiB of CUDA0, 50 too many;"
        " n_cpu_moe=45 would take at most 1003 MiB of CUDA0, and leave 240"
    )


def test_what_is_risked_is_told_with_the_plan_and_a_plan_that_is_asked_on_about_is_not_told_yet() -> None:
    wishes, lines, unfit = hosts.wishes(**RPC), list[str](), list[dict[str, Any]]()
    (plan,) = hosts.plans(wishes, hosts.converged_answers(wishes)).values()
    report.teller(lines.append, unfit)([json.dumps({**plan, "problem": "it does not fit"})])
    assert [line.endswith("host 7289 MiB; it does not fit") for line in lines] == [True]
    report.teller(lines.append, unfit)(["noise", json.dumps({**plan, "nothing_fits": True})])
    assert (len(lines), len(unfit)) == (1, 1)


def test_a_plan_of_another_version_is_as_good_as_none() -> None:
    assert MemorySeen.model_validate({"plans": {"a": {"digest": 7}, "b": None}}).plans == {}
    assert hosts.bare()[MEMORY].plans == {}


def test_the_prediction_is_no_plan_and_is_not_told_as_one() -> None:
    wishes = hosts.wishes(**RPC)
    after = acting(planned(wishes), unplanned(wishes)).after
    (plan,) = after[MEMORY].plans.values()
    assert not plan.made
    assert at_rest(decide.planned(wishes, (), None, after))


@pytest.mark.parametrize(("free", "name", "pauses"), [(300, "ours", True), (500, "ours", False), (300, "tab", False)])
def test_where_our_own_service_fills_the_card_it_makes_room_for_the_question(
    free: int, name: str, pauses: bool
) -> None:
    holder = OURS if name == "ours" else process(9, "/opt/chrome", 4600)
    wishes = hosts.wishes(seed.SETTINGS, n_cpu_moe="auto")
    told = reasons(planned(wishes), hosts.parsed(used_by(holder, used=6144 - free)))
    assert ("llama-server stops for it" in told) == pauses


def test_a_service_of_the_systems_is_stopped_and_started_by_root() -> None:
    wishes = hosts.wishes(seed.SETTINGS, n_cpu_moe="auto", service_scope="system")
    steps = acting(planned(wishes), hosts.parsed(used_by(OURS, used=6144 - 300))).steps
    told = [(step.script.root, step.script.args[0]) for step in (steps[0], steps[-1])]
    assert told == [(True, "stop"), (True, "start")]
    assert json.loads(steps[1].script.args[0])["pause"] is False, "the user could not"
    assert steps[1].undo == steps[-1].script, "it comes back where the plan comes to nothing"


def card(number: int, held: int, limit: int | None = None) -> dict[str, Any]:
    room = min(6144 - 768 - 256, limit or 6144) - 320
    fields = {"total": 6144, "reserve": 768, "margin": 256, "overhead": 320, "limit": limit, "room": room}
    return {"device": f"CUDA{number}", "name": f"NVIDIA {seed.RTX_3050[0]}", **fields}


@pytest.mark.parametrize(("limit", "told"), [(3000, False), (4500, True), (None, True)])
def test_below_a_limit_of_ones_own_others_may_hold_what_is_beyond_it(limit: int | None, told: bool) -> None:
    loud = used_by(OURS, process(9, "/usr/bin/game", 1500), used=5600)
    wishes = hosts.wishes(seed.SETTINGS, vram_limit_mib=limit)
    seen = with_plan(wishes, loud, budgets=[card(0, 1500, limit)], tried=TRIED)
    assert (planned(wishes)(seen).left_out is not None) == told


def test_two_cards_of_one_name_have_a_reserve_each() -> None:
    nvidia = wanted.nvidia(hosts.parsed(laptop(gpu=machines.nvidia(seed.RTX_3050, seed.RTX_3050))))
    holders = tuple(
        Holder(pid=9, kind="G", name="/usr/bin/kwin", used=700, gpu=gpu.uuid, purpose="") for gpu in nvidia.gpus
    )
    wishes = seed.wishes()
    [plan] = hosts.plans(wishes, laptop(), budgets=[card(0, 0), {**card(1, 0), "reserve": 0, "room": 5568}]).values()
    told = report.warnings(Plan.model_validate({**plan, "backend": "cuda"}), replace(nvidia, holders=holders))
    assert [line.partition(" (")[0] for line in told] == [
        f"{seed.RTX_3050[0]}: others hold 700 MiB of VRAM now, and vram_reserve_mib leaves them 0"
    ]


def test_a_look_at_the_fleet_stops_no_service_and_a_plan_that_does_not_fit_is_an_answer() -> None:
    full = hosts.parsed(used_by(OURS, used=6144 - 300))
    for scope in ("user", "system"):
        wishes = hosts.wishes(seed.SETTINGS, n_cpu_moe="auto", service_scope=scope)
        [step] = decide.planned(wishes, (), None, full, gentle=True).steps
        told = json.loads(step.script.args[0])
        assert (told["pause"], told["check"], step.script.root) == (False, "warn", False)


@pytest.mark.parametrize(
    ("scope", "root", "asks"), [("system", "password", 1), ("system", "free", 0), ("user", "password", 0)]
)
def test_whoever_must_be_root_for_the_pause_is_asked_for_a_password(
    scope: str, root: str, asks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    there = SimpleNamespace(is_executing=False), SimpleNamespace(log=print)
    monkeypatch.setattr(operations, "context", lambda: there)
    monkeypatch.setattr(remote, "ask_password", lambda: asked.append(1))
    wishes = hosts.wishes(seed.SETTINGS, n_cpu_moe="auto", service_scope=scope)
    full = hosts.parsed(used_by(OURS, used=6144 - 300)).replace(HOST, root=root)
    assert operations._planned(wishes, True, [], full).steps
    assert len(asked) == asks
