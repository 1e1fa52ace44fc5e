"""Whether what is served has been measured, what a run is told, and how the figures are shown."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from roles.benchmark import decide, runner, table
from roles.benchmark.observe import BENCHMARK, BenchmarkSeen
from roles.benchmark.passage import passage
from roles.benchmark.record import Result
from roles.benchmark.told import configuration
from roles.operation import Decision
from roles.service.observe import SERVICE
from roles.service.reasons import options
from tests.unit import hosts, machines, measured, seed
from tests.unit.deciding import Decide, acting, reasons, refusal, resting


def smoke(**data: Any) -> Decide:
    return partial(decide.measured, hosts.wishes(**data), lambda lines: None)


def full(**data: Any) -> Decide:
    return partial(decide.measured_in_full, hosts.wishes(**data), lambda lines: None)


def last(**fields: Any) -> dict[str, Any]:
    return {"last": {**hosts.converged_answers()["benchmark"]["last"], **fields}}


@pytest.mark.parametrize(
    ("decide", "changes", "why"),
    [
        (smoke(), {"benchmark": {"last": None}}, "nothing measured yet"),
        (smoke(), {"benchmark": last(stamp="0" * 16)}, "what is served changed"),
        (smoke(), {"benchmark": last(kind="full", stamp="0" * 16)}, "what is served changed"),
        (smoke(benchmark_depths=[0, 2048, 8192]), {}, "other depths"),
        (smoke(benchmark_depths=[2048, 0]), {}, "other depths"),
        (smoke(benchmark_tokens=64), {}, "another number of tokens"),
        (smoke(), {"benchmark": last(driver="580.119.02")}, "driver 580.119.02 -> none"),
        (smoke(), {"machine": {"kernel": "6.13.0"}}, f"kernel {machines.KERNEL} -> 6.13.0"),
    ],
)
def test_why_it_is_measured(decide: Decide, changes: dict[str, Any], why: str) -> None:
    told = reasons(decide, hosts.converged(**changes))
    assert told.startswith("measure at ")
    assert told.endswith(f" tokens of context: {why}")


@pytest.mark.parametrize("fields", [{"depths": [0, 32768]}, {"tokens": 512}, {"depths": [], "rows": []}])
def test_the_figures_of_a_full_run_will_do(fields: dict[str, Any]) -> None:
    resting(smoke(), hosts.converged(benchmark=last(kind="full", **fields)))


def test_figures_of_which_some_were_left_out_will_do() -> None:
    resting(smoke(), hosts.converged(benchmark=last(rows=[], left_out=["2k: it takes too long"])))


def test_more_samples_are_for_the_next_run() -> None:
    resting(smoke(benchmark_repetitions=9), hosts.converged())


def test_no_depths_are_no_benchmark() -> None:
    resting(smoke(benchmark_depths=[]), hosts.converged(benchmark={"last": None}))


def test_what_somebody_stopped_is_not_measured() -> None:
    resting(smoke(), hosts.converged(service={"masked": True, "unit": None}, benchmark={"last": None}))


@pytest.mark.parametrize("data", [{"context": 65536}, {"llama_cmake_args": ["GGML_LTO=ON"]}])
@pytest.mark.parametrize("kind", [smoke, full])
def test_figures_of_something_else_than_what_is_wanted_are_not_taken(kind: Any, data: dict[str, Any]) -> None:
    assert "deploy it first: `pyinfra -y INVENTORY deploy.py`" in refusal(kind(**data), hosts.converged())


@pytest.mark.parametrize("kind", [smoke, full])
def test_what_cannot_be_built_cannot_be_measured(kind: Any) -> None:
    assert "a CUDA toolkit is needed" in refusal(kind(backend="cuda"), hosts.converged())


@pytest.mark.parametrize(
    ("data", "changes"), [({"benchmark_depths": []}, {}), ({}, {"service": {"masked": True, "unit": None}})]
)
def test_a_full_run_of_nothing_is_refused(data: dict[str, Any], changes: dict[str, Any]) -> None:
    assert refusal(full(**data), hosts.converged(**changes)).startswith("nothing to measure: ")


def test_a_full_run_is_made_whenever_it_is_asked_for() -> None:
    seen = hosts.converged()
    for _ in range(2):
        decision = full()(seen)
        assert decision.reasons == ("measure at 0 and 32256 tokens of context: as asked",)
        seen = decision.after


def told(decision: Decision) -> Any:
    """What the runner is told, from the script that follows its job."""
    job = json.loads(decision.steps[0].script.args[0])
    line = job["script"].splitlines()[-1]
    assert line.startswith("job ")
    return json.loads(line[len("job '") : -1].replace("'\"'\"'", "'"))


def test_the_runner_is_told_what_is_served_and_what_is_wanted() -> None:
    seen = hosts.converged(benchmark={"last": None})
    wire = told(acting(smoke(), seen))
    about = wire.pop("about")
    assert wire == {
        "unit": "paddock-llama-server.service",
        "manager": "user",
        "url": "http://127.0.0.1:8091",
        "key_file": "",
        "schema": 2,
        "history": "~/.local/share/paddock/benchmarks.jsonl",
        "kind": "smoke",
        "depths": [0, 2048],
        "tokens": 128,
        "repetitions": 3,
        "seconds": 100,
        "bench": [],
        "bench_seconds": 0,
    }
    assert (about["stamp"], about["config"]) == (seen[SERVICE].running_stamp, "Flint-abliterated-Mix-12G, CPU, KV f16")
    assert (about["driver"], about["kernel"], about["cpu_info"]) == (None, machines.KERNEL, "AMD Ryzen 5 7535HS")
    assert (about["n_ubatch"], about["type_k"], about["n_cpu_moe"]) == (512, "f16", None)


def test_the_article_is_in_the_record_by_llama_benchs_names() -> None:
    wishes = hosts.wishes(seed.SETTINGS)
    about = told(decide.measured(wishes, lambda lines: None, hosts.converged(wishes, benchmark={"last": None})))[
        "about"
    ]
    names = ("n_ubatch", "type_k", "type_v", "n_gpu_layers", "n_cpu_moe", "flash_attn", "n_threads", "model_type")
    assert [about[name] for name in names] == [
        2048,
        "q4_0",
        "q4_0",
        None,
        None,
        "on",
        6,
        "qwen3moe",
    ]  # no device: no split
    assert about["settings"]["cache_ram_mib"] == 2048
    assert not {"host", "port", "api_key_file"} & about["settings"].keys()
    assert len(about["settings_digest"]) == 16


def test_what_is_told_can_be_read_as_a_record() -> None:
    wire = told(acting(smoke(), hosts.converged(benchmark={"last": None})))
    beside = {"kind": "smoke", "run": "a", "test_time": "b", "depths": [0], "tokens": 1, "rows": []}
    assert Result.model_validate({**beside, **wire["about"]}).n_batch == 2048
    assert not wire["about"].keys() - Result.model_fields.keys()


@pytest.mark.parametrize(
    ("data", "kind", "depths"),
    [
        ({"context": 122880}, "full", (0, 32768, 102400, 120832)),
        ({"context": 131072}, "full", (0, 32768, 102400, 120832)),
        ({"context": 65536}, "full", (0, 32768, 65024)),
        ({"context": 4096}, "full", (0, 3584)),
        ({"context": 4096}, "smoke", (0, 2048)),
        ({"context": 1024}, "smoke", (0, 512)),
        ({"context": 256}, "smoke", (0,)),
        ({"benchmark_depths": [8192, 0]}, "smoke", (8192, 0)),
        ({"benchmark_depths": [8192, 0]}, "full", (8192, 0)),
    ],
)
def test_the_seeds_depths_are_cut_to_the_context(data: dict[str, Any], kind: Any, depths: tuple[int, ...]) -> None:
    assert decide.depths(hosts.wishes(**data).settings, kind) == depths


def test_llama_bench_gets_what_the_service_runs_with_and_the_unit_brings_it_back() -> None:
    wishes = hosts.wishes(seed.SETTINGS, benchmark_llama_bench=True, benchmark_depths=[0, 32768, 65536])
    decision = decide.measured_in_full(wishes, lambda lines: None, hosts.converged(wishes))
    assert decision.reasons[0].endswith("; llama-bench too, paddock-llama-server.service stops for it and starts again")
    to_depth, at_depth = told(decision)["bench"]
    program, *words = to_depth
    assert program.endswith("/bin/llama-bench")
    assert " ".join(words) == (
        f"-m {hosts.MODEL_PATH} -ub 2048 -ctk q4_0 -ctv q4_0 -fa on -t 6 -r 3 -o jsonl -d 0 -p 32768,65536 -n 0"
    )
    assert at_depth[-6:] == ["-d", "0,32768,65536", "-p", "2048", "-n", "128"]
    job = json.loads(decision.steps[0].script.args[0])
    assert job["after"] == "systemctl --user start paddock-llama-server.service"
    assert job["memory"] == (24 << 30) + runner.MEMORY


def test_llama_bench_spells_options_its_own_way() -> None:
    told = {
        "-m": "/m.gguf",
        "-ngl": "99",
        "--n-cpu-moe": "44",
        "--rpc": "127.0.0.1:5",
        "--load-mode": "none",
        "-fit": "on",
        "-np": "1",
    }
    wire = {"repetitions": 1, "depths": [0], "tokens": 8, "about": {"n_ubatch": 512}}
    (only,) = runner.llama_bench(told, "/r", wire)
    assert " ".join(only) == (
        "/r/bin/llama-bench -m /m.gguf -ngl 99 -ncmoe 44 -lm none -rpc 127.0.0.1:5 -fitt 1024"
        " -r 1 -o jsonl -d 0 -p 512 -n 8"
    )


def test_a_service_that_root_alone_may_stop_is_measured_without_llama_bench() -> None:
    wishes = hosts.wishes(service_scope="system", benchmark_llama_bench=True)
    decision = decide.measured_in_full(wishes, lambda lines: None, hosts.converged(wishes))
    assert decision.left_out == f"benchmark_llama_bench: {decide.ROOTS}"
    assert (told(decision)["bench"], told(decision)["manager"]) == ([], "system")


def test_a_smoke_run_never_stops_the_service() -> None:
    decision = acting(smoke(benchmark_llama_bench=True), hosts.converged(benchmark={"last": None}))
    assert told(decision)["bench"] == []
    job = json.loads(decision.steps[0].script.args[0])
    assert (job["after"], job["memory"]) == ("", runner.MEMORY)


@pytest.mark.parametrize("depths", [[0], [0, 2048], [0, 32768, 102400, 120832]])
def test_the_limit_of_a_full_run_has_room_for_a_slow_machine(depths: list[int]) -> None:
    wishes = hosts.wishes(context=122880, benchmark_depths=depths)
    job = json.loads(
        decide.measured_in_full(wishes, lambda lines: None, hosts.converged(wishes)).steps[0].script.args[0]
    )
    assert job["seconds"] > 3 * sum(600 + depth / 20 for depth in depths)


@pytest.mark.parametrize(
    ("words", "config"),
    [
        ("-m /m/Mix-12G.gguf -ngl 99 --n-cpu-moe 44 -fit off -ctk q4_0 -ctv q4_0", "Mix-12G, n44, KV q4_0"),
        ("-m /a/b.c/My.Model.gguf -fit on -ctk q8_0 -ctv q4_0", "My.Model, fit, KV q8_0/q4_0"),
        ("-m m.gguf -ngl 20 -fit off", "m, n0, KV f16"),
        ("-m m.gguf -fit off", "m, CPU, KV f16"),
    ],
)
def test_a_row_is_called_as_in_the_article(words: str, config: str) -> None:
    assert configuration(options(f"ExecStart=/r/bin/llama-server {words}\n")) == config


@pytest.mark.parametrize("tokens", [100, 50_000, 130_000, 400_000])
def test_there_is_always_text_enough_and_none_of_it_comes_again_as_it_was(tokens: int) -> None:
    text = passage(tokens)
    assert len(text) == 6 * tokens
    assert text == passage(tokens)
    assert text.startswith("Call me Ishmael.")
    places = range(0, len(text) - 200, len(text) // 40)
    assert all(text.count(text[at : at + 10_000]) == 1 for at in places if len(text) > 20_000)


def shown(**fields: Any) -> tuple[list[str], list[str]]:
    """Headings and cells of the table."""
    columns = table.table("laptop", Result.model_validate(measured.entry(**fields))).columns
    return [str(column.header) for column in columns], [str(next(iter(column.cells))) for column in columns]


def test_the_table_has_the_articles_columns_and_figures() -> None:
    headings, cells = shown()
    assert headings == [
        "Config", "Peak VRAM (MiB)", "RAM (GB)", "tg empty", "32k pp / tg", "100k pp / tg", "118k pp / tg",
    ]  # fmt: skip
    assert cells == ["Mix-12G, n44, KV q4_0", "5342", "11.3", "33.6", "875 / 22.4", "606 / 13.3", "490 / 11.8"]


def test_a_figure_is_the_median_of_its_samples() -> None:
    row = {"n_depth": 1000, "pp": measured.figure(500.0, 510.0, 900.0), "tg": measured.figure(30.0, 20.0, 29.0)}
    assert shown(rows=[row])[1][3:] == ["510 / 29.0"]
    assert shown(rows=[row])[0][3:] == ["1000 pp / tg"]


def test_a_host_without_a_gpu_has_no_peak() -> None:
    assert shown(resources={})[1][1] == "none"


def test_what_runs_where_nothing_was_read_is_still_shown() -> None:
    assert shown(rows=[{**measured.row(2048, 1, 1), "pp": None}])[0][3:] == ["tg 2k"]


def test_the_record_is_shown_on_standard_error_with_what_to_know_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    flag = {"flag": "battery", "why": "the machine ran on its battery [bold]"}
    table.show("laptop", ["noise before", measured.line(flags=[flag], left_out=["118k: too long"])])
    printed = capsys.readouterr()
    assert printed.out == "", "standard output is pyinfra's --json"
    assert "laptop, 2026-11-30T12:00:00Z, tokens per second" in printed.err
    for words in ("5342", "left out 118k: too long", "battery: the machine ran on its battery [bold]", "1.5 s at 32k"):
        assert words in " ".join(printed.err.split())


@pytest.mark.parametrize("lines", [[], [""], ["{"]])
def test_a_history_that_cannot_be_read_back_is_no_error(lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    table.show("laptop", lines)
    assert capsys.readouterr().err == ""


def test_the_last_result_is_the_hosts_own() -> None:
    result = hosts.converged()[BENCHMARK].last
    assert result is not None
    assert result.depths == (0, 2048)
    assert table.line(result) == "tokens per second: tg empty 22.4, 2k pp / tg 600 / 22.4"


def test_a_record_that_cannot_be_read_is_as_good_as_none() -> None:
    assert BenchmarkSeen.model_validate({"last": {"schema": 2, "kind": "full", "rows": "many"}}).last is None
