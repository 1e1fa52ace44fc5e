"""Two groups of runs: what went in differently, then what came out differently. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from roles.benchmark import judge
from roles.benchmark.judge import Effect, Judgement, Series
from roles.benchmark.record import Flag, Result
from roles.benchmark.table import depth_name

MOST = 5  # runs of a baseline; older ones are of another season
# What Paddock chose, as the command line calls it, with the setting that may say it and the result's field.
CHOSEN = (
    ("-ngl", "gpu_layers", "n_gpu_layers"),
    ("--n-cpu-moe", "n_cpu_moe", "n_cpu_moe"),
    ("-t", "threads", "n_threads"),
)
# Flags that take no trust away: the judge sees the spread itself, and the others are what the service is like.
HARMLESS = {"wide_spread", "few_tokens", "no_prompt_cache"}
# Settings that are another release, which is told already, or no matter to a figure: requests have their temperature.
APART = {"llama_ref", "llama_cmake_args", "temperature", "jinja", "service_autostart"}
SHORT = 12  # characters of a digest that people see
NEARLY = 0.02  # of the RAM: what a kernel keeps of it for itself is another share with every one

What = Literal["machine", "kernel", "driver", "release", "model", "settings", "measuring"]


@dataclass(frozen=True)
class Difference:
    """Something that went in. `what` is its group, `name` the thing itself; in words what it was and is."""

    what: What
    name: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.name} {self.before} -> {self.now}"


@dataclass(frozen=True)
class Comparison:
    """The newest runs of one thing against those of what was there before. `flags`: why either may not be trusted."""

    before: tuple[Result, ...]
    now: tuple[Result, ...]
    inputs: tuple[Difference, ...]
    judgement: Judgement
    flags: tuple[str, ...]

    @property
    def kind(self) -> judge.Kind:
        return self.judgement.kind


def differences(before: Result, now: Result) -> tuple[Difference, ...]:
    """All that may explain another speed, the machine first."""
    return tuple(
        Difference(what, name, _shown(old), _shown(new)) for what, name, old, new in _inputs(before, now) if old != new
    )


def _inputs(before: Result, now: Result) -> Iterator[tuple[What, str, Any, Any]]:
    for what, name, field in (
        ("machine", "processor", "cpu_info"),
        ("kernel", "kernel", "kernel"),
        ("driver", "driver", "driver"),
        ("release", "release", "release"),
    ):
        yield what, name, getattr(before, field), getattr(now, field)  # type: ignore[misc]
    if not math.isclose(before.ram_bytes, now.ram_bytes, rel_tol=NEARLY):
        yield "machine", "RAM", f"{before.ram_bytes / 1e9:.1f} GB", f"{now.ram_bytes / 1e9:.1f} GB"
    yield "machine", "GPU", _cards(before), _cards(now)
    yield "model", "model", _model(before), _model(now)
    keys = sorted({*before.settings, *now.settings} - APART)
    for key in keys:
        yield "settings", key, before.settings.get(key), now.settings.get(key)
    for option, key, field in CHOSEN:
        if before.settings.get(key) == now.settings.get(key):  # else that is told already
            yield "settings", option, getattr(before, field), getattr(now, field)
    yield "measuring", "benchmark_tokens", before.tokens, now.tokens


def latest(results: Sequence[Result], rejected: frozenset[str] = frozenset()) -> Comparison | None:
    """The newest run and those with the same inputs, against the runs of what was there before; measured in alternation
    they lie among each other. `rejected`: stamps that were taken back, which are no baseline. Where nothing ever
    changed, the newest run against the earlier ones. None: there is nothing to compare with."""
    now, before = list(results[-1:]), list[Result]()
    for result in reversed(results[:-1]):
        if not differences(result, now[0]):
            now.append(result)
        elif result.stamp in rejected:
            continue
        elif before and differences(result, before[0]):
            break
        else:
            before.append(result)
    if before:
        return compared(before[::-1], now[::-1], grouped(results))
    return compared(now[:0:-1], now[:1], grouped(results)) if len(now) > 1 else None


def compared(before: Sequence[Result], now: Sequence[Result], groups: Sequence[Sequence[Result]] = ()) -> Comparison:
    """Runs that can be trusted stand for their group, where it has any; of the other `groups` those alone."""
    before, now = (_trusted(group)[-MOST:] for group in (before, now))
    others = [[run(each) for each in group if each not in (*before, *now) and not _doubts(each)] for group in groups]
    judgement = judge.judge([run(each) for each in before], [run(each) for each in now], [one for one in others if one])
    flags = [f"{when}: {flag.why}" for when, group in (("before", before), ("now", now)) for flag in _doubts(group[-1])]
    return Comparison(tuple(before), tuple(now), differences(before[-1], now[-1]), judgement, tuple(flags))


def grouped(results: Sequence[Result]) -> list[list[Result]]:
    """Runs that follow each other and had the same inputs, together; the oldest first."""
    groups: list[list[Result]] = []
    for result in results:
        if groups and not differences(groups[-1][-1], result):
            groups[-1].append(result)
        else:
            groups.append([result])
    return groups


def run(result: Result) -> dict[Series, tuple[float, ...]]:
    """The samples that are judged: the columns of the table, and how soon a later turn answers."""
    found = {}
    for row in result.rows:
        found[Series("tg", row.n_depth)] = row.tg.samples_ts
        if row.pp:
            found[Series("pp", row.n_depth)] = row.pp.samples_ts
        if row.turn:
            found[Series("turn", row.n_depth)] = tuple(1 / max(second, 1e-3) for second in row.turn.seconds)
    return {series: samples for series, samples in found.items() if all(sample > 0 for sample in samples)}


def title(series: Series) -> str:
    """What a series is called in a sentence."""
    names = {"pp": "pp", "tg": "tg", "turn": "a later turn"}
    where = f"at {depth_name(series.depth)}" if series.depth else "on an empty context"
    return f"{names[series.metric]} {where}"


def change(effect: Effect) -> str:
    """`-9.4 % (-12.6 to -6.1)`; of a later turn that of its seconds, as they are what is told."""
    ratio, low, high = effect.ratio, effect.low, effect.high
    if effect.series.metric == "turn":
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    return f"{_percent(ratio)} % ({_percent(low)} to {_percent(high)})"


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f}"


def _trusted(group: Sequence[Result]) -> list[Result]:
    return [result for result in group if not _doubts(result)] or list(group)


def _doubts(result: Result) -> list[Flag]:
    return [flag for flag in result.flags if flag.flag not in HARMLESS]


def _cards(result: Result) -> str:
    return " and ".join(f"{card.name} ({card.memory_total} MiB)" for card in result.cards)


def _model(result: Result) -> str:
    name = result.model_filename.rsplit("/", 1)[-1]
    return (
        f"{name} ({result.model_sha256[:SHORT]})"
        if result.model_sha256
        else f"{name} {result.model_size or ''}".strip()
    )


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None or value == "" else str(value)
