"""Which hosts a model fits, and what it would be like on other cards: the words and the figures of both tables."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Host, State
from rich.console import Console
from rich.table import Table

from roles.memory.observe import MEMORY
from roles.memory.plan import Plan
from roles.observation import Observation
from roles.overview import explore, fleet
from roles.overview.explore import BASIS, Explored
from roles.wishes import Anatomy, Wishes
from tests.unit import hosts, machines

ANATOMY = Anatomy(
    "qwen3moe", 48, 128, expert_bytes=(150 << 20,) * 48, trained_context=262144, dense_bytes=1000 << 20,
    cache_row=(24_576, 24_576),
)  # fmt: skip
GPU = {"gpu": machines.nvidia(("NVIDIA GeForce RTX 3050 6GB Laptop GPU", "8.6"))}


def wished(**data: Any) -> Wishes:
    wanted = hosts.wishes(hosts.HUB_DATA, **data)
    return replace(wanted, model=replace(hosts.PIN, anatomy=ANATOMY))


def text(shown: Table, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_header_alone_tells_what_other_cards_would_hold_at_least() -> None:
    rows = explore.alone(ANATOMY, wished(cache_type_k="q4_0", cache_type_v="q4_0").settings.service)
    assert [row["size"] for row in rows] == list(explore.SIZES)
    assert [row["split"]["n_cpu_moe"] for row in rows] == [20, 6, 0, 0, 0]
    assert [row["context"] for row in rows] == [194560, 262144, 262144, 262144, 262144]


@pytest.mark.parametrize("width", [60, 80, 160])
def test_each_card_is_a_line_that_fits_the_terminal(width: int) -> None:
    split = {"gpu_layers": 99, "n_cpu_moe": 44, "n_cpu_ffn": None}
    good = {"size": 6144, "room": 4800, "split": split, "takes": 4637, "experts": 0.083, "context": 131072}
    bad = {"size": 4096, "room": 2752, "split": None, "takes": 0, "experts": None, "context": 0}
    shown = text(explore.table("laptop", wished().settings.service, Explored([good, bad], BASIS["cuda"])), width)
    assert max(map(len, shown.splitlines())) <= width
    words = "".join(shown.replace("│", " ").split())
    assert "131072" in words
    if width > 60:
        assert "6144n_cpu_moe=448%4637of4800" in words
        assert "doesnotfit" in words


def row_of(wanted: Wishes, seen: Observation) -> tuple[str, str]:
    return fleet.by_header(wanted, seen, None)


def test_a_host_without_a_release_is_judged_by_the_header_and_that_is_said() -> None:
    assert row_of(wished(), hosts.bare(**GPU)) == (
        "perhaps",
        "by its header alone: at least 4072 of 6144 MiB of VRAM; certain after the build",
    )


def test_a_hopeless_model_does_not_fit_whatever_is_built() -> None:
    fits, why = row_of(wished(context=262144), hosts.bare(**GPU))
    assert fits == "no"
    assert "takes at least 25576 MiB of VRAM even with all experts on the CPU" in why


def test_a_model_that_is_larger_than_all_memory_does_not_fit() -> None:
    fits, why = row_of(wished(), hosts.bare(host={"memory_total": 8 << 30}))
    assert (fits, why) == (
        "no",
        "by its size alone; 11444 MiB of weights go into 0 MiB of VRAM and 6144 of RAM only from the disk",
    )


def test_a_file_of_ones_own_is_unknown_before_there_is_a_release() -> None:
    assert row_of(hosts.wishes(), hosts.bare())[0] == "unknown"


@pytest.mark.parametrize(
    ("fields", "fits", "why"),
    [
        ({}, "yes", "the host will hold 7289 MiB"),
        ({"problem": "n_cpu_moe=48 does not fit"}, "no", "n_cpu_moe=48 does not fit"),
        ({"checked": False}, "perhaps", "nobody has checked its numbers"),
        ({"repacked": 90_000}, "no", "ram_reserve=2G leaves 30720 of 32768 MiB"),
    ],
)
def test_a_plan_says_whether_it_fits_and_why(fields: dict[str, Any], fits: str, why: str) -> None:
    wanted = hosts.wishes()
    answers = hosts.converged_answers(wanted)
    answers["memory"] = {"plans": hosts.plans(wanted, answers, **fields)}
    seen = hosts.parsed(answers)
    [plan] = seen[MEMORY].plans.values()
    assert isinstance(plan, Plan)
    told = fleet.by_plan(wanted, plan, seen)
    assert told[0] == fits
    assert why in told[1]


def test_what_a_deploy_would_refuse_at_once_is_a_no_here_too() -> None:
    wanted = hosts.wishes(server_args=["--mmproj", "/x.gguf"])
    state, host = SimpleNamespace(), SimpleNamespace()  # nothing is asked of them
    told = fleet.row(cast(State, state), cast(Host, host), wanted, hosts.converged(wanted))
    assert told[1] == "no"
    assert told[2].startswith("server_args: --mmproj takes memory that llama-fit-params does not count")
