"""A table with a row per host, printed when pyinfra ends: hosts that could not be reached are in it too."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence

from pyinfra.api import State
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def at_the_end(state: State, columns: Sequence[str], rows: Mapping[str, Sequence[str]], lost: Sequence[str]) -> None:
    """Print it for all hosts that this run is limited to. `rows`: cells by host, as they are then; `lost`: those of a
    host without any. The host's name is a column of its own, the first."""
    names = [host.name for host in state.inventory if state.is_host_in_limit(host)]
    atexit.register(show, names, columns, rows, lost)


def show(names: Sequence[str], columns: Sequence[str], rows: Mapping[str, Sequence[str]], lost: Sequence[str]) -> None:
    table = Table(show_lines=True)
    for column in columns:
        table.add_column(column, overflow="fold")
    for name in names:
        table.add_row(*map(escape, (name, *rows.get(name, lost))))
    Console(stderr=True, highlight=False).print(table)
