"""A whole run of the benchmark's program against a stand-in for llama-server, as its unit runs it on a host.

A test module takes the fixtures by their names: `llama, systemd = measuring.llama, measuring.systemd`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roles.benchmark import runner
from roles.benchmark.passage import packed
from roles.benchmark.record import SCHEMA, Result, parsed
from roles.remote import Script
from tests.unit import fake_systemd, local
from tests.unit.fake_llama import FakeLlama
from tests.unit.fake_systemd import FakeSystemd

TEXT = packed(2000)  # words are tokens here: 2048 deep, with what comes after, takes 2,800 of them


@pytest.fixture
def llama() -> Iterator[FakeLlama]:
    with FakeLlama() as running:
        yield running


@pytest.fixture
def systemd(tmp_path: Path) -> FakeSystemd:
    made = fake_systemd.install(tmp_path)
    prepared(made)
    return made


def wire(url: str, **changes: Any) -> dict[str, Any]:
    return {
        "unit": "paddock-llama-server.service",
        "manager": "user",
        "url": url,
        "history": "~/data/benchmarks.jsonl",
        "schema": SCHEMA,
        "key_file": "",
        "kind": "smoke",
        "depths": [0, 1024],
        "tokens": 16,
        "repetitions": 2,
        "seconds": 100,
        "about": {"config": "some, n44, KV q4_0", "stamp": "0" * 16, "release": "a-1", "n_ubatch": 512},
        "bench": [],
        "bench_seconds": 30,
        **changes,
    }


def prepared(systemd: FakeSystemd, **properties: Any) -> None:
    """The unit's process is this one; it holds a little of what it may."""
    (systemd.home / "data").mkdir(exist_ok=True)
    told = {"MainPID": os.getpid(), "ControlGroup": "/none", "MemoryMax": 64 << 30, "CPUQuotaPerSecUSec": "infinity"}
    (systemd.home / "main_pid").write_text(
        "".join(f"{name}={value}\n" for name, value in {**told, **properties}.items())
    )


def command(systemd: FakeSystemd, url: str, **changes: Any) -> tuple[Script, dict[str, str]]:
    return Script(runner.program(TEXT), (json.dumps(wire(url, **changes)),), python=True), systemd.env


def run(systemd: FakeSystemd, url: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    script, env = command(systemd, url, **changes)
    return local.run(script, **env)


def history(systemd: FakeSystemd) -> list[Result | None]:
    path = systemd.home / "data/benchmarks.jsonl"
    return [parsed(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def last(systemd: FakeSystemd) -> Result:
    result = history(systemd)[-1]
    assert result is not None
    return result
