"""Why figures may not be trusted: each flag from what was seen, and none where nothing was."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from roles.benchmark import flags_program as flags
from tests.unit import measured

QUIET: dict[str, Any] = {"card": 100, "reasons": {}, "others": []}


def of_machine(
    resources: dict[str, Any] | None = None, quota: str | None = None, battery: bool = False, **counts: Any
) -> list[str]:
    return [
        f"{one['flag']}: {one['why']}" for one in flags.of_machine(resources or {}, {**QUIET, **counts}, quota, battery)
    ]


def test_a_quiet_machine_has_no_flags() -> None:
    quiet = {"peak_swap_bytes": 0, "host_swap_bytes": 10 << 20, "refaults": 1000}
    assert of_machine(quiet, reasons={"4": 90, "1": 50, "8": 5}) == []
    assert of_machine({"peak_swap_bytes": None}, card=0) == []


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"battery": True}, "battery: the machine ran on its battery"),
        ({"quota": "50 %"}, "cpu_quota: the unit may use 50 % of one processor (CPUQuota)"),
        ({"resources": {"peak_swap_bytes": 5 << 20}}, "swap: 5 MiB of llama-server were in swap"),
        (
            {"resources": {"peak_swap_bytes": 5 << 20, "host_swap_bytes": 64 << 20}},
            "swap: 5 MiB of llama-server were in swap; 64 MiB went to swap or came from it",
        ),
        (
            {"resources": {"host_swap_bytes": 64 << 20}},
            "swap: the machine swapped; 64 MiB went to swap or came from it",
        ),
        (
            {"resources": {"refaults": 100_000}},
            "refaults: 390 MiB of the model were read from the disk again: RAM is short",
        ),
        ({"others": ["chrome", "Xorg"]}, "other_gpu_process: the GPU was shared with Xorg, chrome"),
        ({"reasons": {"64": 20}}, "throttled: heat slowed the GPU down in 20 % of the time"),
        ({"reasons": {"32": 8, "64": 20}}, "throttled: heat slowed the GPU down in 20 % of the time"),
        ({"reasons": {"128": 6}}, "throttled: a power brake slowed the GPU down in 6 % of the time"),
        ({"reasons": {"8": 50}}, "throttled: hardware slowdown slowed the GPU down in 50 % of the time"),
    ],
)
def test_each_trouble_has_its_flag(told: dict[str, Any], sentence: str) -> None:
    assert of_machine(**told) == [sentence]


@pytest.mark.parametrize(
    ("others", "whole", "cores", "told"),
    [
        (1.5, 2.0, 2, True),
        (1.5, 1.6, 2, False),  # whoever needs a core finds one
        (0.4, 2.0, 2, False),
        (4.0, 12.0, 8, True),  # of 16 processors, two to a core
        (4.0, 5.0, 8, False),  # all layers are on a card
        (0.7, 8.7, 8, False),  # a desktop in use
    ],
)
def test_what_others_worked_is_told_where_the_server_had_to_share_its_cores(
    others: float, whole: float, cores: int, told: bool
) -> None:
    found = flags.other_work({"watched": 100.0, "others_worked": others * 100, "worked": whole * 100}, cores)
    why = f"others kept {others} processors busy meanwhile, and none of {cores} cores was free"
    assert found == [{"flag": "other_cpu_work", "why": why}] * told
    assert flags.other_work({}, cores) == []


def test_two_processors_of_a_core_are_one_core(tmp_path: Path) -> None:
    for number, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        place = tmp_path / f"cpu{number}/topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(siblings + "\n")
    assert flags.physical_cores(str(tmp_path)) == 2
    assert flags.physical_cores(str(tmp_path / "none")) == os.cpu_count()


def clocks(values: Sequence[float | None], what: str = "pp", name: str = "gpu_clock_mhz") -> list[Any]:
    seconds = [float(at) for at in range(len(values))]
    phases = [{"second": 0.0, "what": what, "n_depth": 1}]
    return flags.clock_drops({"seconds": seconds, "series": {name: values}, "phases": phases})


def test_a_clock_that_falls_while_prompts_are_read_is_flagged() -> None:
    falling = [1800.0] * 8 + [1400.0] * 8
    assert clocks(falling) == [{"flag": "clock_drop", "why": "the GPU's clock fell from 1800 to 1400 MHz"}]
    assert clocks(falling, name="cpu_mhz")[0]["why"].startswith("the processor's clock fell")
    assert clocks(falling[::-1]) == []
    assert clocks([1800.0] * 8 + [1600.0] * 8) == []


def test_a_clock_that_idles_between_tokens_is_none_that_fell() -> None:
    assert clocks([1800.0] * 8 + [300.0] * 8, what="tg") == []


def test_of_few_samples_no_fall_is_told() -> None:
    assert clocks([1800.0] * 3 + [300.0] * 4) == []
    assert clocks([None] * 20) == []


def test_samples_that_are_far_apart_are_told_with_their_depth() -> None:
    row = {**measured.row(1024, 500.0, 20.0), "tg": measured.figure(20.0, 23.0, 21.0)}
    assert flags.of_rows([row]) == [
        {"flag": "wide_spread", "why": "tg at 1024: 20 to 23 tokens per second, 14 % apart"}
    ]
    assert flags.of_rows([{**row, "tg": measured.figure(20.0, 21.9)}]) == []
    assert flags.of_rows([{**row, "tg": measured.figure(0.0, 0.0)}]) == []


@pytest.mark.parametrize(
    ("disagreement", "total", "flagged"),
    [(0.2, 1.0, False), (0.3, 1.0, True), (-0.3, 1.0, True), (4.0, 100.0, False), (6.0, 100.0, True)],
)
def test_clocks_may_differ_by_a_quarter_of_a_second_or_a_twentieth(
    disagreement: float, total: float, flagged: bool
) -> None:
    assert (flags.late(disagreement, total, 1024) is not None) == flagged


def supply(root: Path, name: str, **values: str) -> None:
    (root / name).mkdir()
    for key, value in values.items():
        (root / name / key).write_text(value + "\n")


def test_a_battery_that_is_emptied_is_the_machines_own(tmp_path: Path) -> None:
    assert not flags.on_battery(str(tmp_path))
    supply(tmp_path, "AC", type="Mains", online="0")
    supply(tmp_path, "mouse", type="Battery", scope="Device", status="Discharging")
    supply(tmp_path, "BAT0", type="Battery", status="Charging")
    assert not flags.on_battery(str(tmp_path))
    supply(tmp_path, "BAT1", type="Battery", scope="System", status="Discharging")
    assert flags.on_battery(str(tmp_path))
