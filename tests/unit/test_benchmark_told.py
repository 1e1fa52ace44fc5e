"""What a run of the benchmark is told: what is served, depths, text, llama-bench's command, and its limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roles.benchmark import decide, runner
from roles.benchmark.passage import passage
from roles.benchmark.record import Result
from roles.benchmark.told import configuration
from roles.operation import Decision
from roles.service.observe import SERVICE
from roles.service.reasons import options
from tests.unit import hosts, machines, seed
from tests.unit.deciding import acting, smoke


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
