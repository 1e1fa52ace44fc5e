"""Which charts a host's page has, and the table behind each. Pure, but for Vega's drawing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate, pairwise

from pydantic import ValidationError

from roles.benchmark import charts, comparison, seed
from roles.benchmark.charts import BEFORE, NOW, SEED, Chart, Point
from roles.benchmark.comparison import Comparison
from roles.benchmark.record import Figure, Result, Row
from roles.benchmark.table import depth_name
from roles.benchmark.words import when
from roles.memory.plan import Plan

MIB = 1 << 20
NEAR = 0.08  # of the highest level: two marks closer than that would write over each other
FAR = 32 << 10  # tokens of context from which on the article has figures, its empty context apart
ROWS = 12  # of the table behind a chart over time
FLEETING = {"measuring", "kernel", "machine"}  # no marks of the history's of their own

Pick = Callable[[Row], Figure | None]
PICKS: dict[str, tuple[str, Pick]] = {
    "pp": ("pp: reading the prompt", lambda row: row.pp),
    "tg": ("tg: generating the reply", lambda row: row.tg),
}


def all_of(results: Sequence[Result], found: Comparison | None) -> list[Chart]:
    """The charts of one host that its figures suffice for."""
    drawn = [against_depth(metric, results[-1], found) for metric in PICKS]
    drawn += [history(metric, results) for metric in PICKS]
    drawn += [vram(results[-1]), ram(results[-1])]
    return [chart for chart in drawn if chart]


def against_depth(metric: str, newest: Result, found: Comparison | None) -> Chart | None:
    """A speed against the tokens in the context: now, before, and the article's. None for less than two depths."""
    title, pick = PICKS[metric]
    drawn: dict[str, Sequence[Point]] = {NOW: _points(newest, pick)}
    # Each depth as it was measured last: a smoke run and a full one have others.
    before = {point.x: point for result in found.before for point in _points(result, pick)} if found else {}
    if before:
        drawn[BEFORE] = [before[depth] for depth in sorted(before)]
    if len({point.x for points in drawn.values() for point in points}) < 2:
        return None  # one depth: the table has it
    article = [(depth, pp if metric == "pp" else tg) for depth, pp, tg in seed.ROWS[-1].figures]
    if newest.rows[-1].n_depth >= FAR:
        drawn[SEED] = [Point(depth, speed, speed, speed) for depth, speed in article if speed is not None]
    depths = sorted({point.x for points in drawn.values() for point in points})
    return Chart(
        f"{title}, against depth",
        f"{title} in tokens per second at {len(drawn[NOW])} depths; the bars are the extremes of the samples",
        charts.lines(drawn, "tokens in the context", "tokens per second"),
        ("tokens in the context", *drawn),
        tuple((depth_name(int(depth)), *(_at(points, depth) for points in drawn.values())) for depth in depths),
    )


def vram(newest: Result) -> Chart | None:
    """The card's memory over the run, against what it has and what was planned of it."""
    took, cards = newest.resources, newest.cards
    held = {
        "llama-server": ("var(--now)", took.series.get("vram_mib", ())),
        "everything else": ("var(--before)", took.series.get("vram_others_mib", ())),
    }
    total = sum(card.memory_total or 0 for card in cards)
    limit = {f"limit: {total:,} MiB of the GPU": float(total)} if total else {}
    return _over_time("VRAM over the run", newest, held, limit, _planned(newest, "devices"))


def ram(newest: Result) -> Chart | None:
    """The service's memory over the run, against its cap."""
    took = newest.resources
    held = {
        "anonymous": ("var(--now)", took.series.get("anon_mib", ())),
        "pages of files, the model's": ("var(--before)", took.series.get("file_mib", ())),
    }
    cap = took.memory_max_bytes
    limit = {f"limit: MemoryMax of {cap // MIB:,} MiB": cap / MIB} if cap else {}
    return _over_time("RAM over the run", newest, held, limit, _planned(newest, "host"))


def _planned(newest: Result, where: str) -> dict[str, float]:
    """The plan's items, one on top of the other, by the level that each reaches."""
    try:
        plan = Plan.model_validate(newest.plan)
    except ValidationError:
        return {}
    shares = plan.devices if where == "devices" else (plan.host,)
    items = {name: sum(getattr(share, name) for share in shares) for name in ("model", "context", "compute")}
    if where == "devices":  # what nvidia-smi counts for the process, too
        items["runtime"] = sum(budget.overhead for budget in plan.budgets)
    levels = zip(items, accumulate(items.values()), strict=True)
    return {f"{name} {items[name]:,}": float(level) for name, level in levels if items[name]}


def _marks(limit: dict[str, float], planned: dict[str, float]) -> dict[str, float]:
    """The limit, and the plan's levels; those that would write over each other under one name, at the highest."""
    height, names, marks = max([*limit.values(), *planned.values(), 1.0]), list[str](), dict[str, float]()
    levels = list(planned.values())
    for name, level, following in zip(planned, levels, [*levels[1:], math.inf], strict=False):
        names.append(name)
        if following - level > NEAR * height:
            marks[f"planned: {' + '.join(names)}"] = level
            names = []
    return limit | marks


def _over_time(
    title: str,
    newest: Result,
    held: Mapping[str, tuple[str, Sequence[float | None]]],
    limit: dict[str, float],
    planned: dict[str, float],
) -> Chart | None:
    seconds = newest.resources.seconds
    held = {name: part for name, part in held.items() if any(value is not None for value in part[1])}
    if not held or len(seconds) < 2:
        return None
    peaks = [f"{name} {max(value for value in part[1] if value is not None):,.0f}" for name, part in held.items()]
    picked = range(0, len(seconds), max(len(seconds) // ROWS, 1))
    rows = [(f"{seconds[at]:.0f}", *(_mib(part[1], at) for part in held.values())) for at in picked]
    rows += [(name, f"{level:,.0f}", *[""] * (len(held) - 1)) for name, level in limit.items()]
    rows += [(f"planned {name}, up to", f"{level:,.0f}", *[""] * (len(held) - 1)) for name, level in planned.items()]
    return Chart(
        title,
        f"{title} in MiB; at most {', '.join(peaks)}" + (f"; {', '.join(limit)}" if limit else ""),
        charts.areas(seconds, held, _marks(limit, planned)),
        ("seconds", *held),
        tuple(rows),
    )


def history(metric: str, results: Sequence[Result]) -> Chart | None:
    """A speed from run to run at one depth, with what changed in between. None for fewer than two runs."""
    title, pick = PICKS[metric]
    depth = _common(results, pick)
    runs = [(result, row) for result in results for row in result.rows if row.n_depth == depth and pick(row)]
    if depth is None or len(runs) < 2:
        return None
    points = [_point(float(number), pick(row)) for number, (_, row) in enumerate(runs, 1)]
    told = [""] + [
        ", ".join(dict.fromkeys(each.what for each in comparison.differences(before, now) if each.what not in FLEETING))
        for (before, _), (now, _) in pairwise(runs)
    ]
    where = f"at {depth_name(depth)}" if depth else "on an empty context"
    return Chart(
        f"{title} {where}, run by run",
        f"{title} {where} in {len(runs)} runs, from {points[0].y:.1f} to {points[-1].y:.1f} tokens per second",
        charts.history(
            points,
            [moment(result) for result, _ in runs],
            {number: what for number, what in enumerate(told, 1) if what},
            "tokens per second",
        ),
        ("run", "tokens per second", "changed before it", "config"),
        tuple(
            (when(result), f"{point.y:.1f}", what or "nothing", result.config)
            for (result, _), point, what in zip(runs, points, told, strict=True)
        ),
    )


def _common(results: Sequence[Result], pick: Pick) -> int | None:
    """The depth that most runs share with the newest; of several the deepest."""
    counts = [
        (sum(any(other.n_depth == row.n_depth and pick(other) for other in each.rows) for each in results), row.n_depth)
        for row in results[-1].rows
        if pick(row)
    ]
    return max(counts)[1] if counts else None


def _points(result: Result, pick: Pick) -> list[Point]:
    return [_point(row.n_depth, figure) for row in result.rows if (figure := pick(row))]


def _point(x: float, figure: Figure | None) -> Point:
    samples = figure.samples_ts if figure else (0.0,)
    return Point(x, statistics.median(samples), min(samples), max(samples))


def _at(points: Sequence[Point], x: float) -> str:
    return next((f"{point.y:.1f}" for point in points if point.x == x), "")


def _mib(values: Sequence[float | None], at: int) -> str:
    value = values[at] if at < len(values) else None
    return "" if value is None else f"{value:,.0f}"


def moment(result: Result) -> datetime:
    """When a run was, UTC; a host's nonsense is the first of all moments."""
    try:
        return datetime.fromisoformat(result.test_time).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime.min.replace(tzinfo=UTC)
