"""A line of the history, read again: whole, or not at all."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from roles.benchmark.record import Figure, Result, Turn, history, parsed
from tests.unit import measured


def test_a_line_says_what_the_article_says() -> None:
    result = parsed(measured.line())
    assert result is not None
    told = [(row.n_depth, row.pp.median if row.pp else None, row.tg.median) for row in result.rows]
    assert told == [(0, None, 33.6), (32768, 875, 22.4), (102400, 606, 13.3), (120832, 490, 11.8)]
    assert result.resources.peak_vram_mib == 5342


@pytest.mark.parametrize(
    "line",
    [
        "",
        "null",
        "5",
        "[]",
        "{",
        measured.line()[:-1],
        measured.line(schema=1),
        measured.line(schema=3),
        '{"schema": 2}',
    ],
)
def test_what_is_torn_or_of_another_version_is_passed_over(line: str) -> None:
    assert parsed(line) is None
    whole = measured.line(run="whole")
    assert [result.run for result in history([line, whole, line])] == ["whole"]


def test_a_field_of_a_newer_runner_is_no_obstacle() -> None:
    assert parsed(measured.line(moon="full")) is not None


def test_a_result_can_be_written_again() -> None:
    result = parsed(measured.line())
    assert result is not None
    assert parsed(json.dumps({"schema": 2, **result.model_dump()})) == result


def test_a_figure_is_told_by_its_middle() -> None:
    figure = Figure.model_validate(measured.figure(10.0, 12.0, 11.0))
    assert figure.median == 11.0


def test_a_figure_without_samples_is_none() -> None:
    with pytest.raises(ValidationError):
        Figure(samples_ts=(), avg_ts=0, stddev_ts=0)
    with pytest.raises(ValidationError):
        Turn(n_prompt=1, n_depth=1, seconds=())


def test_the_least_that_a_line_must_hold_is_what_compares() -> None:
    needed = {name for name, field in Result.model_fields.items() if field.is_required()}
    assert needed == {"kind", "run", "test_time", "config", "stamp", "release", "depths", "tokens", "rows"}
