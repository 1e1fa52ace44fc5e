"""One run at a time changes a host: the claim, run for real in a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Host, State

from roles import claim, remote
from roles.overview.record import WRITE
from roles.remote import Failed, Script
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
        remote.run(STATE, cast("Host", self), Script(WRITE, (record, holder or claim.holder())))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(claim, "_claimed", set())
    return Machine(tmp_path)


def line(claims: dict[str, Any]) -> str:
    return json.dumps(claims) + "\n"


def dead() -> str:
    """The claim of a run on this machine that is gone."""
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    return line({**ELSEWHERE, "pid": gone.pid, "started": "1", "place": claim.place()})


def test_a_host_is_claimed_once_in_a_run_and_given_back_with_a_record(host: Machine) -> None:
    host.take()
    host.take()
    assert len(host.commands) == 1
    assert claim.held(cast("Host", host))
    assert json.loads(host.file.read_text())["pid"] == os.getpid()
    host.give_back('{"schema": 1}')
    assert {path.name for path in host.folder.iterdir()} == {"state.json", ".claim"}, "the second is flock's"
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


def test_the_claim_is_one_line(host: Machine) -> None:
    assert "\n" not in claim.holder()
    assert claim.alive(json.loads(claim.holder()))
