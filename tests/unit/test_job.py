"""A long job on the host, from its start to its end, with stand-ins for systemd's two commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api import StringCommand

from roles import job, remote
from roles.job import Job
from tests.unit import fake_systemd, local
from tests.unit.fake_systemd import FakeSystemd
from tests.unit.test_remote import NASTY, SHOW


@pytest.fixture
def systemd(tmp_path: Path) -> FakeSystemd:
    return fake_systemd.install(tmp_path)


def build(text: str, *args: str, **fields: Any) -> Job:
    return Job(
        **{
            "name": "build",
            "title": "llama.cpp",
            "text": text,
            "args": args,
            "seconds": 60,
            "memory": 1 << 30,
            **fields,
        }
    )


def follow(wanted: Job, systemd: FakeSystemd) -> subprocess.CompletedProcess[str]:
    return local.run(job.follow(wanted), **systemd.env)


def test_a_job_that_ends_well_says_nothing_more(systemd: FakeSystemd) -> None:
    done = follow(build('echo "$1" >"$HOME/made"', "it's\nme"), systemd)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (systemd.home / "made").read_text() == "it's\nme\n"
    assert (systemd.jobs / "build.exit").read_text() == "0\n"
    assert [(systemd.jobs / f"build.{end}").stat().st_mode & 0o777 for end in ("sh", "log")] == [0o600, 0o600]


def test_its_progress_is_shown_after_a_second(systemd: FakeSystemd) -> None:
    """The job goes on until its line was seen."""
    seen = 'for at in $(seq 200); do test ! -e "$HOME/seen" || break; sleep 0.05; done'
    wanted = job.follow(build(f"echo '[7/226] Building CXX object ggml/src/ggml.c.o'; {seen}"))
    command = ["sh", "-c", remote.command(wanted).get_raw_value()]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **systemd.env}, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(remote.stdin(wanted))
        process.stdin.close()
        line = process.stdout.readline()
        (systemd.home / "seen").touch()
        assert process.wait(30) == 0
    assert re.fullmatch(r"llama\.cpp: 7 of 226, 3 %, 0:0[1-3], ggml\.c\.o\n", line)


def test_the_unit_is_capped_and_its_name_is_the_lock(systemd: FakeSystemd) -> None:
    follow(build("true", seconds=10800, memory=12345), systemd)
    called = systemd.called()
    assert {"--user", "--unit=paddock-build"} <= set(called)
    settings = [called[at + 1] for at, word in enumerate(called) if word == "-p"]
    assert {"RuntimeMaxSec=10800", "MemoryMax=12345", "MemorySwapMax=0", "OOMPolicy=stop", "UMask=0022"} <= set(
        settings
    )


@pytest.mark.parametrize(
    ("after", "settings"), [("", []), ("systemctl --user start a.service", ["'systemctl --user start a.service'"])]
)
def test_what_shall_run_afterwards_is_the_units_own_so_that_no_kill_prevents_it(
    systemd: FakeSystemd, after: str, settings: list[str]
) -> None:
    follow(build("true", after=after), systemd)
    told = [word.partition("=")[2] for word in systemd.called() if word.startswith("ExecStopPost=")]
    assert told == ["/bin/sh -c " + words for words in settings]


def test_the_follower_outlives_the_jobs_own_limit() -> None:
    assert job.follow(build("true", seconds=100)).seconds > 100


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('fail "the mirror is gone"', "the mirror is gone"),
        ("exit 3", "exit status 3"),
    ],
)
def test_a_job_that_fails_is_told_by_its_own_sentence_and_where_its_log_is(
    systemd: FakeSystemd, text: str, sentence: str
) -> None:
    done = follow(build(text), systemd)
    assert done.returncode == 1
    assert done.stderr == f"paddock: {sentence} (log: {systemd.jobs}/build.log)\n"


def test_a_job_that_was_killed_is_told_by_what_systemd_knows(systemd: FakeSystemd) -> None:
    (systemd.home / "kill").write_text("oom-kill")
    done = follow(build("true"), systemd)
    assert done.returncode == 1
    assert done.stderr == f"paddock: it needed more memory than its cap; its log is {systemd.jobs}/build.log\n"


def test_the_exit_status_of_the_last_run_is_not_taken_for_this_ones(systemd: FakeSystemd) -> None:
    assert follow(build("true"), systemd).returncode == 0
    (systemd.home / "kill").write_text("oom-kill")
    assert follow(build("true"), systemd).returncode == 1


def test_a_unit_that_does_not_start_is_told(systemd: FakeSystemd) -> None:
    (systemd.home / "refuse").write_text("Failed to connect to bus: No medium found\n")
    done = follow(build("true"), systemd)
    assert done.returncode == 1
    assert done.stderr == (
        "paddock: the unit paddock-build could not be started: Failed to connect to bus: No medium found\n"
    )


def running(systemd: FakeSystemd, text: str) -> subprocess.Popen[bytes]:
    """A job of an earlier run, which ends a moment after somebody looked; its exit status is 0."""
    systemd.jobs.mkdir(parents=True)
    (systemd.jobs / "build.sh").write_text(build(text).script)
    (systemd.jobs / "build.log").write_text("[1/2] Linking x\n")
    unit = systemd.home / "paddock-build.service"
    unit.write_text("active\n")
    looked = f"until test -e {systemd.home}/looked; do sleep 0.05; done"
    end = f"{looked}; echo 0 >{systemd.jobs}/build.exit; echo inactive >{unit}"
    return subprocess.Popen(["sh", "-c", end], stdin=subprocess.DEVNULL)


def test_a_job_that_runs_already_is_joined_and_not_started_twice(systemd: FakeSystemd) -> None:
    with running(systemd, "touch $HOME/made"):
        done = follow(build("touch $HOME/made"), systemd)
    assert (done.returncode, done.stdout) == (0, "joining paddock-build, which is running\n")
    assert not (systemd.home / "called").exists()


def test_another_job_of_that_name_is_waited_for_and_then_this_one_runs(systemd: FakeSystemd) -> None:
    with running(systemd, "other"):
        done = follow(build("touch $HOME/made"), systemd)
    assert (done.returncode, done.stdout) == (0, "waiting for another paddock-build to end\n")
    assert (systemd.home / "made").exists()


def test_what_is_said_of_an_interrupted_job_is_true_of_one_that_waits_for_another_too() -> None:
    assert job.goes_on(build("true")) == (
        "what runs there as paddock-build goes on; the same command rejoins it, or waits for it where another run"
        " began it, and what stops it is `systemctl --user stop paddock-build`"
    )


def test_a_secret_is_in_a_file_that_only_its_user_reads_and_nowhere_else(systemd: FakeSystemd) -> None:
    secret = "$XDG_RUNTIME_DIR/paddock-build.secret"
    done = follow(build(f'stat -c %a "{secret}"; cat "{secret}"; rm "{secret}"; exit 1', secret="hunter2"), systemd)
    assert (systemd.jobs / "build.log").read_text() == "600\nhunter2"
    assert done.returncode == 1
    assert "hunter2" not in (systemd.home / "called").read_text()
    assert "hunter2" not in (systemd.jobs / "build.sh").read_text()
    assert list(systemd.run.iterdir()) == []


@pytest.mark.parametrize(
    ("trouble", "text"), [("refuse", "Failed to connect to bus: No medium found\n"), ("kill", "oom-kill")]
)
def test_a_secret_that_no_job_has_read_does_not_stay(systemd: FakeSystemd, trouble: str, text: str) -> None:
    (systemd.home / trouble).write_text(text)
    (systemd.run / "paddock-build.secret").write_text("of an earlier run")
    done = follow(build("true", secret="hunter2"), systemd)
    assert done.returncode == 1
    assert list(systemd.run.iterdir()) == []


def test_a_secret_is_written_only_when_nothing_else_is_left_to_do(systemd: FakeSystemd) -> None:
    local.tool(systemd.home / "bin", "systemctl", "case $* in *reset-failed*) kill -9 $PPID;; esac; echo inactive\n")
    (systemd.run / "paddock-build.secret").write_text("of an earlier run")
    assert follow(build("true", secret="hunter2"), systemd).returncode != 0
    assert list(systemd.run.iterdir()) == []


def test_a_jobs_arguments_arrive_unchanged() -> None:
    done = local.shell(StringCommand("sh -s"), build(SHOW, *NASTY).script)
    assert done.stdout == "".join(f"<{word}>" for word in NASTY)


def test_nothing_of_a_job_shows_in_debug_output() -> None:
    wanted = build("echo secret", "hunter2", secret="hunter2")
    assert repr(wanted) == "<job build>"
    assert json.loads(job.follow(wanted).args[0])["secret"] == "hunter2"
