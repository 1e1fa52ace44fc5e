"""The page of figures: what stands on it, and that nothing a host says becomes more than words."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from roles.benchmark import drawn, page, seed, table, words
from roles.benchmark.record import Result, parsed
from roles.benchmark.reports import Past
from tests.unit import measured, planted_history

AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
# All elements that the templates and Vega make; any other came from a host.
OWN = """
html head meta title style body header main footer section p h1 h2 h3 b br small div span table thead tbody tr
th td a bdi ul li dl dt dd figure figcaption details summary code svg g path line text rect
"""


class Elements(HTMLParser):
    """What a browser would make of it: elements, attributes, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def rendered() -> str:
    return page.render({**planted_history.fleet(), "not-yet": Past()}, AT)


@pytest.fixture(scope="module")
def elements(rendered: str) -> Elements:
    return Elements(rendered)


def test_nothing_that_a_host_says_becomes_an_element_or_an_attribute(elements: Elements) -> None:
    assert {tag for tag, _ in elements.tags} <= set(OWN.split())
    assert not [name for _, attributes in elements.tags for name in attributes if name.startswith("on")]


def test_the_page_asks_nobody_for_anything_and_says_so_to_the_browser(elements: Elements, rendered: str) -> None:
    policies = [attributes["content"] for tag, attributes in elements.tags if attributes.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    places = [value for _, attributes in elements.tags for name, value in attributes.items() if name in ("src", "href")]
    assert places
    assert all(value and value.startswith("#host-") for value in places)
    assert "url(" not in rendered
    assert "@import" not in rendered


def test_every_id_is_there_once_and_every_label_has_its_words(elements: Elements) -> None:
    ids = Counter(attributes["id"] for _, attributes in elements.tags if "id" in attributes)
    assert ids.most_common(1)[0][1] == 1
    told = {attributes["aria-labelledby"] for _, attributes in elements.tags if "aria-labelledby" in attributes}
    assert told <= set(ids)


def test_every_chart_has_a_sentence_and_a_table(elements: Elements) -> None:
    tags = Counter(tag for tag, _ in elements.tags)
    drawings = [attributes for _, attributes in elements.tags if attributes.get("role") == "img"]
    assert tags["figure"] == tags["svg"] == tags["details"] == len(drawings) == 6 + 6 + 4
    assert all(drawing["aria-label"] for drawing in drawings)


def test_the_articles_rows_stand_beside_the_hosts(elements: Elements) -> None:
    assert seed.TITLE in elements.words
    for cell in ("619 / 22.3", "875 / 22.4", "606 / 13.3", "346 / 11.7", "5,342"):
        assert cell in elements.words


def test_verdicts_are_words_and_not_colours_alone(elements: Elements) -> None:
    assert "▼ worse" in elements.words
    assert "▲ better" in elements.words
    assert "release b10864-1a2b3c4d → b12464-5e6f7a8b: worse than before: " in elements.words
    assert "not to be trusted: before: " in elements.words


def test_the_first_table_tells_who_got_worse_and_whose_figures_are_doubtful(elements: Elements) -> None:
    glance = elements.words.partition("The article's laptop:")[0]
    assert "ada-laptop ▼ worse Qwen3" in glance
    assert "≈ no difference doubtful: battery, swap " in glance


def test_what_the_table_has_no_columns_for_is_told(elements: Elements) -> None:
    assert "first token of the next turn: 6.6 s at 32k, 12.7 s at 100k, 13.6 s at 118k; medians of 3 passes" in (
        elements.words
    )


def test_reading_at_a_depth_is_told_beside_reading_to_it() -> None:
    result = Result.model_validate(measured.entry(rows=[measured.row(2048, 800.0, 28.0)]))
    assert table.further(result)[-1] == "reading one batch more, tokens per second: 640 at 2k"


def test_runs_of_one_day_are_told_apart_by_their_time() -> None:
    def of(*times: str) -> str:
        runs = [Result.model_validate(measured.entry(test_time=f"2026-11-{time}:00Z")) for time in times]
        chart = drawn.history("tg", runs)
        assert chart
        return str(chart.svg)

    assert all(
        word in of("30T12:00", "30T13:15") for word in (">12:00<", ">13:15<", "runs, by time on 2026-11-30 (UTC)")
    )
    assert all(word in of("29T12:00", "30T12:00") for word in (">11-29<", ">11-30<", "runs, by day (UTC)"))


def test_a_column_of_several_runs_says_that_it_has_their_median() -> None:
    runs = [Result.model_validate(measured.entry(run=str(at), driver=at)) for at in ("1", "2", "2")]
    words = Elements(page.render({"desk": Past(results=tuple(runs))}, AT)).words
    assert "Figure before now, median of 2 runs change, 95 %" in words


def test_the_plan_beside_what_was_measured_of_a_card_holds_the_runtime_too() -> None:
    budget = {
        "device": "CUDA0", "name": "x", "total": 6144, "reserve": 0, "margin": 0, "overhead": 320, "limit": None,
        "room": 5824,
    }  # fmt: skip
    took = {"seconds": [1.0, 2.0], "series": {"vram_mib": [5000.0, 5257.0], "anon_mib": [700.0, 700.0]}}
    plan = {**planted_history.PLAN, "budgets": [budget]}
    newest = Result.model_validate(measured.entry(plan=plan, resources=took))
    vram, ram = drawn.vram(newest), drawn.ram(newest)
    assert vram
    assert ram
    assert vram.rows[-1][:2] == ("planned runtime 320, up to", "5,257")
    assert ram.rows[-1][:2] == ("planned compute 512, up to", "7,289")


def test_one_depth_makes_no_chart() -> None:
    alone = Result.model_validate(measured.entry(rows=[measured.row(2048, 900.0, 28.0)]))
    assert drawn.against_depth("pp", alone, None) is None


def test_a_host_without_figures_is_named(elements: Elements) -> None:
    assert "Nothing measured yet: not-yet" in elements.words


def test_what_cannot_be_seen_or_turns_the_text_around_is_shown_as_such(rendered: str) -> None:
    assert "\u202e" not in rendered
    assert "../../\N{REPLACEMENT CHARACTER}etc" in rendered
    assert words.tidy("a\x1b[31mb\u2028c\u200ed") == "a\ufffd[31mb\ufffdc\ufffdd"
    assert words.tidy("né 日本 −5\N{NO-BREAK SPACE}%") == "né 日本 −5\N{NO-BREAK SPACE}%"


def test_an_empty_fleet_is_a_page_too() -> None:
    assert seed.TITLE in Elements(page.render({}, AT)).words


@pytest.mark.parametrize(
    ("plain", "set_well"),
    [("-9.4 % (-12.6 to +6.1)", "−9.4\u00a0% (−12.6\u00a0to\u00a0+6.1)"), ("a-1 -> b", "a-1 → b")],
)
def test_sentences_are_set_well(plain: str, set_well: str) -> None:
    assert page.typographic(plain) == set_well


@pytest.mark.parametrize(
    "changes",
    [
        {"resources": {}},
        {"resources": {"seconds": [1.0, 2.0, 3.0], "series": {"anon_mib": [1.0], "file_mib": [None, 0.0, 5.0]}}},
        {"resources": {"seconds": [1.0, 2.0], "series": {"vram_mib": [0.0, 0.0]}}, "cards": [{"name": "x"}]},
        {"plan": {"devices": "none", "host": 7}},
        {"plan": {**planted_history.PLAN, "devices": []}},
        {"rows": []},
        {"rows": [{"n_depth": 7, "tg": measured.figure(0.0)}]},
        {"test_time": "0001-01-01T00:00:00+23:59"},
        {"settings": {"a": {"b": [None]}}},
    ],
)
def test_a_page_is_made_of_whatever_a_host_may_have(changes: dict[str, Any]) -> None:
    results = [Result.model_validate(measured.entry(run=str(at), **changes)) for at in (1, 2)]
    assert "odd" in Elements(page.render({"odd": Past(tuple(results))}, AT)).words


@pytest.mark.parametrize("sample", ["NaN", "Infinity", "-1", "1e300", '"fast"'])
def test_a_line_with_figures_that_are_none_is_passed_over(sample: str) -> None:
    line = measured.line(rows=[{"n_depth": 0, "tg": measured.figure(4711.0)}])
    assert parsed(line) is not None
    assert parsed(line.replace('"samples_ts": [4711.0]', f'"samples_ts": [{sample}]')) is None
