"""A release on trial: when old and new are measured in turns, and when a slower one is taken back."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from roles.benchmark import decide as benchmark
from roles.benchmark import trial
from roles.benchmark.comparison import latest
from roles.benchmark.observe import BENCHMARK
from roles.benchmark.record import Result, taken_back
from roles.operation import Decision
from roles.service import decide as service
from roles.service import way_back
from roles.service.observe import SERVICE
from tests.unit import hosts, measured
from tests.unit.deciding import resting

OLD = "0" * 16
NEW = hosts.converged()[SERVICE].running_stamp or ""
FORMER = (hosts.converged()[SERVICE].unit or "").replace(NEW, OLD)
WITH_FORMER: dict[str, Any] = {"service": {"last_good": FORMER}}


def result(run: str, stamp: str, share: float = 1.0, **changes: Any) -> Result:
    rows = [measured.row(0, 0, 30.0 * share), measured.row(2048, 800 * share, 28.0 * share)]
    release = {OLD: "b1-aa", NEW: "b2-bb"}[stamp]
    about = {"kind": "smoke", "release": release, "settings": {"llama_ref": release, "context": 32768}}
    return Result.model_validate(measured.entry(run=run, rows=rows, stamp=stamp, **{**about, **changes}))


SLOWER = (result("1", OLD), result("2", NEW, 0.7))


def kept(
    results: tuple[Result, ...] = SLOWER, on: str = "rollback", scope: str = "user", **changes: Any
) -> tuple[Decision, list[str]]:
    told: list[str] = []
    seen = hosts.converged(**{**WITH_FORMER, **changes})
    wishes = hosts.wishes(benchmark_on_regression=on, service_scope=scope)
    return trial.kept(wishes, False, latest(results), told.append, seen), told


def test_a_slower_release_gives_way_to_the_former_one() -> None:
    decision, told = kept()
    (step,) = decision.steps
    assert decision.reasons == ("go back to release b1-aa: release b2-bb was measured slower than b1-aa",)
    assert decision.after[SERVICE].running_stamp == OLD
    assert told == []
    assert step.report
    step.report([])
    assert told == [
        "release b2-bb was measured slower than b1-aa, so the former one is back; another run does not try it again"
    ]


@pytest.mark.parametrize(
    ("results", "on"),
    [
        (SLOWER, "warn"),
        ((result("1", OLD), result("2", NEW)), "rollback"),
        ((result("1", OLD), result("2", NEW, 1.4)), "rollback"),
        ((result("2", NEW),), "rollback"),
    ],
)
def test_what_is_not_worse_or_not_asked_for_stays(results: tuple[Result, ...], on: str) -> None:
    decision, _ = kept(results, on)
    assert (decision.steps, decision.left_out) == ((), None)


FLAG = [{"flag": "battery", "why": "the machine ran on its battery"}]
CONTEXT = {"llama_ref": "b2-bb", "context": 65536}


@pytest.mark.parametrize(
    ("results", "changes", "why"),
    [
        ((result("1", OLD), result("2", NEW, 0.7, flags=FLAG)), {}, "its figures cannot be trusted"),
        ((result("1", OLD), result("2", NEW, 0.7, settings=CONTEXT)), {}, "is not all that changed (settings)"),
        ((result("1", OLD), result("2", NEW, 0.7, driver="580")), {}, "is not all that changed (driver)"),
        ((result("1", OLD, release="b2-bb", settings=CONTEXT), result("2", NEW, 0.7)), {}, "it is no other release ("),
        (SLOWER, {"service": {"last_good": None}}, "is not on the host any more"),
        (SLOWER, {"service": {"last_good": FORMER.replace(OLD, "9" * 16)}}, "is not on the host any more"),
        ((result("1", NEW), result("2", NEW, 0.7)), {}, "is not on the host any more"),  # the machine is slower
    ],
)
def test_a_slower_one_stays_all_the_same_and_it_is_said_why(
    results: tuple[Result, ...], changes: dict[str, Any], why: str
) -> None:
    decision, _ = kept(results, **changes)
    assert decision.steps == ()
    assert decision.left_out is not None
    assert why in decision.left_out


def test_what_was_taken_back_is_remembered_on_the_host_and_in_the_history() -> None:
    decision, _ = kept(service={"last_good": FORMER, "rejected": {str(at): "slow" for at in range(30)}})
    rejected = decision.after[SERVICE].rejected
    assert len(rejected) == trial.KEPT
    assert list(rejected)[-1] == NEW


def test_a_service_of_the_systems_is_taken_back_by_root_in_one_step_as_whoever_is_cut_off_takes_it_again() -> None:
    decision, told = kept(scope="system")
    (step,) = decision.steps
    assert step.script.root
    assert step.script.args[:2] == (
        "/var/lib/paddock/bin/paddock-switch",
        "release b2-bb was measured slower than b1-aa",
    )
    assert step.script.args[4] == "dev", "who remembers it"
    assert told == []
    assert step.report
    step.report([])
    assert len(told) == 1


def test_where_the_user_may_not_be_root_the_systems_stays_and_it_is_said_why() -> None:
    decision, _ = kept(scope="system", host={"root": "none"})
    assert decision.steps == ()
    assert decision.left_out == "benchmark_on_regression: it stays all the same: root is needed and dev has none"
    in_turns = alternated(scope="system", host={"root": "none"})
    assert in_turns.steps == ()
    assert in_turns.left_out == "benchmark_ab: root is needed and dev has none"


@pytest.mark.parametrize("history", ["", '{"a": 1}\n', '{"torn'])
@pytest.mark.parametrize("works", [True, False])
def test_the_host_goes_back_and_remembers_it_or_neither(tmp_path: Path, history: str, works: bool) -> None:
    # A stand-in for paddock-switch, which has tests of its own.
    switch, file = tmp_path / "switch", tmp_path / "history.jsonl"
    switch.write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/told\nexit {0 if works else 1}\n')
    switch.chmod(0o755)
    file.write_text(history)
    event = json.dumps({"schema": 2, "kind": "taken back", "stamp": NEW})
    words = [str(switch), "it's slow", str(tmp_path), json.dumps({NEW: "slow"}), event, "~/history.jsonl"]
    command = ["sh", "-c", "set -eu\n" + way_back.USERS + way_back.REMEMBER, "sh", *words]
    done = subprocess.run(command, env={**os.environ, "HOME": str(tmp_path)}, check=False, timeout=30)
    assert (done.returncode == 0) == works
    assert (tmp_path / "told").read_text() == "rollback it's slow\n"
    assert taken_back(file.read_text().split("\n")) == (frozenset({NEW}) if works else frozenset())
    assert file.read_text().startswith(history)
    assert (tmp_path / "rejected.json").exists() == works


def test_the_next_run_does_not_try_it_again_as_long_as_the_former_one_runs() -> None:
    wishes = hosts.wishes(benchmark_on_regression="rollback")
    back = {"running_stamp": OLD, "unit": FORMER, "proved": OLD, "rejected": {NEW: "release b2-bb was measured slower"}}
    decision = service.running(wishes, hosts.converged(service=back))
    assert decision.steps == ()
    assert decision.left_out is not None
    assert "stays as it was before: release b2-bb was measured slower" in decision.left_out
    # Nor is what runs measured as if it were what is wanted.
    resting(lambda seen: benchmark.measured(wishes, lambda lines: None, seen), hosts.converged(service=back))
    assert service.running(hosts.wishes(benchmark_on_regression="warn"), hosts.converged(service=back)).steps
    down = {**back, "properties": {**hosts.converged_answers()["service"]["properties"], "ActiveState": "failed"}}
    assert service.running(wishes, hosts.converged(service=down)).steps, "a slow one is better than none"


def alternated(
    known: tuple[Result, ...] = SLOWER, due: bool = True, ab: bool = True, scope: str = "user", **changes: Any
) -> Decision:
    wishes = hosts.wishes(benchmark_ab=ab, service_scope=scope)
    return trial.alternated(wishes, False, lambda: known, due, hosts.converged(**{**WITH_FORMER, **changes}))


def test_old_and_new_are_measured_in_turns_and_the_new_one_serves_in_the_end() -> None:
    decision = alternated()
    assert [step.what for step in decision.steps] == [
        f"{what} the {which} release, round {turn} of 2"
        for turn in (1, 2)
        for which in ("former", "new")
        for what in ("serve", "measure")
    ]
    scripts = [json.loads(step.script.args[0])["script"] for step in decision.steps]
    assert all('"$1" rollback "$2"' in script for script in scripts[::2])
    assert [OLD in script for script in scripts[1::2]] == [True, False, True, False]
    assert [NEW in script for script in scripts[1::2]] == [False, True, False, True]
    assert all('"kind": "ab"' in script for script in scripts[1::2])
    serve, measure = decision.steps[:2]
    assert measure.undo == serve.script, "where the former cannot be measured, the new one comes back"
    assert [step.undo for step in decision.steps].count(None) == 6


def test_of_the_systems_it_is_root_who_switches_and_the_user_who_measures() -> None:
    decision = alternated(scope="system")
    assert [step.script.root for step in decision.steps] == [True, False] * 4
    assert decision.steps[1].undo == decision.steps[0].script
    assert '"manager": "system"' in json.loads(decision.steps[1].script.args[0])["script"]


def test_what_was_served_before_is_measured_under_the_kernel_and_driver_of_now() -> None:
    decision = alternated((result("1", OLD, kernel="6.1.0-old", driver="575.64.03"), result("2", NEW)))
    former, new = (json.loads(decision.steps[at].script.args[0])["script"] for at in (1, 3))
    assert "6.1.0-old" not in former
    assert "575.64.03" not in former
    for name in ("kernel", "driver", "ram_bytes"):
        (now,) = re.findall(f'"{name}": ([^,]+)', new)
        assert f'"{name}": {now}' in former


def test_it_is_measured_in_turns_once() -> None:
    after = alternated().after
    last = after[BENCHMARK].last
    assert last is not None
    assert last.run, "a dry run plans it where the measuring itself is planned, and this is no more"


@pytest.mark.parametrize(("due", "ab"), [(False, True), (True, False)])
def test_it_is_not_where_nothing_new_was_measured_or_nobody_asked(due: bool, ab: bool) -> None:
    assert alternated(due=due, ab=ab) == Decision(hosts.converged(**WITH_FORMER))


@pytest.mark.parametrize(
    ("known", "changes"),
    [((result("2", NEW),), {}), (SLOWER, {"service": {"last_good": None}}), ((), {})],
)
def test_without_figures_of_the_former_one_it_is_said(known: tuple[Result, ...], changes: dict[str, Any]) -> None:
    decision = alternated(known, **changes)
    assert decision.steps == ()
    assert decision.left_out == "benchmark_ab: no former service with figures is there to measure in alternation"


@pytest.mark.parametrize(
    ("told", "name"), [("--port 8092", "--port"), ("--port 8091 --api-key-file /k", "--api-key-file")]
)
def test_a_former_one_that_is_reached_in_another_way_is_left_alone(told: str, name: str) -> None:
    decision = alternated(service={"last_good": FORMER.replace("--port 8091", told)})
    assert decision.steps == ()
    assert decision.left_out == f"benchmark_ab: the former service is reached by another {name}"


def test_a_former_one_with_too_short_a_context_is_left_alone() -> None:
    short, enough = (alternated((result("1", OLD, n_ctx=size), result("2", NEW))) for size in (2048, 4096))
    assert short.steps == ()
    assert short.left_out == "benchmark_ab: the former service has a context of 2048 tokens, and 2176 are measured"
    assert enough.steps


def test_runs_in_turns_are_compared_as_two_groups() -> None:
    turns = [result(str(at), stamp, kind="ab") for at, stamp in enumerate([OLD, NEW, OLD, NEW], 3)]
    found = latest([*SLOWER, *turns])
    assert found is not None
    assert ([one.run for one in found.before], [one.run for one in found.now]) == (["1", "3", "5"], ["2", "4", "6"])
