"""How the figures are shown: the article's table, and one line of the host's last."""

from __future__ import annotations

from typing import Any

import pytest

from roles.benchmark import table
from roles.benchmark.observe import BENCHMARK
from roles.benchmark.record import Result
from tests.unit import hosts, measured


def shown(**fields: Any) -> tuple[list[str], list[str]]:
    """Headings and cells of the table."""
    columns = table.table("laptop", Result.model_validate(measured.entry(**fields))).columns
    return [str(column.header) for column in columns], [str(next(iter(column.cells))) for column in columns]


def test_the_table_has_the_articles_columns_and_figures() -> None:
    headings, cells = shown()
    assert headings == [
        "Config", "Peak VRAM (MiB)", "RAM (GB)", "tg empty", "32k pp / tg", "100k pp / tg", "118k pp / tg",
    ]  # fmt: skip
    assert cells == ["Mix-12G, n44, KV q4_0", "5342", "11.3", "33.6", "875 / 22.4", "606 / 13.3", "490 / 11.8"]


def test_a_figure_is_the_median_of_its_samples() -> None:
    row = {"n_depth": 1000, "pp": measured.figure(500.0, 510.0, 900.0), "tg": measured.figure(30.0, 20.0, 29.0)}
    assert shown(rows=[row])[1][3:] == ["510 / 29.0"]
    assert shown(rows=[row])[0][3:] == ["1000 pp / tg"]


def test_a_host_without_a_gpu_has_no_peak() -> None:
    assert shown(resources={})[1][1] == "none"


def test_what_runs_where_nothing_was_read_is_still_shown() -> None:
    assert shown(rows=[{**measured.row(2048, 1, 1), "pp": None}])[0][3:] == ["tg 2k"]


def test_the_record_is_shown_on_standard_error_with_what_to_know_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    flag = {"flag": "battery", "why": "the machine ran on its battery [bold]"}
    table.show("laptop", ["noise before", measured.line(flags=[flag], left_out=["118k: too long"])])
    printed = capsys.readouterr()
    assert printed.out == "", "standard output is pyinfra's --json"
    assert "laptop, 2026-11-30T12:00:00Z, tokens per second" in printed.err
    for words in ("5342", "left out 118k: too long", "battery: the machine ran on its battery [bold]", "1.5 s at 32k"):
        assert words in " ".join(printed.err.split())


@pytest.mark.parametrize("lines", [[], [""], ["{"]])
def test_a_history_that_cannot_be_read_back_is_no_error(lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    table.show("laptop", lines)
    assert capsys.readouterr().err == ""


def test_the_last_result_is_the_hosts_own() -> None:
    result = hosts.converged()[BENCHMARK].last
    assert result is not None
    assert result.depths == (0, 2048)
    assert table.line(result) == "tokens per second: tg empty 22.4, 2k pp / tg 600 / 22.4"
