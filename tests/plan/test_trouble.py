"""One host's trouble is its own, and the last lines of a run tell it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.plan.runs import Run
from tests.plan.test_dry import NOTHING

IN_DRY = {
    "no-systemd": "systemd does not run this host, and the service is a systemd unit",
    "password": "packages git cmake ninja-build g++ curl ca-certificates are missing: root is needed and sudo wants a"
    " password; if dev may use sudo, run again with --same-sudo-password",
    "garbage": "the probe's answer cannot be read: Expecting value: line 1 column 1 (char 0)",
    "torn": "the probe's answer cannot be read: Expecting ',' delimiter: line 1 column 24 (char 23)",
    "silent": "the probe ended without an answer; what it printed stands above",
    "no-python": "python3 is not installed, and Paddock looks at a host with it; install it and run again",
    "unpinned": "llama_repo='file:///nonexistent/llama.cpp' cannot be read:"
    " '/nonexistent/llama.cpp' does not appear to be a git repository",
}


@pytest.mark.parametrize("host", IN_DRY)
def test_a_host_that_will_not_do_is_told_once_where_it_happens_and_once_at_the_end(dry: Run, host: str) -> None:
    assert dry.said(host).count(IN_DRY[host]) == 1
    assert dry.last_words(host)[-1] == IN_DRY[host]


@pytest.mark.parametrize("host", IN_DRY)
def test_nothing_would_be_changed_on_it(dry: Run, host: str) -> None:
    assert not [hosts for hosts in dry.changes().values() if f"@fake/{host}" in hosts]


def test_a_dry_run_with_a_host_that_will_not_do_exits_with_1(dry: Run) -> None:
    assert dry.code == 1


def test_without_sudo_what_needs_it_is_left_out_and_said(dry: Run) -> None:
    assert dry.last_words("no-sudo")[1:] == [
        f"{what}: root is needed and dev has none"
        for what in (
            "the policy against the local AI model of Google Chrome (deb) and Chromium (deb) is not set",
            "dev does not linger, so the service stops at logout and does not start at boot",
        )
    ]


@pytest.mark.parametrize(
    ("host", "verdict"),
    [
        ("good", NOTHING),
        ("bare", "rebuild: nothing is built on this host yet"),
    ],
)
def test_of_a_host_that_is_well_a_dry_run_says_the_verdict(dry: Run, host: str, verdict: str) -> None:
    assert dry.last_words(host) == [verdict]


def test_what_was_resolved_is_in_the_lock_beside_the_inventory(acting: Run, acting_folder: Path) -> None:
    (commit,) = yaml.safe_load((acting_folder / "laptops.lock.yml").read_text())["llama_cpp"].values()
    assert re.fullmatch(r"[0-9a-f]{40}", commit)


SERVING = (
    "serving Flint-abliterated-Mix-12G.gguf at http://127.0.0.1:8091 with llama.cpp 012345678, capped at 10096 MiB;"
    " tokens per second: tg empty 22.4, 2k pp / tg 600 / 22.4"
)


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("good", SERVING),
        ("acts", SERVING),
        ("stumbles", "enable lingering: root is needed and sudo refused it: sudo: a password is required"),
        ("no-sudoer", SERVING),
        ("claimed", "enable lingering: another run changes this host: ann@desk since noon; wait for it, or remove"),
        ("lost", "enable lingering: the connection was lost, or the host went down"),
        ("no-systemd", IN_DRY["no-systemd"]),
        ("garbage", IN_DRY["garbage"]),
    ],
)
def test_the_last_line_tells_what_is_served_or_what_went_wrong(acting: Run, host: str, told: str) -> None:
    assert acting.last_words(host)[-1].startswith(told)


def test_what_was_due_at_the_start_is_told_there_and_not_at_the_end_of_a_run_that_did_it(acting: Run) -> None:
    due = f"{NOTHING}; found to do at the start: dev does not linger"
    assert due in acting.said("acts")
    assert [line.startswith("serving ") for line in acting.last_words("acts")] == [True]
    assert acting.last_words("good")[0] == NOTHING, "which is true still"
    assert acting.last_words("partly")[0] == "replan: nothing is recorded about this host yet", "and so is this"
    assert acting.last_words("stumbles")[0] == due, "it was not done"


def test_a_step_that_is_optional_is_left_out_for_a_user_who_may_not_use_sudo(acting: Run) -> None:
    left_out = "enable lingering: root is needed and sudo refused it: dev is not in the sudoers file."
    assert acting.last_words("no-sudoer")[:-1] == [left_out]
    assert not [line for line in acting.said("no-sudoer") if line.startswith("Error: ")]


def test_a_wrong_password_is_no_reason_to_leave_it_out(acting: Run) -> None:
    assert [line for line in acting.said("stumbles") if line.startswith("Error: ")]


def test_a_run_in_which_a_host_has_trouble_exits_with_1(acting: Run) -> None:
    assert acting.code == 1


@pytest.mark.parametrize(
    ("host", "commands"), [("good", 1), ("acts", 5), ("stumbles", 4), ("no-sudoer", 5), ("garbage", 1)]
)
def test_a_host_is_looked_at_once_and_claimed_looked_at_again_and_given_back_where_it_changes(
    acting: Run, host: str, commands: int
) -> None:
    assert len([line for line in acting.said(host) if line.startswith(">>> ")]) == commands


@pytest.mark.parametrize("host", ["no-systemd", "garbage", "stumbles", "claimed", "lost"])
def test_no_operation_goes_on_with_a_host_that_failed(acting: Run, host: str) -> None:
    said = acting.said(host)
    errors = [at for at, line in enumerate(said) if line.startswith("Error: executed ")]
    assert errors == [len(said) - 1]


def test_bad_settings_of_all_hosts_are_told_before_anything_runs(refused: Run) -> None:
    assert refused.code == 2
    assert refused.out == ""
    told = refused.last_lines()
    assert "paddock: @fake/first: contxt: no such key; did you mean context?" in told
    assert any(line.startswith("paddock: @fake/first: port='8091': ") for line in told)
    assert any(line.startswith("paddock: @fake/second: ") and "no role is called servce" in line for line in told)
    assert any(line.startswith("paddock: @fake/second: fit") for line in told)
    assert any("laptops.lock.yml is not a lock file" in line for line in told)
    assert any(
        line.startswith("paddock: @fake/patched: llama_patches: 'missing.patch' cannot be read at ") for line in told
    )
    assert len(told) == 6
    assert "Starting operation" not in refused.err
    assert ">>> " not in refused.err


@pytest.mark.parametrize("run", ["dry", "acting", "refused"])
def test_no_trouble_is_a_traceback(run: str, request: pytest.FixtureRequest) -> None:
    ran: Run = request.getfixturevalue(run)
    assert "Traceback" not in ran.err
    assert "Warning" not in ran.err
