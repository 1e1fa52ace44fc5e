"""What people see of a plan: every item with its figure, on terminals of any width."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from roles import claim
from roles.benchmark.observe import BENCHMARK
from roles.memory import table
from roles.memory.plan import Budget, Share, Tried
from roles.memory.table import Measured
from roles.observation import Observation
from roles.overview import memory
from roles.service.observe import SERVICE
from tests.unit import hosts

DATA: dict[str, Any] = {"backend": "rpc", "rpc_servers": ["127.0.0.1:50052"]}


def tried(n: int, model: int, lacking: int) -> dict[str, Any]:
    share = Share(device="RPC0", model=model, context=1800, compute=1203)
    return Tried(gpu_layers=99, n_cpu_moe=n, devices=(share,), lacking=lacking).model_dump()


TRIED = [tried(43, 1742, 48), tried(44, 1594, -100), tried(45, 1446, -248)]


def seen(**fields: Any) -> Observation:
    wanted = hosts.wishes(**DATA)
    answers = hosts.converged_answers(wanted)
    answers["memory"] = {"plans": hosts.plans(wanted, answers, **{"tried": TRIED, **fields})}
    return hosts.parsed(answers)


def printed(host: Observation, width: int, measured: Measured = table.NOTHING) -> str:
    shown = table.of_host("laptop", hosts.wishes(**DATA), host, measured)
    assert shown is not None
    console = Console(file=io.StringIO(), width=width)
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def cells(text: str) -> dict[str, list[str]]:
    """The figures by the name of their line; of several lines with one name the last."""
    rows = [[cell.strip() for cell in line.strip("│┃").split("│")] for line in text.splitlines() if "│" in line]
    return {row[0]: row[1:] for row in rows}


MEASURED = Measured(vram=4700, ram=9000, anonymous=700)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_every_item_is_a_line_with_what_was_planned_and_what_was_measured(width: int) -> None:
    found = cells(printed(seen(), width, MEASURED))
    assert found["model, mapped from its file"] == ["6777", ""]
    assert found["prompt cache"] == ["2048", ""]
    assert found["reserved for the desktop"] == ["768", ""]
    assert found["of 6144 left"] == ["200", ""]
    assert found["of it fixed"] == ["2688", "700"]
    assert found["MemoryMax"] == ["10096", ""]
    assert found["left below MemoryMax"] == ["631", ""]
    assert found["RAM beside ram_reserve"] == ["30720", ""]
    assert found["in all"] == ["9465", "9000"]


def test_a_device_is_told_with_its_runtime_and_what_was_measured_of_it() -> None:
    text = printed(seen(), 80, MEASURED)
    assert ["in all", "4920", "4700"] in [
        [cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines()
    ]


@pytest.mark.parametrize("width", [60, 80])
def test_no_line_is_wider_than_the_terminal_and_no_figure_is_cut(width: int) -> None:
    text = printed(seen(), width, MEASURED)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text


def test_the_next_better_and_the_next_worse_split_are_told_with_what_they_take() -> None:
    text = " ".join(printed(seen(), 120).split())
    assert "n_cpu_moe=43 would take at most 4748 MiB of RPC0, 48 too many" in text
    assert "n_cpu_moe=45 would take at most 4452 MiB of RPC0, and leave 248" in text
    assert "laptop: memory, n_cpu_moe=44 (the experts of 44 of 48 layers on the CPU)" in text


def test_two_devices_have_one_measurement_together() -> None:
    two = [{"device": f"RPC{n}", "model": 800, "context": 900, "compute": 600} for n in (0, 1)]
    budget: dict[str, Any] = {
        "name": "x",
        "total": 6144,
        "reserve": 0,
        "margin": 256,
        "overhead": 320,
        "limit": 3000,
        "room": 2680,
    }
    budgets = [Budget(device=f"RPC{n}", **budget).model_dump() for n in (0, 1)]
    found = cells(printed(seen(devices=two, budgets=budgets, tried=[]), 100, MEASURED))
    assert found["all devices"] == ["5246", "4700"], (
        "as the lines of each say: figures that were cut down, and the runtime"
    )
    assert found["of 6144, vram_limit_mib 3000 left"] == ["377", ""]


@pytest.mark.parametrize("fields", [{"made": False, "checked": False}, {"checked": False}])
def test_there_is_no_table_without_figures(fields: dict[str, bool]) -> None:
    assert table.of_host("laptop", hosts.wishes(**DATA), seen(**fields), table.NOTHING) is None


def test_what_was_measured_is_that_of_the_process_that_runs() -> None:
    host = seen()
    last = host[BENCHMARK].last
    assert last is not None
    took = last.resources.model_copy(
        update={"peak_vram_mib": 5342, "peak_current_bytes": 12 << 30, "peak_anon_bytes": 700 << 20}
    )
    host = host.replace(BENCHMARK, last=last.model_copy(update={"resources": took}))
    assert memory.measured(host) == Measured(5342, 12288, 700)
    assert memory.measured(host.replace(SERVICE, running_stamp="another")) == table.NOTHING
    told = {**host[SERVICE].properties, "MemoryPeak": str(13 << 30)}
    assert memory.measured(host.replace(SERVICE, properties=told)).ram == 13312, "the kernel's own peak"


@pytest.mark.parametrize(
    ("executing", "changed", "shown"), [(False, False, True), (True, False, False), (True, True, True)]
)
def test_it_is_shown_before_a_word_is_waited_for_and_after_a_change(
    monkeypatch: pytest.MonkeyPatch, executing: bool, changed: bool, shown: bool
) -> None:
    told: list[object] = []
    monkeypatch.setattr(claim, "held", lambda host: changed)
    monkeypatch.setattr(table, "show", told.append)
    state, host = SimpleNamespace(is_executing=executing), SimpleNamespace(name="laptop")
    memory.show(state, host, hosts.wishes(**DATA), seen())  # type: ignore[arg-type]
    assert bool(told) == shown
