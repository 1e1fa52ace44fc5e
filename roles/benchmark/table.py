"""The figures as the seed shows them: one row, its columns, tokens per second."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table

from roles.benchmark.observe import Result, Row


def table(host: str, result: Result) -> Table:
    """pp is reading the prompt, tg is generating the reply."""
    shown = Table(title=f"{host}, {result.time}, tokens per second", title_justify="left")
    shown.add_column("Config")
    shown.add_column("Peak VRAM (MiB)", justify="right")
    shown.add_column("RAM (GB)", justify="right")
    vram = "none" if result.peak_vram_mib is None else str(result.peak_vram_mib)
    cells = [result.config, vram, f"{result.peak_ram_bytes / 1e9:.1f}"]
    for row in result.rows:
        name, value = cell(row)
        shown.add_column(name, justify="right")
        cells.append(value)
    shown.add_row(*cells)
    return shown


def cell(row: Row) -> tuple[str, str]:
    """The column's name and its figure."""
    if row.pp is None:
        return "tg empty", f"{row.tg:.1f}"
    return f"{depth_name(row.n_depth)} pp / tg", f"{row.pp:.0f} / {row.tg:.1f}"


def line(result: Result) -> str:
    """The figures in words, for a summary."""
    return "tokens per second: " + ", ".join(" ".join(cell(row)) for row in result.rows)


def depth_name(depth: int) -> str:
    return f"{depth // 1024}k" if depth and depth % 1024 == 0 else str(depth)


def show(host: str, lines: list[str]) -> None:
    """Print what the runner printed on the host, on standard error: standard output is pyinfra's --json."""
    Console(stderr=True, highlight=False).print(table(host, Result.model_validate(json.loads(lines[-1]))))
