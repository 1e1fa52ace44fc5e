"""Whole runs of the benchmark's program against a stand-in for llama-server: a line in the history, or why not."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from roles.benchmark import runner
from roles.benchmark.observe import look_at_benchmark
from roles.benchmark.passes_program import SHIFT, TURN
from roles.benchmark.record import Flag, Result
from tests.unit import local, measuring
from tests.unit.fake_llama import REPLY, FakeLlama
from tests.unit.fake_systemd import FakeSystemd
from tests.unit.measuring import history, last, run
from tests.unit.programs import assert_old_python_can_run

llama, systemd = measuring.llama, measuring.systemd


# What the machine that tests is to blame for, a laptop that others use too, say.
MACHINE = {"other_cpu_work", "wall_clock", "battery", "swap", "clock_drop"}


def own(result: Result) -> list[Flag]:
    """The flags that a test makes."""
    return [flag for flag in result.flags if flag.flag not in MACHINE]


def test_the_program_runs_on_an_old_python_and_its_parts_do_not_hide_each_other() -> None:
    text = runner.program("")
    assert_old_python_can_run(text)
    names = [line.split("(")[0].split(":")[0].split(" = ")[0] for line in text.splitlines() if line[:1] not in " #)}]@"]
    names = [name for name in names if name and not name.startswith(("from ", "import ", "if "))]
    assert sorted(names) == sorted(set(names))


def test_a_run_adds_one_line_with_all_figures(systemd: FakeSystemd, llama: FakeLlama) -> None:
    done = run(systemd, llama.url)
    assert (done.returncode, done.stderr) == (0, "")
    result = last(systemd)
    assert (result.kind, result.config, result.stamp, result.depths) == (
        "smoke",
        "some, n44, KV q4_0",
        "0" * 16,
        (0, 1024),
    )
    empty, deep = result.rows
    assert (empty.n_depth, empty.pp, empty.pp_at, empty.turn) == (0, None, None, None)
    assert empty.tg.samples_ts == (22.457, 22.457)
    assert deep.pp is not None
    assert (deep.pp.n_prompt, deep.pp.samples_ts) == (1024, (874.988, 874.988))
    assert deep.pp_at is not None
    deeper = 1024 + 16 + TURN + 7
    assert (deep.pp_at.n_prompt, deep.pp_at.n_depth) == (513, deeper), "the last token of the turn's reply is read too"
    assert deep.turn is not None
    assert (deep.turn.n_prompt, deep.turn.cache_n) == (TURN, (1039, 1039))
    assert (result.build_number, result.build_commit, result.model_type) == (1000, "f7cb80cb8", "Q4_K - Medium")
    assert (result.n_ctx, result.model_size, result.model_n_params) == (8192, 18228262, 27018752)
    assert result.resources.peak_ram_bytes > 1 << 20
    assert result.resources.memory_max_bytes == 64 << 30
    assert not (systemd.home / "data/benchmarks.jsonl.part").exists()


def test_no_prompt_begins_as_another_and_each_is_exactly_as_long_as_asked(
    systemd: FakeSystemd, llama: FakeLlama
) -> None:
    run(systemd, llama.url)
    asked = llama.completions()
    warm_up, others = asked[0], asked[1:]
    assert (len(warm_up["prompt"]), warm_up["n_predict"]) == (512, 8)
    assert [len(each["prompt"]) for each in others] == 2 * [1, 1024, 1024 + 16 + TURN, 1024 + 16 + TURN + 8 + 512]
    assert [each["cache_prompt"] for each in others] == 2 * [False, False, True, True]
    assert all(each["ignore_eos"] and each["temperature"] == 0 for each in asked)
    assert others[5]["prompt"][0] - others[1]["prompt"][0] == SHIFT
    follow = others[2]["prompt"]
    assert follow[1024:1040] == [REPLY] * 16
    assert follow[1040] == follow[1023] + 1, "the turn goes on where the text was left"


@pytest.mark.parametrize(
    ("timings", "sentence"),
    [
        ({"cache_n": 5}, "5 tokens came from the cache, 1 of 1 were read, 16 of 16 generated"),
        ({"prompt_n": 60}, "0 tokens came from the cache, 60 of 1 were read, 16 of 16 generated"),
        ({"predicted_n": 5}, "0 tokens came from the cache, 1 of 1 were read, 5 of 16 generated"),
    ],
)
def test_a_figure_that_the_cache_or_an_early_end_helped_is_refused(
    systemd: FakeSystemd, llama: FakeLlama, timings: dict[str, Any], sentence: str
) -> None:
    llama.timings = timings
    done = run(systemd, llama.url)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"paddock: the figures at depth 0 cannot be trusted: {sentence}"
    assert history(systemd) == []


def test_a_server_that_keeps_nothing_of_a_conversation_is_told_of_and_asked_once(
    systemd: FakeSystemd, llama: FakeLlama
) -> None:
    llama.forgets = True
    assert run(systemd, llama.url).returncode == 0
    result = last(systemd)
    turn = result.rows[1].turn
    assert turn is not None
    assert turn.cache_n == (0,)
    assert result.rows[1].pp_at is None
    assert [flag.flag for flag in own(result)] == ["no_prompt_cache"]


def test_a_clock_that_saw_more_than_the_servers_is_flagged(systemd: FakeSystemd, llama: FakeLlama) -> None:
    llama.pause = 0.4
    assert run(systemd, llama.url, repetitions=1).returncode == 0
    late = [flag.why for flag in last(systemd).flags if flag.flag == "wall_clock"]
    assert len(late) == 2, "at each of the two depths"
    for why in late:
        told = re.search(r"our clock saw (\S+) s more than the 0\.0 s of the server's", why)
        assert told
        assert float(told[1]) >= 0.4  # and what a busy machine adds
    assert own(last(systemd)) == []


def test_what_takes_too_long_for_a_smoke_run_is_left_out_and_said(systemd: FakeSystemd, llama: FakeLlama) -> None:
    llama.timings = {"prompt_per_second": 4.0, "predicted_per_second": 0.5}
    assert run(systemd, llama.url, tokens=128).returncode == 0
    result = last(systemd)
    assert [row.n_depth for row in result.rows] == [0]
    assert result.rows[0].tg.n_gen == 16
    assert result.left_out == ("1k: it takes about 8.1 minutes, too long for a smoke run",)
    assert [flag.why for flag in own(result)] == ["16 tokens were generated per figure, not 128: 0.5 a second"]
    assert result.tokens == 128, "what was asked for, so that the next run does not ask again"


def test_a_pass_ends_in_its_time_and_keeps_what_it_has(systemd: FakeSystemd, llama: FakeLlama) -> None:
    llama.timings = {
        "prompt_per_second": 1e6,
        "predicted_per_second": 1e4,
    }  # nothing of the time is needed but for that
    llama.slow_turn, began = 20.0, time.monotonic()
    assert run(systemd, llama.url, seconds=3, repetitions=1).returncode == 0
    assert time.monotonic() - began < 15
    result = last(systemd)
    assert [row.n_depth for row in result.rows] == [0, 1024]
    assert result.rows[1].turn is None
    assert result.left_out == ("1k, the next turn: no time was left for it",)


def test_a_full_run_takes_the_time_that_it_takes(systemd: FakeSystemd, llama: FakeLlama) -> None:
    llama.timings = {"prompt_per_second": 4.0, "predicted_per_second": 0.5}
    assert run(systemd, llama.url, kind="full", seconds=0, repetitions=1).returncode == 0
    assert [row.n_depth for row in last(systemd).rows] == [0, 1024]


def test_a_context_without_room_for_a_turn_has_none(systemd: FakeSystemd, llama: FakeLlama) -> None:
    llama.n_ctx = 1024 + 16 + 40
    assert run(systemd, llama.url).returncode == 0
    assert (last(systemd).rows[1].turn, last(systemd).rows[1].pp_at) == (None, None)


def test_a_text_that_makes_too_few_tokens_is_told(systemd: FakeSystemd, llama: FakeLlama) -> None:
    done = run(systemd, llama.url, depths=[100_000])
    assert done.returncode == 1
    assert "tokens, and 100954 are needed; set smaller benchmark_depths" in done.stdout


BENCH = """echo '{"n_prompt": 512, "n_depth": 0, "samples_ts": [1.0]}'
echo "$@" >>"$HOME/bench"
"""


def test_llama_bench_runs_while_the_service_is_stopped(systemd: FakeSystemd, llama: FakeLlama) -> None:
    local.tool(systemd.home / "bin", "llama-bench", BENCH)
    commands = [[str(systemd.home / "bin/llama-bench"), "-d", "0"], [str(systemd.home / "bin/llama-bench"), "-d", "1"]]
    assert run(systemd, llama.url, kind="full", seconds=0, repetitions=1, bench=commands).returncode == 0
    assert (systemd.home / "bench").read_text() == "-d 0\n-d 1\n"
    assert (systemd.home / "asked").read_text().split() == [
        "stop",
        measuring.wire("")["unit"],
        "start",
        measuring.wire("")["unit"],
    ]
    assert len(last(systemd).llama_bench) == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("echo 'error: no such model' >&2; exit 3", "llama-bench ended with 3: error: no such model"),
        ("exec sleep 60", "llama-bench took longer than 1 s"),
    ],
)
def test_llama_bench_that_fails_costs_its_rows_alone(
    systemd: FakeSystemd, llama: FakeLlama, text: str, sentence: str
) -> None:
    local.tool(systemd.home / "bin", "llama-bench", text + "\n")
    told = {"bench": [[str(systemd.home / "bin/llama-bench")]], "bench_seconds": 1}
    assert run(systemd, llama.url, kind="full", seconds=0, repetitions=1, **told).returncode == 0
    assert last(systemd).left_out == (sentence,)
    assert (systemd.home / "asked").read_text().split()[2] == "start"


def test_a_torn_last_line_is_the_only_one_lost(systemd: FakeSystemd, llama: FakeLlama) -> None:
    path = systemd.home / "data/benchmarks.jsonl"
    path.write_text('{"schema": 2, "to')
    for _ in range(2):
        assert run(systemd, llama.url, depths=[0], repetitions=1).returncode == 0
    assert [result is None for result in history(systemd)] == [True, False, False]
    seen = look_at_benchmark({"history": str(path), "schema": 2})["last"]
    assert Result.model_validate(seen).run == last(systemd).run
    assert "series" not in seen["resources"]


def test_the_runner_itself_takes_little(systemd: FakeSystemd, llama: FakeLlama) -> None:
    assert run(systemd, llama.url, repetitions=1).returncode == 0
    cost = last(systemd).runner
    assert cost["peak_bytes"] < 50e6
    assert cost["cpu_seconds"] < 2
