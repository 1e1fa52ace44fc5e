"""A dry run tells what would change and why, for every host, and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.plan.conftest import LOCK
from tests.plan.runs import Run

ROLES = [
    "Packages | Install what building needs",
    "Browser | Keep the browser's local AI model away",
    "Service | Let the user's units outlive the login",
    "llama.cpp | Build the pinned release",
    "Service | Run llama-server",
    "Benchmark | Measure what is served",
]


def reasons(run: Run, host: str) -> list[str]:
    """What is said of a host beside pyinfra's own lines."""
    return [line for line in run.said(host) if line not in ("Connected", "Ready: deploy.py")]


def test_a_bare_host_would_be_changed_by_every_role(dry: Run) -> None:
    changed = [operation for operation, hosts in dry.changes().items() if "@fake/bare" in hosts]
    assert changed == ROLES


def test_each_change_of_a_bare_host_has_its_reason(dry: Run) -> None:
    told = reasons(dry, "bare")
    assert len(told) == 7
    for at, part in enumerate(
        [
            "packages missing: git cmake ninja-build g++ ccache curl",
            "/etc/opt/chrome/policies/managed/paddock.json: absent",
            "/etc/chromium/policies/managed/paddock.json: absent",
            "dev does not linger",
            "build llama.cpp 012345678 (0123456789ab) for cpu: no release on this host yet",
            "start llama-server: paddock-llama-server.service is not on this host yet",
            "measure at 0 and 2048 tokens of context: nothing measured yet",
        ]
    ):
        assert told[at].startswith(part)


def test_a_converged_host_would_not_be_changed_and_nothing_is_said_of_it(dry: Run) -> None:
    assert reasons(dry, "good") == []
    assert not [hosts for hosts in dry.changes().values() if "@fake/good" in hosts]


def test_a_host_that_drifted_is_told_what_differs(dry: Run) -> None:
    assert reasons(dry, "drifted") == ["packages missing: ccache", "restart llama-server: -c 4096 -> 32768"]


def test_a_model_that_is_missing_is_told_with_its_size(dry: Run) -> None:
    assert "download some.gguf from owner/name (12.0 GB): it is not on the host" in reasons(dry, "locked")


def test_with_a_lock_neither_repository_nor_hub_is_asked(dry: Run) -> None:
    assert any("build llama.cpp 012345678 (b12464)" in line for line in reasons(dry, "locked"))


def test_a_dry_run_resolves_and_does_not_write_the_lock(dry: Run, dry_folder: Path) -> None:
    assert reasons(dry, "tagged") == []
    assert yaml.safe_load((dry_folder / "laptops.lock.yml").read_text()) == LOCK


def plan(run: Run, column: str) -> dict[str, list[str]]:
    """The hosts in a column of the JSON plan, by operation."""
    return {operation["name"]: operation[column] for operation in json.loads(run.out)["plan"]}


def test_json_is_all_that_stands_on_standard_output(as_json: Run) -> None:
    assert as_json.code == 0
    changed = plan(as_json, "hosts_with_change")
    assert {name: hosts for name, hosts in changed.items() if hosts} == {name: ["@fake/bare"] for name in ROLES}


def test_no_change_is_conditional(as_json: Run) -> None:
    assert list(plan(as_json, "hosts_with_conditional_change").values()) == [[]] * 9


def test_only_the_role_that_is_named_is_planned(only_benchmark: Run) -> None:
    assert only_benchmark.code == 0
    assert list(only_benchmark.changes()) == ["Benchmark | Measure what is served"]
    table = only_benchmark.err.partition("--> Detected changes:")[2]
    assert "Check the host" in table
    assert not [role for role in ROLES[:-1] if role in table]
    assert reasons(only_benchmark, "stale") == ["measure at 0 and 2048 tokens of context: nothing measured yet"]


def test_no_run_warns_of_anything_of_pythons(dry: Run, as_json: Run, only_benchmark: Run) -> None:
    for run in (dry, as_json, only_benchmark):
        assert "Warning" not in run.err
        assert "Traceback" not in run.err
