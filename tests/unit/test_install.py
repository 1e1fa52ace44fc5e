"""paddock-switch and the watchdog get onto a host whole: killed anywhere, once more comes to the same end."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles.remote import Script
from roles.service.decide import INSTALL
from tests.unit import local

TIMER = "paddock-watchdog.timer"


def install(home: Path, program: str = "gate", fails: str = "") -> tuple[int, list[str]]:
    """Its exit status, and what systemd was asked for; `fails`: the word at which systemctl fails."""
    log = home / "asked"
    log.write_text("")
    path = local.tool(home / "bin", "systemctl", f'echo "$*" >>{log}\ncase $2 in "{fails}") exit 1 ;; esac\n')
    arguments = (program, "service\n", "timer\n", str(home / "state"), str(home / "units"), "user")
    return local.run(Script(INSTALL, arguments), PATH=path).returncode, log.read_text().splitlines()


ENABLED = [f"--user enable --quiet --now {TIMER}"]


def test_the_first_time_the_timer_is_enabled_and_later_it_is_left_as_it_is(tmp_path: Path) -> None:
    assert install(tmp_path) == (0, ["--user daemon-reload", *ENABLED])
    assert (tmp_path / "state/bin/paddock-switch").stat().st_mode & 0o777 == 0o755
    assert install(tmp_path, "newer gate") == (0, ["--user daemon-reload"])
    assert (tmp_path / "state/bin/paddock-switch").read_text() == "newer gate"
    assert (tmp_path / "units" / TIMER).read_text() == "timer\n"


@pytest.mark.parametrize("fails", ["daemon-reload", "enable"])
def test_one_that_did_not_come_to_enable_the_timer_does_it_the_next_time(tmp_path: Path, fails: str) -> None:
    assert install(tmp_path, fails=fails)[0] == 1
    assert not (tmp_path / "state/bin/paddock-switch").exists(), "by which the next run sees that all is there"
    assert install(tmp_path) == (0, ["--user daemon-reload", *ENABLED])


def test_a_masked_timer_stays_masked_and_the_gate_is_there_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / TIMER).symlink_to("/dev/null")
    assert install(tmp_path) == (0, [])
    assert (tmp_path / "units" / TIMER).is_symlink()
    assert (tmp_path / "state/bin/paddock-switch").read_text() == "gate"
