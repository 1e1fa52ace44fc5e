"""The judge: how often it is wrong on runs of one thing, and how often it sees a slow-down."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.benchmark.judge import ALPHA, MATTERS, Judgement, Run, Series, judge, student

# Twelve runs of one server, started anew for each: gemma-3-270m-q4_k_m, one thread, five samples per figure, 512 tokens
# of context, on a shared machine of two cores under a load of 5 (2026-11-30). From run to run 2.3 to 3.4 per cent.
RECORDED: list[dict[str, list[float]]] = json.loads((Path(__file__).parent / "recorded_repetitions.json").read_text())
TRIES = 250
TENTH = 0.9  # a slow-down of 10 per cent

Make = Callable[[random.Random, int, float], list[Run]]


def synthetic(between: float, within: float, rnd: random.Random, count: int, speed: float) -> list[Run]:
    """Runs of four figures with three samples each; most of what parts two runs is common to their figures."""
    made: list[Run] = []
    for _ in range(count):
        common = rnd.gauss(0, between * 0.7)
        own = [common + rnd.gauss(0, between * 0.51**0.5) for _ in range(4)]
        made.append(
            {
                Series("tg", at): [20 * speed * math.exp(shift + rnd.gauss(0, within)) for _ in range(3)]
                for at, shift in enumerate(own)
            }
        )
    return made


def recorded(rnd: random.Random, count: int, speed: float, rows: list[dict[str, list[float]]]) -> list[Run]:
    """Some of the recorded runs, three samples each, as a smoke run takes them."""
    return [
        {Series(name[:2], int(name[2:])): [sample * speed for sample in samples[:3]] for name, samples in row.items()}
        for row in rows[:count]
    ]


def first(samples: int, runs: list[Run]) -> list[Run]:
    return [{series: found[:samples] for series, found in run.items()} for run in runs]


def share(before: int, now: int, speed: float, kind: set[str], make: Make | None = None, samples: int = 3) -> float:
    """How often the verdict is one of `kind` when everything now is `speed` times as fast; a fixed seed."""
    rnd, hits = random.Random(20261130), 0
    for _ in range(TRIES):
        if make:
            old, new = make(rnd, before, 1.0), make(rnd, now, speed)
        else:
            rows = rnd.sample(RECORDED, before + now)
            old, new = recorded(rnd, before, 1.0, rows), recorded(rnd, now, speed, rows[before:])
        hits += judge(first(samples, old), first(samples, new)).kind in kind
    return hits / TRIES


FALSE = {"better", "worse"}
QUIET, DESK, RESTLESS = (partial(synthetic, *spread) for spread in ((0.004, 0.003), (0.012, 0.01), (0.03, 0.025)))


@pytest.mark.parametrize("runs", [(1, 1), (5, 1), (3, 3)])
@pytest.mark.parametrize("make", [QUIET, DESK, RESTLESS, None], ids=["quiet", "desk", "restless", "recorded"])
def test_runs_of_one_thing_are_told_apart_at_most_once_in_twenty(make: Make | None, runs: tuple[int, int]) -> None:
    assert share(*runs, 1.0, FALSE, make) <= ALPHA


@pytest.mark.parametrize("runs", [(1, 1), (5, 1), (3, 3)])
@pytest.mark.parametrize("make", [RESTLESS, None], ids=["restless", "recorded"])
def test_single_samples_which_tell_nothing_of_their_spread_cry_no_wolf(
    make: Make | None, runs: tuple[int, int]
) -> None:
    assert share(*runs, 1.0, FALSE, make, samples=1) <= ALPHA


@pytest.mark.parametrize(
    ("make", "runs"),
    [(QUIET, (1, 1)), (DESK, (1, 1)), (DESK, (3, 3)), (RESTLESS, (3, 3)), (None, (3, 3)), (None, (5, 5))],
)
def test_a_tenth_slower_is_seen_nine_times_of_ten(make: Make | None, runs: tuple[int, int]) -> None:
    assert share(*runs, TENTH, {"worse"}, make) >= 0.9


def test_one_run_against_one_sees_a_tenth_less_often_on_a_restless_machine_and_says_so() -> None:
    assert share(1, 1, TENTH, {"worse"}) < 0.9
    rows = RECORDED[:2]
    rnd = random.Random(1)
    judged = judge(recorded(rnd, 1, 1.0, rows), recorded(rnd, 1, 1.0, rows[1:]))
    assert judged.blur > 0.1, "the least change that it could have seen"


def test_a_gain_is_seen_as_well() -> None:
    assert share(3, 3, 1.1, {"better"}, DESK) >= 0.9


def test_the_interval_holds_the_truth_in_nineteen_of_twenty() -> None:
    rnd, hits = random.Random(7), 0
    for _ in range(TRIES):
        judged = judge(synthetic(0.012, 0.01, rnd, 3, 1.0), synthetic(0.012, 0.01, rnd, 1, 0.95))
        hits += all(effect.low <= 0.95 <= effect.high for effect in judged.effects)
    assert hits / TRIES >= 1 - ALPHA


def one(*samples: float, metric: str = "tg", depth: int = 0) -> Run:
    return {Series(metric, depth): samples}


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        (one(20, 20.1, 19.9), one(20, 20.1, 19.9), "indistinguishable"),
        (one(20, 20.1, 19.9), one(17, 17.1, 16.9), "worse"),
        (one(20, 20.1, 19.9), one(24, 24.1, 23.9), "better"),
        (one(20.0), one(16.0), "worse"),
        (one(20, 26, 15), one(17, 24, 12), "indistinguishable"),  # all over the place
    ],
)
def test_what_is_judged_how(before: Run, now: Run, kind: str) -> None:
    assert judge([before], [now]).kind == kind


def test_a_change_that_nobody_would_feel_is_none_however_sure_it_is() -> None:
    before, now = [one(20.0, 20.0, 20.0)] * 40, [one(19.6, 19.6, 19.6)] * 40
    (effect,) = judge(before, now).effects
    assert effect.high < 1, "sure"
    assert effect.ratio == pytest.approx(0.98)
    assert abs(1 - effect.ratio) < MATTERS
    assert effect.kind == "indistinguishable"


def test_worse_in_one_figure_outweighs_better_in_another() -> None:
    before = {**one(20, 20.1, 19.9), **one(500, 501, 499, metric="pp", depth=2048)}
    now = {**one(15, 15.1, 14.9), **one(700, 701, 699, metric="pp", depth=2048)}
    judged = judge([before], [now])
    assert judged.kind == "worse"
    assert [effect.series.metric for effect in judged.of("better")] == ["pp"]


def test_only_what_both_have_is_compared() -> None:
    now = {**one(20.0), **one(9.0, depth=32768)}
    assert [effect.series for effect in judge([one(20.0)], [now]).effects] == [Series("tg", 0)]
    assert judge([one(20.0)], [one(9.0, depth=32768)]) == Judgement(())
    assert judge([], [now]) == Judgement(())
    assert judge([now], []) == Judgement(())


def test_a_run_at_other_depths_hides_no_figure_of_those_beside_it() -> None:
    smoke = {**one(20.0), **one(19.0, depth=2048)}
    full = {**one(20.0), **one(15.0, depth=32768)}
    judged = judge([full, smoke], [{**one(20.0), **one(10.0, depth=32768)}, smoke])
    assert [effect.series.depth for effect in judged.effects] == [0, 2048, 32768]
    assert [effect.series.depth for effect in judged.of("worse")] == [32768]


def test_the_more_a_machine_was_seen_to_differ_from_run_to_run_the_wider_the_interval() -> None:
    calm = [[one(20, 20.1, 19.9), one(20, 20.1, 19.9), one(20.1, 20, 19.9)]]
    wild = [[one(20, 20.1, 19.9), one(24, 24.1, 23.9), one(17, 17.1, 16.9)]]
    (quiet,), (wide,) = (judge([one(20, 20.1, 19.9)], [one(19, 19.1, 18.9)], others).effects for others in (calm, wild))
    assert wide.high - wide.low > 2 * (quiet.high - quiet.low)


# Quantiles of Student's t from tables.
@pytest.mark.parametrize(
    ("share", "freedom", "value"),
    [(0.975, 8, 2.306), (0.995, 8, 3.355), (0.9975, 8, 3.833), (0.975, 20, 2.086), (0.9995, 12, 4.318)],
)
def test_the_quantiles_are_those_of_the_tables(share: float, freedom: int, value: float) -> None:
    assert student(share, freedom) == pytest.approx(value, rel=0.01)


SPEEDS = st.lists(st.floats(0.01, 10_000), min_size=1, max_size=6)


@given(st.lists(SPEEDS, min_size=1, max_size=4), st.lists(SPEEDS, min_size=1, max_size=4))
def test_every_interval_holds_its_effect_and_sides_are_symmetric(
    before: list[list[float]], now: list[list[float]]
) -> None:
    old, new = [one(*run) for run in before], [one(*run) for run in now]
    (effect,), (mirrored,) = judge(old, new).effects, judge(new, old).effects
    assert effect.low <= effect.ratio <= effect.high
    assert effect.ratio * mirrored.ratio == pytest.approx(1)
    assert {effect.kind, mirrored.kind} in ({"better", "worse"}, {"indistinguishable"}) or abs(1 - effect.ratio) < 0.04
