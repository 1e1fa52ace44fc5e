"""How a host's history comes home to the controller, and what is said and drawn when it has."""

from __future__ import annotations

import atexit
import contextlib
import sys
from datetime import UTC, datetime
from pathlib import Path

from pyinfra.api import FactBase, Host, QuoteString, State, StringCommand
from pyinfra.api.facts import get_fact

from roles import lock, trouble
from roles.benchmark import comparison, reports, table, words
from roles.benchmark.comparison import Comparison
from roles.benchmark.observe import HISTORY
from roles.benchmark.record import Result
from roles.benchmark.reports import NotCopied
from roles.observation import PLAIN, Stdin

PROGRAM = (Path(__file__).parent / "copy_program.py").read_text("utf-8")
SECONDS = 60
_pages: set[Path] = set()
_measured: set[str] = set()


class History(FactBase[list[str]]):
    """What copy_program.py tells. It is read and never changed, so it is a fact."""

    def command(self, have: int, digest: str) -> StringCommand:
        program = f"LC_ALL=C timeout -k 5 {SECONDS} python3 -ISB -"
        return StringCommand(program, QuoteString(HISTORY), str(have), digest)

    def process(self, output: list[str]) -> list[str]:
        return output


def place(state: State) -> Path:
    """Where the copies are: beside the inventory's file, or in the working directory for a list of hosts."""
    return lock.beside(state.inventory).parent / "reports"


def bring(state: State, host: Host) -> None:
    """Bring the copy up to the host's file. Raises NotCopied, and OSError where nothing can be written here."""
    folder = place(state)
    answer = get_fact(
        state,
        host,
        History,
        args=reports.have(folder, host.name),
        kwargs={**PLAIN, "_stdin": Stdin(PROGRAM), "_timeout": SECONDS + 10},
        apply_failed_hosts=False,
    )
    if not answer:
        raise NotCopied("the host did not tell its history; what it printed stands above")
    reports.add(folder, host.name, answer)


def arrived(host: Host, lines: list[str]) -> None:
    """The figures of a run that has just ended: shown, and fetched with all the others when they are judged."""
    table.show(host.name, lines)
    _measured.add(host.name)


def known(state: State, host: Host) -> tuple[Result, ...]:
    """The results that are here. Where this run has measured, all there are; what cannot be copied is told later."""
    if host.name in _measured:
        with contextlib.suppress(NotCopied, OSError):
            bring(state, host)
    return reports.past(place(state), host.name).results


def measured(host: Host) -> bool:
    """Whether this run has."""
    return host.name in _measured


def news(state: State, host: Host, last: Result | None) -> Comparison | None:
    """Where this run has measured, or one that was cut off then: fetch the figures, say how they compare, and draw the
    page when it ends. `last`: the newest run of the host. None where there is nothing to compare it with. What fails
    here is told, and stops nothing."""
    folder = place(state)
    if not state.is_executing or not (host.name in _measured or reports.lacks(folder, host.name, last)):
        return None
    try:
        bring(state, host)
    except (NotCopied, OSError) as error:
        trouble.left_out(host, f"the history of benchmarks was not copied: {error}")
        return None
    draw(folder)
    past = reports.past(folder, host.name)
    found = comparison.latest(past.results, past.rejected)
    if found:
        trouble.remark(host, words.verdict(found))
    return found


def draw(folder: Path) -> None:
    """Once, when the run ends: before its last lines."""
    if not _pages:
        atexit.register(_draw_all)
    _pages.add(folder)


def _draw_all() -> None:
    # Not before it is needed: the library that draws is big, and most runs draw nothing.
    from roles.benchmark import page

    for folder in sorted(_pages):
        try:
            reports.write(folder / "index.html", page.render(reports.fleet(folder), datetime.now(UTC)))
        except OSError as error:
            print(f"paddock: {folder / 'index.html'} cannot be written: {error.strerror}", file=sys.stderr)
        except Exception as error:  # the run itself went well
            print(f"paddock: no page, by a mistake of Paddock's own, please report it: {error!r}", file=sys.stderr)
        else:
            print(f"paddock: the page of figures is {(folder / 'index.html').resolve()}", file=sys.stderr)
