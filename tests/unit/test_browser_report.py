"""Where a host stands with its browsers: the last line of the role alone, and the fleet's table."""

from __future__ import annotations

from typing import Any

from roles.browser import report
from roles.browser.table import CHROME, SNAP
from roles.overview.status import row as status_row
from tests.unit import hosts
from tests.unit.browsers import browser_answer, profile
from tests.unit.test_browser import DEB_CHROME, EDGE, FIREFOX, SNAP_CHROMIUM
from tests.unit.test_gpu import TRANSCRIPTS


def summary(installs: Any, managed: Any = (), brief: bool = False, **changes: Any) -> str:
    seen = hosts.converged(browser=browser_answer(installs, managed), **changes)
    return report.summary(hosts.wishes().settings.browser, seen, brief)


def test_the_last_word_tells_what_is_in_force_for_whom() -> None:
    assert summary([]) == "no browser is installed"
    assert summary([DEB_CHROME], [CHROME]) == "local AI models are forbidden to Google Chrome (deb)"
    assert summary([DEB_CHROME]) == "not in force for Google Chrome (deb)"
    assert summary([SNAP_CHROMIUM], [SNAP]) == "local AI models are forbidden to Chromium (snap)"
    for not_read in ({"reaches": False}, {"reaches": None}, {"version": "123.0"}):
        assert summary([{**SNAP_CHROMIUM, **not_read}], [SNAP]) == "not in force for Chromium (snap)"
    assert summary([FIREFOX]).startswith("Firefox (snap) is not supported, because its AI is not Chrome's")
    assert summary([EDGE], brief=True) == "no browser that is supported is installed"
    left = {"profiles": [profile()], "services": [{"pid": 7, "program": "/opt/google/chrome/chrome"}]}
    told = summary([DEB_CHROME], [CHROME], browser_models=left)
    assert "2.7 GB of Google Chrome's local models in /home/dev/.config/google-chrome on disk" in told
    assert "on disk" not in summary([DEB_CHROME], [CHROME], brief=True, browser_models=left)
    assert "(pid 7) holds a local model and an amount of VRAM that cannot be told now" in told


def test_the_fleets_table_tells_what_is_in_force_and_who_holds_a_model() -> None:
    answers = hosts.converged_answers(browser=browser_answer([DEB_CHROME, FIREFOX], [CHROME]))
    answers["gpu"] = TRANSCRIPTS["chrome_with_model"]["seen"]
    _, machine, would = status_row(hosts.wishes(), hosts.parsed(answers))
    assert "browsers: local AI models are forbidden to Google Chrome (deb); Firefox (snap) is not supported" in machine
    assert "VRAM 3544 of 6144 MiB, chrome with a local model 3072, Xorg 329, chrome 120" in machine
    left = {"profiles": [profile()], "services": []}
    seen = hosts.converged(browser=browser_answer([DEB_CHROME], [CHROME]), browser_models=left)
    _, _, would = status_row(hosts.wishes(browser_delete_models=True), seen)
    assert "delete 2.7 GB of Google Chrome's local models" in would
