"""What people ask of the histories: each host's is fetched, and all of them are shown when pyinfra ends. Nothing on a
host is changed; where one cannot be reached, its copy here is shown."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from pathlib import Path

from pyinfra.api import State
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from roles import remote, trouble
from roles.benchmark import comparison, home, reports, words
from roles.benchmark.comparison import Comparison
from roles.benchmark.reports import NotCopied, Past
from roles.benchmark.table import cell
from roles.observation import context

Show = Callable[[Console, str, Past], None]
_asked: list[State] = []


def fetched(show: Show | None) -> None:
    """This host's history is here; `show` gets everyone's at the end, None draws the page."""
    state, host = context()
    if state not in _asked:
        _asked.append(state)
        trouble.watch(state)
        folder, names = home.place(state), [each.name for each in state.inventory if state.is_host_in_limit(each)]
        if show:
            atexit.register(_show_all, show, folder, names)
        else:
            home.draw(folder)
    remote.tune(host)
    try:
        home.bring(state, host)
    except (NotCopied, OSError) as error:
        trouble.left_out(host, f"the history of benchmarks was not copied: {error}")


def _show_all(show: Show, folder: Path, names: Sequence[str]) -> None:
    console = Console(stderr=True, highlight=False)  # standard output is pyinfra's --json
    for name in names:
        past = reports.past(folder, name)
        if past.results:
            show(console, name, past)
        else:
            console.print(escape(words.tidy(f"{name}: nothing measured yet")))


def history(console: Console, host: str, past: Past) -> None:
    """A line per run: what changed before it stands first."""
    results = past.results
    table = Table(
        title=_plain(f"{host}: {len(results)} run{'s' * (len(results) != 1)}"), title_justify="left", show_lines=True
    )
    for column in ("Run", "What changed", "Config", "tokens per second", "Doubtful"):
        table.add_column(column, overflow="fold")
    for before, result in zip((None, *results), results, strict=False):
        changes = comparison.differences(before, result) if before else ()
        told = ["first run"] if before is None else [str(each) for each in changes] or ["nothing"]
        told += ["taken back later"] if result.stamp in past.rejected else []
        figures = [" ".join(cell(row)) for row in result.rows]
        flags = [flag.flag for flag in result.flags]
        cells = (f"{words.when(result)}\n{result.kind}", told, result.config, figures, flags)
        table.add_row(*(_plain(each if isinstance(each, str) else "\n".join(each)) for each in cells))
    console.print(table)


def compare(console: Console, host: str, past: Past) -> None:
    """The newest runs against those of what was there before: what went in, then what came out."""
    found = comparison.latest(past.results, past.rejected)
    if found is None:
        console.print(_plain(f"{host}: measured once, so there is nothing to compare with"))
        return
    console.print(_plain(f"{host}: {words.verdict(found)}"))
    for difference in found.inputs:
        console.print(_plain(f"  {difference}"))
    console.print(effects(found))


def effects(found: Comparison) -> Table:
    """Every figure before and now, and its change with the interval that it lies in."""
    table = Table()
    for column, right in {"Figure": False, "before": True, "now": True, "change, 95 %": True, "": False}.items():
        table.add_column(column, justify="right" if right else "left")
    for effect in found.judgement.effects:
        before, now = words.before_and_now(found, effect)
        verdict = "" if effect.kind == "indistinguishable" else effect.kind
        table.add_row(comparison.title(effect.series), before, now, comparison.change(effect), verdict)
    return table


def _plain(text: str) -> str:
    """As it is: no markup of rich's, and nothing that a terminal would act on."""
    return escape("\n".join(words.tidy(line) for line in text.split("\n")))
