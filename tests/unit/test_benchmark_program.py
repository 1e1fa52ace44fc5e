"""The smoke run against a stand-in for llama-server: figures that are the server's own, or a reason why not."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roles.benchmark.decide import PROGRAM as TEXT
from roles.benchmark.observe import Result, look_at_benchmark
from roles.remote import Script
from tests.unit import fake_systemd, local
from tests.unit.fake_llama import FakeLlama
from tests.unit.fake_systemd import FakeSystemd
from tests.unit.programs import definitions

PROGRAM = definitions("benchmark/program.py")
IDS = list(range(4096))


@pytest.fixture
def llama() -> Iterator[FakeLlama]:
    with FakeLlama() as running:
        yield running


@pytest.fixture
def systemd(tmp_path: Path) -> FakeSystemd:
    made = fake_systemd.install(tmp_path)
    (tmp_path / "main_pid").write_text(f"{os.getpid()}\n")
    return made


def test_the_text_is_the_same_on_every_machine_and_does_not_repeat() -> None:
    assert PROGRAM.text(11) == "quiet morning river garden garden garden winter garden table quiet letter.\n"
    assert PROGRAM.text(400).startswith(PROGRAM.text(200))
    assert len(PROGRAM.text(2048).split()) >= 2048
    words = PROGRAM.text(2048).split()
    windows = [tuple(words[at : at + 8]) for at in range(len(words) - 8)]
    assert len(set(windows)) > 0.99 * len(windows)


@pytest.mark.parametrize(
    ("depth", "prompt", "pp"), [(0, 1, None), (1, 1, 874.99), (64, 64, 874.99), (2048, 2048, 874.99)]
)
def test_a_figure_is_the_servers_own(llama: FakeLlama, depth: int, prompt: int, pp: float | None) -> None:
    assert PROGRAM.measure(llama.url, IDS, depth, 32) == {"n_depth": depth, "pp": pp, "tg": 22.46}
    (asked,) = llama.completions()
    assert asked["prompt"] == IDS[:prompt]
    assert (asked["n_predict"], asked["cache_prompt"], asked["ignore_eos"], asked["temperature"]) == (
        32,
        False,
        True,
        0,
    )


@pytest.mark.parametrize(
    ("timings", "sentence"),
    [
        ({"cache_n": 63, "prompt_n": 1}, "63 tokens came from the cache, 1 of 64 were read, 32 of 32 were generated"),
        ({"prompt_n": 60}, "0 tokens came from the cache, 60 of 64 were read, 32 of 32 were generated"),
        ({"predicted_n": 5}, "0 tokens came from the cache, 64 of 64 were read, 5 of 32 were generated"),
    ],
)
def test_a_figure_that_the_cache_or_an_early_end_helped_is_refused(
    llama: FakeLlama, capsys: pytest.CaptureFixture[str], timings: dict[str, Any], sentence: str
) -> None:
    llama.timings = timings
    with pytest.raises(SystemExit) as ended:
        PROGRAM.measure(llama.url, IDS, 64, 32)
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"paddock: the figures at depth 64 cannot be trusted: {sentence}\n"


def test_the_peak_of_vram_is_the_process_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "echo '1, 9000'; echo '4711, [N/A]'; echo ' 4711, 5342 '; echo '47, 6000'\n"
    monkeypatch.setenv("PATH", local.tool(tmp_path / "bin", "nvidia-smi", rows + f"touch {tmp_path}/asked\n"))
    monkeypatch.setattr(PROGRAM, "PACE", 0.01)
    watch = PROGRAM.Watch(4711)
    watch.start()
    for _ in range(500):
        if watch.vram:
            break
        watch.join(0.01)
    watch.over.set()
    watch.join(10)
    assert watch.vram == 5342


def test_a_host_without_nvidia_smi_has_no_peak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(PROGRAM, "PACE", 0.01)
    watch = PROGRAM.Watch(os.getpid())
    watch.start()
    watch.join(0.1)
    assert watch.is_alive(), "it also gives the run's signs of life"
    watch.over.set()
    watch.join(10)
    assert watch.vram is None
    assert watch.ram() > 1 << 20


def smoke(systemd: FakeSystemd, url: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    """The whole program, as on a host that was claimed for this run."""
    (systemd.home / "data").mkdir(exist_ok=True)
    wire = {
        "unit": "paddock-llama-server.service",
        "url": url,
        "stamp": "0123456789abcdef",
        "config": "Mix-12G, n44, KV q4_0",
        "depths": [0, 2048],
        "tokens": 32,
        "history": "~/data/benchmarks.jsonl",
        "key_file": "",
        "driver": None,
        "kernel": "6.12.48-amd64",
        **changes,
    }
    return local.run(Script(TEXT, (json.dumps(wire),), python=True), **systemd.env)


def test_a_run_prints_its_result_and_appends_it_to_the_history(systemd: FakeSystemd, llama: FakeLlama) -> None:
    history = systemd.home / "data/benchmarks.jsonl"
    history.parent.mkdir(exist_ok=True)
    history.write_text('{"schema": 1, "to')
    done = smoke(systemd, llama.url)
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    result = Result.model_validate(printed)
    assert (result.stamp, result.config, result.tokens) == ("0123456789abcdef", "Mix-12G, n44, KV q4_0", 32)
    assert [(row.n_depth, row.pp, row.tg) for row in result.rows] == [(0, None, 22.46), (2048, 874.99, 22.46)]
    assert result.peak_ram_bytes > 1 << 20
    assert history.read_text().splitlines() == ['{"schema": 1, "to', done.stdout.strip()]
    assert look_at_benchmark({"history": str(history)})["last"] == printed


def test_a_whole_last_line_is_followed_at_once(systemd: FakeSystemd, llama: FakeLlama) -> None:
    first, second = smoke(systemd, llama.url, depths=[0]), smoke(systemd, llama.url, depths=[0])
    lines = (systemd.home / "data/benchmarks.jsonl").read_text().splitlines()
    assert lines == [first.stdout.strip(), second.stdout.strip()]


def test_the_first_figure_is_thrown_away(systemd: FakeSystemd, llama: FakeLlama) -> None:
    smoke(systemd, llama.url)
    assert [(len(asked["prompt"]), asked["n_predict"]) for asked in llama.completions()] == [
        (64, 8),
        (1, 32),
        (2048, 32),
    ]


@pytest.mark.parametrize(("keys", "header"), [("# mine\n\nfirst \nsecond\n", "Bearer first"), (None, "Bearer none")])
def test_the_first_api_key_goes_to_the_server_in_a_header(
    systemd: FakeSystemd, llama: FakeLlama, keys: str | None, header: str
) -> None:
    path = systemd.home / "keys"
    if keys is not None:
        path.write_text(keys)
    done = smoke(systemd, llama.url, key_file=str(path) if keys is not None else "", depths=[0])
    assert done.returncode == 0, done.stderr
    assert set(llama.authorizations) == {header}


def test_a_proxy_of_the_users_is_not_asked(
    systemd: FakeSystemd, llama: FakeLlama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert smoke(systemd, llama.url, depths=[0]).returncode == 0


@pytest.mark.parametrize(
    ("status", "timings", "sentence"),
    [
        (500, {}, "llama-server did not answer as expected: HTTP Error 500: Internal Server Error"),
        (200, {"cache_n": 5}, "cannot be trusted: 5 tokens came from the cache"),
    ],
)
def test_a_run_that_failed_leaves_no_line(
    systemd: FakeSystemd, llama: FakeLlama, status: int, timings: dict[str, Any], sentence: str
) -> None:
    llama.status, llama.timings = status, timings
    done = smoke(systemd, llama.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("paddock: ")
    assert sentence in done.stderr
    assert list((systemd.home / "data").iterdir()) == []


def test_a_server_that_is_not_there_is_told(systemd: FakeSystemd) -> None:
    done = smoke(systemd, "http://127.0.0.1:1")
    assert done.stderr.startswith("paddock: llama-server did not answer as expected: ")
    (systemd.home / "main_pid").write_text("0\n")
    assert smoke(systemd, "http://127.0.0.1:1").stderr == (
        "paddock: llama-server does not run, so there is nothing to measure\n"
    )
