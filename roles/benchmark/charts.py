"""The page's charts: Vega-Lite, turned into SVG here, so that the page needs no script and no network.

Colours are the page's own CSS variables, which light and dark set; words are drawn by Vega, which escapes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import vl_convert
from markupsafe import Markup

VEGA_LITE = "6.4"
WIDTH, HEIGHT = 360, 220  # drawn about as wide as a phone is, so that words stay readable there
BEFORE, NOW, SEED = "before", "now", "the article's laptop"
COLOURS = {NOW: "var(--now)", BEFORE: "var(--before)", SEED: "var(--seed)"}
DASHES = {NOW: [1, 0], BEFORE: [5, 3], SEED: [2, 3]}
CONFIG: dict[str, Any] = {
    "background": None,
    "font": "sans-serif",
    "numberFormat": ",f",
    "padding": 4,
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--muted)", "titleColor": "var(--muted)", "labelFontSize": 11, "titleFontSize": 11,
        "titleFontWeight": "normal", "gridColor": "var(--line)", "domainColor": "var(--line)", "ticks": False,
        "labelPadding": 6, "titlePadding": 8,
    },
    "legend": {
        "labelColor": "var(--ink)", "labelFontSize": 11, "title": None, "orient": "top", "symbolStrokeWidth": 2.5,
        "symbolSize": 160, "offset": 8, "padding": 0, "columnPadding": 14,
    },
    "text": {"color": "var(--ink)", "fontSize": 11},
    "rule": {"color": "var(--muted)"},
}  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """A drawing, what it says in a sentence, and the figures behind it."""

    title: str
    says: str
    svg: Markup
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Point:
    """A median and the extremes of its samples."""

    x: float
    y: float
    low: float
    high: float


def lines(drawn: dict[str, Sequence[Point]], x_title: str, y_title: str) -> Markup:
    """One line per name in COLOURS, its points with the extremes of their samples. The axis begins at 0."""
    values = [
        {"who": who, "x": point.x, "y": point.y, "low": point.low, "high": point.high}
        for who, points in reversed(drawn.items())  # the first lies on top of the others
        for point in points
    ]
    names = list(drawn)
    colour = {
        "field": "who", "type": "nominal", "sort": names, "legend": {"symbolType": "stroke"},
        "scale": {"domain": names, "range": [COLOURS[name] for name in names]},
    }  # fmt: skip
    dash = {**colour, "scale": {"domain": names, "range": [DASHES[name] for name in names]}}
    x = {
        "field": "x", "type": "quantitative", "title": x_title, "scale": {"nice": False, "padding": 8},
        "axis": {"labelExpr": "datum.value >= 1024 ? format(datum.value / 1024, '.3~f') + 'k' : datum.label",
                 "values": _ticks([point.x for points in drawn.values() for point in points]), "grid": False},
    }  # fmt: skip
    y = {
        "field": "y",
        "type": "quantitative",
        "title": y_title,
        "axis": {"tickCount": 5},
        "scale": {"zero": True, "nice": 5},
    }
    bar = {**y, "field": "low"}
    return _svg(
        values,
        [
            {"mark": {"type": "line", "strokeWidth": 2},
             "encoding": {"x": x, "y": y, "color": colour, "strokeDash": dash}},
            {"mark": {"type": "rule", "strokeWidth": 1.5},
             "encoding": {"x": x, "y": bar, "y2": {"field": "high"}, "color": colour}},
            {"mark": {"type": "point", "filled": True, "size": 42, "opacity": 1},
             "encoding": {"x": x, "y": y, "color": colour}},
        ],
    )  # fmt: skip


def areas(
    seconds: Sequence[float], held: Mapping[str, tuple[str, Sequence[float | None]]], marks: dict[str, float]
) -> Markup:
    """What is held over a run, stacked, in MiB. `held`: colour and values by name; `marks`: levels with a name."""
    values = [
        {"x": second, "y": value, "what": name, "order": order}
        for order, (name, (_, series)) in enumerate(held.items())
        for second, value in zip(seconds, series, strict=False)
        if value is not None
    ]
    names = list(held)
    top = max(
        [*marks.values(), *map(sum, zip(*[[value or 0 for value in part[1]] for part in held.values()], strict=False))]
    )
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "area", "fillOpacity": 0.3, "line": {"strokeWidth": 1.5}, "interpolate": "step-after"},
            "encoding": {
                "x": {"field": "x", "type": "quantitative", "title": "seconds", "axis": {"grid": False, "tickCount": 6},
                      "scale": {"nice": False}},
                "y": {"field": "y", "type": "quantitative", "stack": "zero", "title": "MiB",
                      "axis": {"tickCount": 5}, "scale": {"domain": [0, top * 1.12], "nice": False}},
                "color": {"field": "what", "type": "nominal", "sort": names,
                          "legend": {"symbolType": "square", "symbolSize": 80},
                          "scale": {"domain": names, "range": [colour for colour, _ in held.values()]}},
                "order": {"field": "order"},
            },
        }
    ]  # fmt: skip
    for name, level in marks.items():
        own = {"values": [{"y": level, "name": name}]}
        y = {"field": "y", "type": "quantitative"}
        limit = name.startswith("limit")
        layers += [
            {"data": own, "mark": {"type": "rule", "strokeDash": [1, 0] if limit else [3, 3], "strokeWidth": 1.2,
                                   "color": "var(--worse)" if limit else "var(--muted)"}, "encoding": {"y": y}},
            *_readable({"data": own, "mark": {"type": "text", "align": "left", "dy": -8, "x": 4},
                        "encoding": {"y": y, "text": {"field": "name"}}}),
        ]  # fmt: skip
    return _svg(values, layers)


def history(points: Sequence[Point], moments: Sequence[datetime], marks: dict[int, str], y_title: str) -> Markup:
    """A figure from run to run, evenly apart; `marks`: what is another than before from the run of this number on."""
    values = [{"x": point.x, "y": point.y, "low": point.low, "high": point.high} for point in points]
    last = len(points)
    named = sorted({1, *range(1, last, max(round(last / 4), 1)), last})
    days = {one.date() for one in moments}
    by, shown = ("day", slice(5, 10)) if len(days) > 1 else (f"time on {days.pop().isoformat()}", slice(11, 16))
    # A moment as such has no quotes that an expression could end at.
    labels = [f"datum.value == {at} ? '{moments[at - 1].isoformat()[shown]}'" for at in named]
    x = {
        "field": "x", "type": "quantitative", "title": f"runs, by {by} (UTC)",
        "scale": {"domain": [0.6, last + 0.4], "nice": False},
        "axis": {"values": named, "labelExpr": " : ".join([*labels, "''"]), "grid": False, "labelOverlap": True},
    }  # fmt: skip
    # Not from 0, or a change that matters would not be seen; room for the words of the marks above.
    domain = [0.75 * min(point.low for point in points), 1.25 * max(point.high for point in points)]
    y = {"field": "y", "type": "quantitative", "title": y_title, "axis": {"tickCount": 5}, "scale": {"domain": domain}}
    told = [{"x": at - 0.5, "what": what} for at, what in marks.items()]
    own = {"values": told}
    between = {"field": "x", "type": "quantitative", "scale": {"domain": [0.6, last + 0.4]}}
    return _svg(
        values,
        [
            {"data": own, "mark": {"type": "rule", "strokeDash": [3, 3]}, "encoding": {"x": between}},
            {"mark": {"type": "line", "strokeWidth": 1.5, "color": "var(--now)", "opacity": 0.5},
             "encoding": {"x": x, "y": y}},
            {"mark": {"type": "rule", "strokeWidth": 1.5, "color": "var(--now)"},
             "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}},
            {"mark": {"type": "point", "filled": True, "size": 36, "opacity": 1, "color": "var(--now)"},
             "encoding": {"x": x, "y": y}},
            *_readable({
                "data": own,
                "mark": {"type": "text", "angle": 270, "align": "right", "baseline": "bottom", "dy": -3, "dx": -2,
                         "y": 4, "color": "var(--muted)"},
                "encoding": {"x": between, "text": {"field": "what"}},
            }),
        ],
    )  # fmt: skip


def _readable(text: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Words with a rim of the paper's colour, for lines may run below them."""
    rim = {**text["mark"], "color": "var(--card)", "stroke": "var(--card)", "strokeWidth": 4}
    return {**text, "mark": rim}, text


def _ticks(values: Sequence[float]) -> list[float]:
    """The values themselves, without those that would touch their neighbour."""
    kept: list[float] = []
    reach = (max(values) - min(values)) / 12 if values else 0
    for value in sorted(set(values), reverse=True):
        if not kept or kept[-1] - value > reach:
            kept.append(value)
    return kept


def _svg(values: list[dict[str, Any]], layers: list[dict[str, Any]]) -> Markup:
    spec = {
        "width": WIDTH,
        "height": HEIGHT,
        "autosize": {"type": "fit", "contains": "padding"},
        "data": {"values": values},
        "layer": layers,
        "config": CONFIG,
    }
    # No address is allowed to be fetched, and none is named.
    return Markup(vl_convert.vegalite_to_svg(spec, VEGA_LITE, allowed_base_urls=[]))
