"""A card that our own service fills: it makes room for the questions, and comes back whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles.benchmark.observe import HISTORY as BENCHMARKS
from roles.memory import pause_program
from roles.memory.decide import PAUSE
from roles.memory.observe import HISTORY
from roles.remote import Script
from roles.service.command import UNIT
from tests.unit import local
from tests.unit.fake_oracle import Fake

SERVICE, TIMER = "active-paddock-llama-server.service", "active-paddock-resume.timer"
LOOK = 'echo "NVIDIA RTX 3050, 5000"'


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path, smi=LOOK)


def told(fake: Fake) -> list[str]:
    """What systemd was told, without what it was asked."""
    log = fake.home / "systemd.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [line for line in lines if "is-active" not in line]


def test_it_stops_under_a_timer_and_is_started_again(fake: Fake) -> None:
    (fake.home / SERVICE).touch()
    fake.plan(pause=True)
    assert told(fake) == [
        "systemd-run --user --quiet --collect --unit=paddock-resume --on-active=300 systemctl --user start"
        " paddock-llama-server.service",
        "systemctl --user stop paddock-llama-server.service",
        "systemctl --user start paddock-llama-server.service",
        "systemctl --user stop paddock-resume.timer",
    ]


def test_it_comes_back_where_the_plan_comes_to_nothing(fake: Fake) -> None:
    (fake.home / SERVICE).touch()
    fake.trouble = "sys.exit(3)"
    assert "(status 3)" in fake.refusal(pause=True)
    assert told(fake)[-2:] == [
        "systemctl --user start paddock-llama-server.service",
        "systemctl --user stop paddock-resume.timer",
    ]


def test_what_a_killed_run_stopped_is_started_by_the_next_one(fake: Fake) -> None:
    (fake.home / TIMER).touch()
    fake.plan()
    assert told(fake)[-2:] == [
        "systemctl --user start paddock-llama-server.service",
        "systemctl --user stop paddock-resume.timer",
    ]


def test_without_a_timer_it_is_not_stopped(fake: Fake) -> None:
    (fake.home / SERVICE).touch()
    (fake.home / "no-timers").touch()
    assert fake.refusal(pause=True).startswith("llama-server holds the VRAM, and systemd promises no timer")
    assert not [line for line in told(fake) if " stop " in line]


def test_one_that_somebody_stopped_stays_stopped_and_one_that_is_not_in_the_way_goes_on(fake: Fake) -> None:
    fake.plan(pause=True)
    (fake.home / SERVICE).touch()
    fake.plan(pause=False)
    assert told(fake) == []


def test_the_names_are_those_of_the_roles_above() -> None:
    assert pause_program.SERVICE == UNIT
    assert HISTORY == BENCHMARKS


# systemd's part is played: what is active is a file.
SYSTEMCTL = """
echo "$*" >>"$FAKE/calls"
for last; do :; done
case $1 in
-q) test -e "$FAKE/$last" ;;
stop) rm -f "$FAKE/$last" ;;
start) touch "$FAKE/$last" ;;
esac
"""
RUN = 'echo "timer $*" >>"$FAKE/calls"; touch "$FAKE/paddock-resume.timer"\n'


@pytest.mark.parametrize("runs", [True, False])
def test_root_stops_a_service_of_the_systems_and_starts_it_again_or_a_timer_does(runs: bool, tmp_path: Path) -> None:
    path = local.tool(tmp_path / "bin", "systemctl", SYSTEMCTL)
    local.tool(tmp_path / "bin", "systemd-run", RUN)
    unit = tmp_path / UNIT
    if runs:
        unit.touch()
    for word in ("stop", "stop", "start", "start"):
        done = local.run(Script(PAUSE, (word,)), PATH=path, FAKE=str(tmp_path))
        assert done.returncode == 0, done.stderr
        assert unit.exists() == (runs and word == "start")
    timers = [line for line in (tmp_path / "calls").read_text().splitlines() if line.startswith("timer")]
    assert len(timers) == runs
    assert not (tmp_path / "paddock-resume.timer").exists()
