"""A dry run tells what would change and why, for every host, and changes nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from tests.plan.conftest import LOCK
from tests.plan.runs import Run

ROLES = [
    "Packages | Install what building needs",
    "Browser | Keep the browser's local AI model away",
    "Service | Let the user's units outlive the login",
    "llama.cpp | Build the pinned release",
    "Memory | Plan the memory",
    "Service | Try the service's sandbox",
    "Service | Install paddock-switch and its watchdog",
    "Service | Run llama-server",
    "Benchmark | Measure what is served",
    "Remember and sum up",
]
NOTHING = "nothing: driver, card, release, model and settings are as the last deploy left them"


def plan(run: Run, host: str) -> list[str]:
    """The block about a host: its verdict, then "Role: reason" for each change."""
    lines = [line for line in run.said(host) if line not in ("Connected", "Ready: deploy.py")]
    return [re.sub(r" {2,}", ": ", line) for line in lines]


def test_a_bare_host_would_be_changed_by_every_role(dry: Run) -> None:
    changed = [operation for operation, hosts in dry.changes().items() if "@fake/bare" in hosts]
    assert changed == ROLES


def test_each_change_of_a_bare_host_has_its_role_and_its_reason(dry: Run) -> None:
    expected = [
        "rebuild: nothing is built on this host yet",
        "Packages: packages missing: git cmake ninja-build g++ curl ca-certificates ccache",
        "Browser: /etc/opt/chrome/policies/managed/paddock.json: absent",
        "Browser: /etc/chromium/policies/managed/paddock.json: absent",
        "Service: dev does not linger",
        "llama.cpp: build llama.cpp 012345678 (0123456789ab) for cpu: no release on this host yet; about 1 min",
        "Memory: plan the memory with llama.cpp itself: nothing is planned yet",
        "Service: try the service's sandbox with this release: 17 directives",
        "Service: paddock-switch is not there yet",
        "Service: start llama-server: paddock-llama-server.service is not on this host yet",
        "Benchmark: measure at 0 and 2048 tokens of context: nothing measured yet",
    ]
    told = plan(dry, "bare")
    assert len(told) == len(expected)
    assert [line for line, begin in zip(told, expected, strict=True) if not line.startswith(begin)] == []


def test_with_y_too_a_dry_run_shows_the_plan_and_stops_there(dry: Run, dry_at_once: Run) -> None:
    assert plan(dry_at_once, "bare") == plan(dry, "bare")
    assert plan(dry_at_once, "no-systemd") == plan(dry, "no-systemd")
    assert dry_at_once.code == 1, "for the one that would be refused"
    assert "Starting operation" not in dry_at_once.err


def test_a_converged_host_would_not_be_changed(dry: Run) -> None:
    assert plan(dry, "good") == [NOTHING]
    assert not [hosts for hosts in dry.changes().values() if "@fake/good" in hosts]


def test_a_host_that_drifted_is_told_what_differs(dry: Run) -> None:
    assert plan(dry, "drifted")[1:] == [
        "Packages: packages missing: cmake",
        "Service: restart llama-server: -c 4096 -> 32768",
    ]


def test_of_a_service_that_somebody_stopped_nothing_is_remembered(dry: Run) -> None:
    assert plan(dry, "stopped")[-1] == "replan: nothing is recorded about this host yet"
    assert not [hosts for hosts in dry.changes().values() if "@fake/stopped" in hosts]
    assert [line for line in dry.last_words("stopped") if line.startswith("somebody stopped paddock-llama-server")]


def test_a_model_that_is_missing_is_told_with_its_size(dry: Run) -> None:
    assert "Model: download some.gguf from owner/name (12.0 GB): it is not on the host" in plan(dry, "locked")


def test_with_a_lock_neither_repository_nor_hub_is_asked(dry: Run) -> None:
    assert any("build llama.cpp 012345678 (b12464)" in line for line in plan(dry, "locked"))


def test_a_dry_run_resolves_and_does_not_write_the_lock(dry: Run, dry_folder: Path) -> None:
    assert not [hosts for hosts in dry.changes().values() if "@fake/tagged" in hosts]
    assert yaml.safe_load((dry_folder / "laptops.lock.yml").read_text()) == LOCK


def column(run: Run, name: str) -> dict[str, list[str]]:
    """The hosts in a column of the JSON plan, by operation."""
    return {operation["name"]: operation[name] for operation in json.loads(run.out)["plan"]}


def test_json_is_all_that_stands_on_standard_output(as_json: Run) -> None:
    assert as_json.code == 0
    changed = column(as_json, "hosts_with_change")
    assert {name: hosts for name, hosts in changed.items() if hosts} == {name: ["@fake/bare"] for name in ROLES}


def test_a_host_with_a_plan_shows_it_as_a_table(dry: Run) -> None:
    table = dry.err.partition("@fake/good: memory, all on the CPU")[2]
    assert re.search(r"│ +model, mapped from its file │ +6777 │", table)
    assert re.search(r"│ +MemoryMax +│ +10096 │", table)
    assert "@fake/bare: memory" not in dry.err, "nobody has planned for it"


def test_no_change_is_conditional(as_json: Run) -> None:
    assert not any(column(as_json, "hosts_with_conditional_change").values())


def test_only_the_role_that_is_named_is_planned(only_benchmark: Run) -> None:
    assert only_benchmark.code == 0
    assert list(only_benchmark.changes()) == ["Benchmark | Measure what is served"]
    table = only_benchmark.err.partition("--> Detected changes:")[2]
    assert "Check the host" in table
    assert not [role for role in ROLES[:-2] if role in table]
    assert plan(only_benchmark, "stale")[1:] == [
        "Benchmark: measure at 0 and 2048 tokens of context: nothing measured yet"
    ]


def test_no_run_warns_of_anything_of_pythons(dry: Run, as_json: Run, only_benchmark: Run) -> None:
    for run in (dry, as_json, only_benchmark):
        assert "Warning" not in run.err
        assert "Traceback" not in run.err
