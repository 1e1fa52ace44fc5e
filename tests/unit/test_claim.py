"""One run at a time changes a host: the claim, run for real in a home of its own."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Host, State

from roles import claim, remote
from roles.remote import Failed, Script
from tests.unit import local
from tests.unit.local import Here

STATE = cast(
    "State", SimpleNamespace(print_output=False, print_input=False, config=SimpleNamespace(SUDO_PASSWORD=None))
)
ELSEWHERE = {"who": "ann@desk", "since": "noon", "pid": 1, "started": "1", "place": "another boot"}


class Machine(Here):
    """A host with a home of its own. `meanwhile` stands in the claim's file before the second command."""

    def __init__(self, home: Path) -> None:
        super().__init__(HOME=str(home))
        self.folder = home / ".local/share/paddock"
        self.file = self.folder / "run.lock"
        self.meanwhile = ""

    def run_shell_command(self, command: Any, **arguments: Any) -> Any:
        if self.commands and self.meanwhile:
            self.file.write_text(self.meanwhile)
        return super().run_shell_command(command, **arguments)

    def held_by(self, text: str) -> None:
        self.folder.mkdir(parents=True)
        self.file.write_text(text)

    def take(self) -> None:
        claim.take(STATE, cast("Host", self))

    def give_back(self, record: str = "", holder: str | None = None) -> None:
        remote.run(STATE, cast("Host", self), Script(claim.REMEMBER, (record, holder or claim.holder())))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(claim, "_claimed", set())
    return Machine(tmp_path)


def line(claims: dict[str, Any]) -> str:
    return json.dumps(claims) + "\n"


def gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def dead() -> str:
    """The claim of a run on this machine that is gone."""
    return line({**ELSEWHERE, "pid": gone(), "started": "1", "place": claim.place()})


def test_a_host_is_claimed_once_in_a_run_and_given_back_with_a_record(host: Machine) -> None:
    host.take()
    host.take()
    assert len(host.commands) == 1
    assert claim.held(cast("Host", host))
    assert json.loads(host.file.read_text())["pid"] == os.getpid()
    host.give_back('{"schema": 1}')
    assert {path.name for path in host.folder.iterdir()} == {"state.json", ".claim", "created"}
    assert (host.folder / "state.json").read_text() == '{"schema": 1}\n'


def test_a_host_that_another_run_changes_is_refused_with_its_name(host: Machine) -> None:
    host.held_by(line(ELSEWHERE))
    with pytest.raises(Failed, match=r"^another run changes this host: ann@desk since noon; wait for it, or remove "):
        host.take()
    assert not claim.held(cast("Host", host))
    assert host.file.read_text() == line(ELSEWHERE)


def test_a_live_run_of_this_machine_is_respected(host: Machine) -> None:
    me = os.getpid()
    host.held_by(line({**ELSEWHERE, "pid": me, "started": claim.started(me), "place": claim.place()}))
    with pytest.raises(Failed, match="another run changes this host"):
        host.take()


def test_a_run_that_died_on_this_machine_holds_nobody_up(host: Machine) -> None:
    host.held_by(dead())
    host.take()
    assert json.loads(host.file.read_text())["pid"] == os.getpid()


def test_a_process_number_that_is_used_again_is_another_process(host: Machine) -> None:
    host.held_by(line({**ELSEWHERE, "pid": os.getpid(), "started": "1", "place": claim.place()}))
    host.take()
    assert claim.held(cast("Host", host))


def test_of_two_that_take_over_from_a_dead_run_only_one_has_the_host(host: Machine) -> None:
    host.held_by(dead())
    host.meanwhile = line(ELSEWHERE)
    with pytest.raises(Failed, match="another run changes this host: ann@desk"):
        host.take()
    assert host.file.read_text() == line(ELSEWHERE)


def test_a_claim_without_a_sign_of_life_is_stale(host: Machine) -> None:
    host.held_by(line(ELSEWHERE))
    past = time.time() - claim.STALE_MINUTES * 60 - 120
    os.utime(host.file, (past, past))
    host.take()
    assert json.loads(host.file.read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("text", ["", "5\n", "not json\n", "[]\n", "two\nlines\n"])
def test_a_claim_that_cannot_be_read_is_somebodys(host: Machine, text: str) -> None:
    host.held_by(text)
    with pytest.raises(Failed, match="another run changes this host: somebody since some time"):
        host.take()


def test_nobody_gives_back_what_another_run_holds(host: Machine) -> None:
    host.held_by(line(ELSEWHERE))
    host.give_back()
    assert host.file.read_text() == line(ELSEWHERE)


def test_a_claim_waits_for_the_one_who_is_about_to_take_or_give_back(host: Machine) -> None:
    """Whoever looks and writes does so alone: no two runs can both find the same dead claim."""
    host.held_by(dead())
    with (host.folder / ".claim").open("w") as lock, ThreadPoolExecutor(1) as beside:
        fcntl.flock(lock, fcntl.LOCK_EX)
        taking = beside.submit(host.take)
        with pytest.raises(TimeoutError):
            taking.result(0.4)
        host.file.write_text(line(ELSEWHERE))
        fcntl.flock(lock, fcntl.LOCK_UN)
        with pytest.raises(Failed, match="another run changes this host: ann@desk"):
            taking.result(10)
    assert host.file.read_text() == line(ELSEWHERE)


def test_of_many_that_come_at_once_one_has_the_host(host: Machine) -> None:
    host.held_by(dead())
    gone = host.file.read_text().strip()

    def come(who: str) -> str:
        """As `claim.take`, with a claim of its own."""
        return local.run(Script(claim.TAKE, (who, gone, "45")), HOME=str(host.folder.parents[2])).stdout.strip()

    with ThreadPoolExecutor(8) as beside:
        answers = list(beside.map(come, [f"run {number}" for number in range(8)]))
    assert answers.count("taken") == 1
    assert {answer for answer in answers if answer != "taken"} == {host.file.read_text().strip()}


def test_a_lock_that_nobody_lets_go_of_is_a_sentence(host: Machine) -> None:
    path = local.tool(host.folder.parents[2] / "bin", "flock", "exit 1\n")
    host.env["PATH"] = path
    with pytest.raises(Failed, match=r"/\.claim is locked by somebody$"):
        host.take()
    assert not host.file.exists()


def test_a_claim_of_ones_own_is_taken_again(host: Machine) -> None:
    host.held_by(claim.holder() + "\n")
    host.take()
    assert host.file.read_text() == claim.holder() + "\n"


def test_whoever_failed_gives_the_host_back_and_may_claim_it_anew(host: Machine) -> None:
    host.take()
    claim.give_back(STATE, cast("Host", host))
    assert not host.file.exists()
    assert not claim.held(cast("Host", host))
    assert not (host.folder / "state.json").exists()
    host.take()
    assert host.file.exists()


@pytest.fixture
def no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller without /proc, a Mac say."""
    monkeypatch.setattr(claim, "Path", lambda path: Path("/nonexistent") / str(path).lstrip("/"))


@pytest.mark.usefixtures("no_proc")
def test_without_proc_a_run_is_known_by_machine_and_number() -> None:
    assert claim.place() == socket.gethostname()
    assert claim.started(os.getpid()) is None
    mine = {**ELSEWHERE, "pid": os.getpid(), "started": None, "place": claim.place()}
    assert claim.alive(mine)
    assert claim.alive({**mine, "place": "another machine", "pid": gone()})
    assert not claim.alive({**mine, "pid": gone()})


@pytest.mark.parametrize(
    "fields", [{"pid": None}, {"pid": "1"}, {"pid": [1]}, {"started": "1"}, {"pid": None, "started": None}]
)
def test_a_claim_of_this_machine_that_names_no_process_of_it_is_dead(fields: dict[str, Any]) -> None:
    assert not claim.alive({**ELSEWHERE, "pid": os.getpid(), "place": claim.place(), **fields})


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 4242")

    monkeypatch.setattr("getpass.getuser", nameless)
    assert claim.user() == str(os.getuid())


def test_the_claim_is_one_line(host: Machine) -> None:
    assert "\n" not in claim.holder()
    assert claim.alive(json.loads(claim.holder()))
