"""Whether figures got better, worse or neither: a pure function over the samples of whole runs.

The method is that of Kalibera and Jones ("Rigorous benchmarking in reasonable time", ISMM 2013): what repeats is the
run, not the sample, since runs differ by more than their samples do. Two runs cannot tell how much runs differ, so
their variance is drawn towards what was measured elsewhere, as in Smyth's moderated t (2004). Why, and how often it is
right: docs/decisions/0016-a-judge-of-figures.md.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

ALPHA = 0.05  # false alarms of a whole verdict, however many figures it looks at
MATTERS = 0.03  # a change below this share is nobody's concern, however sure it is
BETWEEN = 0.01  # standard deviation of the logarithm from run to run on a quiet machine
RESTLESS = 1.1  # what the spread of a run's samples adds to that, as a share of it
WITHIN = 0.025  # standard deviation of the logarithm from sample to sample where none is known: a restless machine's
LIGHT = 2  # degrees of freedom of that; the samples at hand soon outweigh it
WEIGHT = 8  # degrees of freedom of what is expected, against those of the runs at hand
SURE = 1.4  # times the interval's reach: there a change is seen nine times of ten, and at its end every other time
MEDIAN = math.pi / 2  # the variance of a median against that of a mean (many normal samples; for few it is less)

Kind = Literal["better", "worse", "indistinguishable"]


class Series(NamedTuple):
    """What is compared: `metric` (pp, tg, turn) with `depth` tokens in the context."""

    metric: str
    depth: int


Run = Mapping[Series, Sequence[float]]  # speeds of one run, more is better; all above 0


@dataclass(frozen=True)
class Effect:
    """The speed now as a multiple of the baseline's, and the interval that it lies in; `low` and `high` of all effects
    of a verdict hold together with 95 %."""

    series: Series
    ratio: float
    low: float
    high: float

    @property
    def kind(self) -> Kind:
        if self.high < 1 and self.ratio < 1 - MATTERS:
            return "worse"
        return "better" if self.low > 1 and self.ratio > 1 + MATTERS else "indistinguishable"

    @property
    def blur(self) -> float:
        """The least share that a slow-down must have to be seen nine times of ten."""
        return 1.0 - math.pow(self.low / self.ratio, SURE)


@dataclass(frozen=True)
class Judgement:
    """`worse` where any figure is, else `better` where any is. No effects: nothing could be compared."""

    effects: tuple[Effect, ...]

    @property
    def kind(self) -> Kind:
        kinds = {effect.kind for effect in self.effects}
        return "worse" if "worse" in kinds else "better" if "better" in kinds else "indistinguishable"

    @property
    def blur(self) -> float:
        return max((effect.blur for effect in self.effects), default=0.0)

    def of(self, kind: Kind) -> tuple[Effect, ...]:
        """The effects of one kind, the greatest first."""
        found = [effect for effect in self.effects if effect.kind == kind]
        return tuple(sorted(found, key=lambda effect: -abs(math.log(effect.ratio))))


def judge(baseline: Sequence[Run], now: Sequence[Run], others: Sequence[Sequence[Run]] = ()) -> Judgement:
    """Runs of before against runs of now, over the series that both have: each in those runs that measured it, as a
    smoke run beside a full one has other depths. `others`: further groups of runs, each of one thing on this machine;
    they tell how much runs differ here."""
    shared = sorted(set[Series]().union(*baseline) & set[Series]().union(*now))
    groups = [baseline, now, *others]
    usual = _pooled(
        [_logs(run[one]) for group in groups for run in group for one in shared if one in run], WITHIN**2, LIGHT
    )
    effects = []
    for one in shared:
        logs = [[_logs(run[one]) for run in group if one in run] for group in groups]
        effects.append(_effect(one, logs, usual, ALPHA / len(shared)))
    return Judgement(tuple(effects))


def _effect(series: Series, groups: list[list[list[float]]], usual: float, alpha: float) -> Effect:
    """One figure, at its share of the false alarms (Bonferroni's). `groups`: the baseline, now, and others; `usual`:
    the variance from sample to sample over all figures."""
    within = _pooled([run for group in groups for run in group], usual)
    expected = BETWEEN**2 + RESTLESS**2 * within + within * _share(groups[0] + groups[1])
    centres = [[statistics.median(run) for run in group] for group in groups]
    variance = _pooled(centres, expected)
    freedom = WEIGHT + sum(len(group) - 1 for group in centres if group)
    reach = student(1 - alpha / 2, freedom) * math.sqrt(variance * sum(1 / len(group) for group in centres[:2]))
    change = statistics.fmean(centres[1]) - statistics.fmean(centres[0])
    return Effect(series, *(math.exp(change + step) for step in (0, -reach, reach)))


def _logs(samples: Sequence[float]) -> list[float]:
    return [math.log(sample) for sample in samples]


def _share(runs: list[list[float]]) -> float:
    """The variance of a run's median, as a share of its samples'."""
    return statistics.fmean(MEDIAN / len(run) if len(run) > 2 else 1 / len(run) for run in runs)


def _pooled(groups: Sequence[Sequence[float]], expected: float, weight: int = WEIGHT) -> float:
    """The variance within groups, drawn towards the one that is expected."""
    freedom = sum(len(group) - 1 for group in groups if group)
    return (weight * expected + sum(map(_squares, groups))) / (weight + freedom)


def _squares(values: Sequence[float]) -> float:
    mean = statistics.fmean(values) if values else 0.0
    return sum((value - mean) ** 2 for value in values)


def student(share: float, freedom: int) -> float:
    """The quantile of Student's t, by the first terms of its expansion around the normal (Abramowitz and Stegun
    26.7.5); right to one per cent from 8 degrees of freedom on, which `WEIGHT` sees to."""
    z = statistics.NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, 1)))
