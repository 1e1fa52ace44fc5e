"""The page of three hosts with a planted history, in Debian's real Chromium: light, dark, and as narrow as a phone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from roles.benchmark import page
from tests.lab import chromium
from tests.lab.chromium import Chromium
from tests.lab.host import LabHost
from tests.unit import planted_history

pytestmark = pytest.mark.timeout(600)

FILE = "home/guest/report.html"
URL = f"file:///{FILE}"
DRAWN = """
return [...document.querySelectorAll('.drawing svg')].map((svg) => {
  const marks = [...svg.querySelectorAll('.role-mark path, .role-mark line')].filter((mark) => {
    const box = mark.getBoundingClientRect();
    return box.width + box.height > 0;
  });
  const text = svg.querySelector('.role-axis-label text');
  return {
    marks: marks.length,
    colours: [...new Set(marks.map((mark) => getComputedStyle(mark).stroke + getComputedStyle(mark).fill))].sort(),
    letters: text.getBoundingClientRect().height,
    overflow: svg.getBoundingClientRect().right - svg.closest('figure').getBoundingClientRect().right,
  };
});
"""
HIDDEN = """
const boxes = [...document.querySelectorAll('.figures, .effects')].map((table) => table.parentNode);
return boxes.map((box) => box.scrollWidth - box.clientWidth);
"""


@pytest.fixture(scope="module")
def browser(with_chromium: LabHost) -> Iterator[Chromium]:
    """A browser, and the page where it can open it."""
    path = with_chromium.root / FILE
    path.write_text(page.render(planted_history.fleet(), datetime(2026, 11, 30, tzinfo=UTC)), "utf-8")
    path.chmod(0o644)
    with chromium.running(with_chromium, "--hide-scrollbars") as browser:
        yield browser


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (1100, "dark"), (360, "light")])
def test_the_page_is_whole_and_quiet(browser: Chromium, width: int, scheme: str) -> None:
    browser.requests()
    browser.open(URL, width, scheme)
    assert browser.console() == []
    assert browser.requests() == [URL], "it asks nobody for anything"
    assert browser.ask("return document.documentElement.scrollWidth") == width, "nothing sticks out"
    assert set(browser.ask(HIDDEN)) == {0}, "the tables are seen whole"
    drawn: list[dict[str, Any]] = browser.ask(DRAWN)
    assert len(drawn) == 16
    for chart in drawn:
        assert chart["marks"] > 0, "every chart has data"
        assert chart["overflow"] <= 0
        assert chart["letters"] >= 9, "and letters that can be read"
    assert len(browser.screenshot()) > 50_000


def test_the_charts_follow_the_page_from_light_to_dark(browser: Chromium) -> None:
    seen = []
    for scheme in ("light", "dark"):
        browser.open(URL, scheme=scheme)
        assert not [colour for chart in browser.ask(DRAWN) for colour in chart["colours"] if "var(" in colour]
        seen.append([browser.ask(DRAWN)[0]["colours"], browser.ask("return getComputedStyle(document.body).color")])
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] != seen[1][1]


def test_no_name_became_a_script_and_no_figure_is_hidden_from_those_who_cannot_see(browser: Chromium) -> None:
    browser.open(URL)
    assert browser.ask("return document.scripts.length") == 0
    assert browser.ask("return document.querySelector('h2[id=host-1]').textContent").startswith('"><script>alert(1)')
    unlabelled = "return [...document.querySelectorAll('.drawing')].filter((one) => !one.ariaLabel).length"
    assert browser.ask(unlabelled) == 0
    opened = """
        document.querySelectorAll('details').forEach((one) => { one.open = true; });
        return [...document.querySelectorAll('details table')].map((one) => one.rows.length);
    """
    assert min(browser.ask(opened)) > 1, "a heading and figures"
