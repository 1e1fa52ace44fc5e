"""Runs of the benchmark's program that end before their time, killed or near their cap: what they have is not lost."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from roles import remote
from roles.benchmark.passes_program import WARM_UP
from tests.unit import measuring
from tests.unit.fake_llama import FakeLlama
from tests.unit.fake_systemd import FakeSystemd
from tests.unit.measuring import last, run

llama, systemd = measuring.llama, measuring.systemd


def started(systemd: FakeSystemd, url: str, **changes: Any) -> subprocess.Popen[str]:
    script, env = measuring.command(systemd, url, kind="full", seconds=0, **changes)
    process = subprocess.Popen(
        ["python3", "-ISB", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **env}, text=True
    )
    assert process.stdin
    process.stdin.write(remote.stdin(script))
    process.stdin.close()
    return process


def wait_for_passes(process: subprocess.Popen[str], part: Path, passes: int) -> None:
    end = time.monotonic() + 60
    while not (part.exists() and len(json.loads(part.read_text())["passes"]) >= passes):
        assert process.poll() is None, process.stdout and process.stdout.read()
        assert time.monotonic() < end
        time.sleep(0.02)


def killed(systemd: FakeSystemd, llama: FakeLlama, passes: int) -> Path:
    """What a full run has left that was killed after so many passes; the server stays slow."""
    part = systemd.home / "data/benchmarks.jsonl.part"
    llama.pause = 0.2
    with started(systemd, llama.url, repetitions=3) as process:
        wait_for_passes(process, part, passes)
        process.kill()
    return part


def test_a_killed_full_run_goes_on_where_it_was(systemd: FakeSystemd, llama: FakeLlama) -> None:
    part = killed(systemd, llama, 2)
    before = json.loads(part.read_text())
    llama.pause, llama.asked = 0.0, []
    with started(systemd, llama.url, repetitions=3) as second:
        assert second.wait(30) == 0
    result = last(systemd)
    assert (result.run, result.test_time, result.interrupted) == (before["run"], before["test_time"], 1)
    assert [len(row.tg.samples_ts) for row in result.rows] == [3, 3]
    # By their prompts: what the killed run asked for last may be heard after its end, and is asked for again.
    cold = {tuple(each["prompt"]) for each in llama.completions() if not each["cache_prompt"]}
    cold = {prompt for prompt in cold if len(prompt) != WARM_UP[0]}
    assert len(cold) == 6 - len(before["passes"]), "what was done is not done again"
    assert result.duration >= round(before["watch"]["duration"], 1)
    assert not part.exists()


@pytest.mark.parametrize("changes", [{"tokens": 17}, {"kind": "smoke", "seconds": 100}])
def test_what_another_run_has_left_is_not_taken_up(
    systemd: FakeSystemd, llama: FakeLlama, changes: dict[str, Any]
) -> None:
    told = {"kind": "full", "seconds": 0, **changes}
    part = systemd.home / "data/benchmarks.jsonl.part"
    part.write_text(json.dumps({"job": "another", "passes": [{"n_depth": 0, "turn_of": 0}], "interrupted": 3}))
    assert run(systemd, llama.url, **told).returncode == 0
    assert last(systemd).interrupted == 0


def test_a_run_is_stopped_short_of_the_cap(systemd: FakeSystemd, llama: FakeLlama) -> None:
    measuring.prepared(systemd, MemoryMax=8 << 20)  # this very process holds more
    llama.hang, began = True, time.monotonic()
    with started(systemd, llama.url, repetitions=1) as process:
        assert process.stdout
        assert process.wait(30) == 1
        said = process.stdout.read()
    assert time.monotonic() - began < 15, "the pass that hung was broken off"
    assert "paddock: nothing could be measured: " in said
    assert "of the 8 MiB that its unit may take" in said


def test_the_cap_stops_a_run_that_has_figures_and_flags_them(systemd: FakeSystemd, llama: FakeLlama) -> None:
    killed(systemd, llama, 1)
    measuring.prepared(systemd, MemoryMax=8 << 20)
    llama.hang = True
    with started(systemd, llama.url, repetitions=3) as second:
        assert second.wait(30) == 0
    result = last(systemd)
    assert result.rows
    assert "near_cap" in [flag.flag for flag in result.flags]
    assert result.left_out[-1].startswith("all from ")
