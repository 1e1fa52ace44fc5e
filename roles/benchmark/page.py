"""The page of a fleet's figures: one HTML file that needs nothing else, neither script nor network.

What hosts say is not to be trusted: Jinja2 escapes all of it, Vega what it draws, and the page forbids itself
everything but its own styles (Content-Security-Policy).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import jinja2

from roles.benchmark import comparison, drawn, seed, words
from roles.benchmark.advice import advice
from roles.benchmark.charts import Chart
from roles.benchmark.comparison import Comparison
from roles.benchmark.record import Result
from roles.benchmark.reports import Past
from roles.benchmark.table import depth_name, further

SHOWN = 60  # runs of a history that are drawn
CHIPS = {"better": "▲ better", "worse": "▼ worse", "indistinguishable": "≈ no difference", "first": "• first run"}


def typographic(text: str) -> str:
    """Arrows, minus signs and spaces that do not break, where the terminal's sentences have plain ones."""
    text = text.replace("->", "\N{RIGHTWARDS ARROW}").replace(" %", "\N{NO-BREAK SPACE}%")
    text = re.sub(r"\((\S+) to (\S+)\)", "(\\1\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}\\2)", text)
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text)


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parents[2] / "templates" / "report"),
    autoescape=True,
    finalize=lambda value: words.tidy(value) if type(value) is str else value,  # Markup is a str of ours
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Line:
    """A row of the seed's table."""

    name: str
    config: str
    vram: str
    ram: str
    cells: tuple[str, ...]
    anchor: str = ""
    kind: str = ""
    doubts: str = ""


@dataclass(frozen=True)
class HostView:
    """Everything that the page says about one host."""

    name: str
    anchor: str
    newest: Result
    runs: int
    kind: str
    verdict: str
    inputs: tuple[tuple[str, str, str], ...]
    effects: tuple[tuple[str, str, str, str, str], ...]
    columns: tuple[str, str]
    charts: tuple[Chart, ...]
    advice: tuple[str, ...]

    @property
    def further(self) -> list[str]:
        """What the table has no columns for."""
        return further(self.newest)

    @property
    def machine(self) -> str:
        """What the host is, in a line."""
        one = self.newest
        cards = " and ".join(card.name for card in one.cards) or "no GPU"
        ram = f"{one.ram_bytes / 1e9:.0f} GB of RAM" if one.ram_bytes else ""
        driver = f"driver {one.driver}" if one.driver else ""
        return ", ".join(filter(None, [cards, one.cpu_info, ram, driver, f"kernel {one.kernel}" if one.kernel else ""]))


def render(hosts: Mapping[str, Past], at: datetime) -> str:
    """The page. Hosts without any results are named."""
    measured = {name: past for name, past in sorted(hosts.items()) if past.results}
    views = [view(name, f"host-{number}", past) for number, (name, past) in enumerate(measured.items(), 1)]
    depths = _depths([each.newest for each in views])
    return _TEMPLATES.get_template("page.html.j2").render(
        at=at.strftime("%Y-%m-%d %H:%M"),
        hosts=views,
        bare=sorted(set(hosts) - set(measured)),
        columns=[_column(depth) for depth in depths],
        lines=[_line(each, depths) for each in views],
        article=list(_article(depths)),
        article_title=seed.TITLE,
        when=words.when,
        chips=CHIPS,
    )


def view(name: str, anchor: str, past: Past) -> HostView:
    """One host. The anchor is ours: a name may be anything."""
    results = past.results
    found = comparison.latest(results, past.rejected)
    return HostView(
        name=name,
        anchor=anchor,
        newest=results[-1],
        runs=len(results),
        kind=found.kind if found else "first",
        verdict=typographic(words.verdict(found)) if found else "measured once: there is nothing to compare with yet",
        inputs=tuple((each.name, each.before, each.now) for each in found.inputs) if found else (),
        effects=tuple(_effects(found)) if found else (),
        columns=(_median("before", found.before), _median("now", found.now)) if found else ("before", "now"),
        charts=tuple(drawn.all_of(results[-SHOWN:], found)),
        advice=tuple(advice(results[-1], found)),
    )


def _effects(found: Comparison) -> Iterator[tuple[str, str, str, str, str]]:
    for effect in found.judgement.effects:
        before, now = words.before_and_now(found, effect)
        yield comparison.title(effect.series), before, now, typographic(comparison.change(effect)), effect.kind


def _median(when: str, group: Sequence[Result]) -> str:
    """A column's name: charts draw the newest run, verdicts are of all that count."""
    return f"{when}, median of {len(group)} runs" if len(group) > 1 else when


def _depths(newest: Sequence[Result]) -> list[int]:
    """The columns of the table: the article's depths, and those of the hosts."""
    article = {depth for depth, _, _ in seed.ROWS[-1].figures}
    return sorted(article | {row.n_depth for result in newest for row in result.rows})


def _column(depth: int) -> str:
    return f"{depth_name(depth)} pp / tg" if depth else "tg empty"


def _line(each: HostView, depths: Sequence[int]) -> Line:
    took = each.newest.resources
    speeds = {row.n_depth: (row.pp.median if row.pp else None, row.tg.median) for row in each.newest.rows}
    vram = "" if took.peak_vram_mib is None else f"{took.peak_vram_mib:,}"
    ram = f"{took.peak_ram_bytes / 1e9:.1f}"
    doubts = ", ".join(dict.fromkeys(flag.flag.replace("_", " ") for flag in each.newest.flags))
    cells = tuple(_cells(speeds, depths))
    return Line(each.name, each.newest.config, vram, ram, cells, each.anchor, each.kind, doubts)


def _article(depths: Sequence[int]) -> Iterator[Line]:
    for row in seed.ROWS:
        speeds = {depth: (pp, tg) for depth, pp, tg in row.figures}
        yield Line("", row.config, f"{row.vram:,}", f"{row.ram:.1f}", tuple(_cells(speeds, depths)))


def _cells(speeds: Mapping[int, tuple[float | None, float]], depths: Sequence[int]) -> Iterator[str]:
    for depth in depths:
        if depth not in speeds:
            yield ""
            continue
        pp, tg = speeds[depth]
        yield f"{tg:.1f}" if pp is None else f"{pp:.0f} / {tg:.1f}"
