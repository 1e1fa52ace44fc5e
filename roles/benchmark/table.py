"""The figures as the seed shows them: one row, its columns, tokens per second."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from roles.benchmark.record import Result, Row, parsed


def table(host: str, result: Result) -> Table:
    """pp is reading the prompt, tg is generating the reply; of several samples it is the median."""
    shown = Table(
        title=escape(f"{host}, {result.test_time}, tokens per second"), title_justify="left",
        caption=escape("\n".join(beside(result))), caption_justify="left",
    )  # fmt: skip
    shown.add_column("Config")
    shown.add_column("Peak VRAM (MiB)", justify="right")
    shown.add_column("RAM (GB)", justify="right")
    took = result.resources
    vram = "none" if took.peak_vram_mib is None else str(took.peak_vram_mib)
    cells = [escape(result.config), vram, f"{took.peak_ram_bytes / 1e9:.1f}"]
    for row in result.rows:
        name, value = cell(row)
        shown.add_column(name, justify="right")
        cells.append(value)
    shown.add_row(*cells)
    return shown


def cell(row: Row) -> tuple[str, str]:
    """The column's name and its figure."""
    if row.pp is None:
        return f"tg {depth_name(row.n_depth)}" if row.n_depth else "tg empty", f"{row.tg.median:.1f}"
    return f"{depth_name(row.n_depth)} pp / tg", f"{row.pp.median:.0f} / {row.tg.median:.1f}"


def beside(result: Result) -> list[str]:
    """What the table has no columns for, and what to know of the figures."""
    told = [*further(result), *(f"left out {sentence}" for sentence in result.left_out)]
    return told + [f"{flag.flag}: {flag.why}" for flag in result.flags]


def further(result: Result) -> list[str]:
    """What the seed says in words: how long later turns take; reading at a depth; and how often all was measured."""
    turns = [f"{row.turn.median:.1f} s at {depth_name(row.n_depth)}" for row in result.rows if row.turn]
    deeper = [f"{row.pp_at.median:.0f} at {depth_name(row.n_depth)}" for row in result.rows if row.pp_at]
    told = [f"first token of the next turn: {', '.join(turns)}"] if turns else []
    told += [f"reading one batch more, tokens per second: {', '.join(deeper)}"] if deeper else []
    samples = {len(row.tg.samples_ts) for row in result.rows}
    if samples and max(samples) > 1:
        least = f"{min(samples)} to " if len(samples) > 1 else ""
        told.append(f"medians of {least}{max(samples)} passes")
    return told


def line(result: Result) -> str:
    """The figures in words, for a summary."""
    return "tokens per second: " + ", ".join(" ".join(cell(row)) for row in result.rows)


def depth_name(depth: int) -> str:
    return f"{depth // 1024}k" if depth and depth % 1024 == 0 else str(depth)


def show(host: str, lines: list[str]) -> None:
    """Print the record that was read from the host, on standard error: standard output is pyinfra's --json."""
    result = parsed(lines[-1]) if lines else None
    if result is not None:
        Console(stderr=True, highlight=False).print(table(host, result))
