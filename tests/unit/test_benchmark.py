"""Whether what is served has been measured, and how the figures are shown."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from roles.benchmark import decide, table
from roles.benchmark.observe import BENCHMARK, Result
from roles.memory.plan import Plan, Share
from roles.service.observe import SERVICE
from tests.unit import hosts, seed
from tests.unit.deciding import Decide, acting, reasons, refusal, resting
from tests.unit.programs import definitions

FIGURES: dict[str, Any] = {
    "time": "2026-11-30T12:00:00Z",
    "stamp": "0" * 16,
    "config": "Mix-12G, n44, KV q4_0",
    "tokens": 64,
    "rows": [
        {"n_depth": 0, "pp": None, "tg": 33.6},
        {"n_depth": 32768, "pp": 874.9, "tg": 22.44},
        {"n_depth": 102400, "pp": 606.0, "tg": 13.3},
        {"n_depth": 1000, "pp": 500.5, "tg": 30.0},
    ],
    "peak_vram_mib": 5342,
    "peak_ram_bytes": 11_300_000_000,
}


def measured(**data: Any) -> Decide:
    return partial(decide.measured, hosts.wishes(**data), lambda lines: None)


def last(**fields: Any) -> dict[str, Any]:
    return {"last": {**hosts.converged_answers()["benchmark"]["last"], **fields}}


@pytest.mark.parametrize(
    ("decide", "changes", "why"),
    [
        (measured(), {"benchmark": {"last": None}}, "nothing measured yet"),
        (measured(), {"benchmark": last(stamp="0" * 16)}, "what is served changed"),
        (measured(benchmark_depths=[0, 2048, 8192]), {}, "other depths"),
        (measured(benchmark_depths=[2048, 0]), {}, "other depths"),
        (measured(benchmark_tokens=128), {}, "another number of tokens"),
        (measured(), {"benchmark": last(driver="580.119.02")}, "driver 580.119.02 -> none"),
        (measured(), {"machine": {"kernel": "6.13.0"}}, f"kernel {hosts.KERNEL} -> 6.13.0"),
    ],
)
def test_why_it_is_measured(decide: Decide, changes: dict[str, Any], why: str) -> None:
    told = reasons(decide, hosts.converged(**changes))
    assert told.startswith("measure at ")
    assert told.endswith(f" tokens of context: {why}")


def test_no_depths_are_no_benchmark() -> None:
    resting(measured(benchmark_depths=[]), hosts.converged(benchmark={"last": None}))


def test_what_somebody_stopped_is_not_measured() -> None:
    resting(measured(), hosts.converged(service={"masked": True, "unit": None}, benchmark={"last": None}))


@pytest.mark.parametrize("data", [{"context": 65536}, {"llama_cmake_args": ["GGML_LTO=ON"]}])
def test_figures_of_something_else_than_what_is_wanted_are_not_taken(data: dict[str, Any]) -> None:
    assert "run the service role too" in refusal(measured(**data), hosts.converged())


def test_what_cannot_be_built_cannot_be_measured() -> None:
    assert "a CUDA toolkit is needed" in refusal(measured(backend="cuda"), hosts.converged())


def test_the_runner_is_told_what_is_served_and_what_is_wanted() -> None:
    seen = hosts.converged(benchmark={"last": None})
    (step,) = acting(measured(), seen).steps
    assert step.script.python
    assert json.loads(step.script.args[0]) == {
        "unit": "paddock-llama-server.service",
        "url": "http://127.0.0.1:8091",
        "key_file": "",
        "stamp": seen[SERVICE].running_stamp,
        "config": "Flint-abliterated-Mix-12G, n0, KV f16",
        "depths": [0, 2048],
        "tokens": 64,
        "driver": None,
        "kernel": hosts.KERNEL,
        "history": "~/.local/share/paddock/benchmarks.jsonl",
    }


@pytest.mark.parametrize("depths", [[0], [0, 2048], [0, 32768, 102400, 120832]])
def test_the_limit_of_a_run_has_room_for_every_figures_own(depths: list[int]) -> None:
    wanted = hosts.wishes(context=131072, benchmark_depths=depths).settings.benchmark
    assert decide.limit(wanted) > sum(600 + depth / definitions("benchmark/program.py").SLOWEST for depth in depths)


HOST = Share(device="Host", model=6777, context=0, compute=512)


@pytest.mark.parametrize(
    ("data", "config"),
    [
        (seed.SETTINGS, "Flint-abliterated-Mix-12G, n44, KV q4_0"),
        ({}, "Flint-abliterated-Mix-12G, n7, KV f16"),
        ({"fit": "on"}, "Flint-abliterated-Mix-12G, fit, KV f16"),
        ({"n_cpu_moe": 48, "cache_type_k": "q8_0", "cache_type_v": "q8_0"}, "Flint-abliterated-Mix-12G, n48, KV q8_0"),
        ({"cache_type_k": "q8_0", "cache_type_v": "q4_0"}, "Flint-abliterated-Mix-12G, n7, KV q8_0/q4_0"),
        ({"gpu_layers": 20}, "Flint-abliterated-Mix-12G, n7, KV f16"),
        ({"model_path": "/a/b.c/My.Model.gguf"}, "My.Model, n7, KV f16"),
    ],
)
def test_a_row_is_called_as_in_the_article(data: dict[str, Any], config: str) -> None:
    plan = Plan(digest="", gpu_layers=99, n_cpu_moe=7, layers=49, offloaded=49, devices=(), host=HOST)
    assert decide.configuration(hosts.wishes(**data).settings, plan) == config


def test_the_model_of_a_repository_is_called_by_its_file() -> None:
    settings = hosts.wishes(hosts.HUB_DATA, model_file="sub/Some-Q4_K_M.gguf").settings
    assert decide.configuration(settings, None) == "Some-Q4_K_M, n0, KV f16"


def shown(**fields: Any) -> tuple[list[str], list[str]]:
    """Headings and cells of the table."""
    result = Result.model_validate({**FIGURES, **fields})
    columns = table.table("laptop", result).columns
    return [str(column.header) for column in columns], [str(next(iter(column.cells))) for column in columns]


def test_the_table_has_the_articles_columns_and_figures() -> None:
    headings, cells = shown()
    assert headings[:5] == ["Config", "Peak VRAM (MiB)", "RAM (GB)", "tg empty", "32k pp / tg"]
    assert cells[:5] == ["Mix-12G, n44, KV q4_0", "5342", "11.3", "33.6", "875 / 22.4"]


def test_a_depth_is_told_in_thousands_where_it_is_round() -> None:
    assert shown()[0][5:] == ["100k pp / tg", "1000 pp / tg"]
    assert shown()[1][5:] == ["606 / 13.3", "500 / 30.0"]


def test_a_host_without_a_gpu_has_no_peak() -> None:
    assert shown(peak_vram_mib=None)[1][1] == "none"


def test_what_the_runner_printed_is_shown_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    table.show("laptop", ["noise before", json.dumps({"schema": 1, "kind": "smoke", **FIGURES})])
    printed = capsys.readouterr()
    assert printed.out == "", "standard output is pyinfra's --json"
    assert "laptop, 2026-11-30T12:00:00Z, tokens per second" in printed.err
    assert "5342" in printed.err


def test_the_last_result_is_the_hosts_own() -> None:
    result = hosts.converged()[BENCHMARK].last
    assert result is not None
    assert result.depths == (0, 2048)
