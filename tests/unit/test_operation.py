"""What becomes of a run when one of its steps fails: real scripts, run here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Host, State

from roles import claim
from roles.operation import Step, act
from roles.remote import Script
from tests.unit.local import Here

STATE = SimpleNamespace(
    print_output=False, print_input=False, config=SimpleNamespace(SUDO_PASSWORD=None, DIFF=False), active_hosts=()
)


class Telling(Here):
    """This machine in the place of a host, and what is said about it."""

    def __init__(self, home: Path) -> None:
        super().__init__(HOME=str(home))
        self.told: list[str] = []

    def log_styled(self, text: str, **_: Any) -> None:
        self.told.append(text)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Telling]:
    here = Telling(tmp_path)
    yield here
    claim.give_back(cast("State", STATE), cast("Host", here))


def run(host: Telling, **fields: bool) -> bool:
    step = Step("tidy up", Script('fail "the disk is full"'), **fields)  # type: ignore[arg-type]
    return act(cast("State", STATE), cast("Host", host), step)


def test_a_step_that_fails_ends_the_run_of_its_host(host: Telling) -> None:
    assert run(host) is False
    assert host.told == ["tidy up: the disk is full"]


def test_a_minor_step_that_fails_is_told_and_the_run_goes_on(host: Telling) -> None:
    assert run(host, minor=True) is True
    assert host.told == ["tidy up: the disk is full"]
    assert claim.held(cast("Host", host))


def test_no_step_goes_on_where_another_run_has_the_host(host: Telling, tmp_path: Path) -> None:
    lock = tmp_path / ".local/share/paddock/run.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text('{"who": "ann@desk", "place": "elsewhere"}')
    assert run(host, minor=True) is False
    assert host.told[0].startswith("tidy up: another run changes this host: ann@desk")


@pytest.mark.parametrize("begun", [True, False])
def test_after_a_lost_connection_it_is_told_what_goes_on_there_where_it_has_begun(host: Telling, begun: bool) -> None:
    if begun:
        claim.take(cast("State", STATE), cast("Host", host))
    host.lost = True
    step = Step("tidy up", Script("true"), goes_on="it goes on there")
    assert act(cast("State", STATE), cast("Host", host), step) is False
    then = "; unless the host is down, it goes on there" if begun else ""
    assert host.told == [f"tidy up: the connection was lost, or the host went down{then}"]


@pytest.mark.parametrize("undo", ["touch there", "exit 1"])
def test_what_a_step_needs_undone_is_undone_where_it_fails(host: Telling, undo: str, tmp_path: Path) -> None:
    step = Step("plan", Script('fail "no room"'), undo=Script(f"cd '{tmp_path}'; {undo}"))
    assert act(cast("State", STATE), cast("Host", host), step) is False
    assert host.told == ["plan: no room"]
    assert (tmp_path / "there").exists() == ("there" in undo)


def test_a_step_that_goes_well_leaves_it(host: Telling, tmp_path: Path) -> None:
    step = Step("plan", Script("true"), undo=Script(f"touch '{tmp_path}/there'"))
    assert act(cast("State", STATE), cast("Host", host), step) is True
    assert not (tmp_path / "there").exists()
