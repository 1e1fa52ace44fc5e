"""The plan as a table: what was planned for each device and for the RAM, what was measured, and what is left.

One item to a line, so that it can be read on a terminal of 60 columns too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from roles.host import HOST
from roles.memory import ram
from roles.memory.cap import limits_of, need_of, own_plan
from roles.memory.plan import Budget, Plan, Share
from roles.memory.ram import MIB, Limits, Need
from roles.memory.report import at_most, beside, chosen
from roles.observation import Observation
from roles.wishes import Wishes


@dataclass(frozen=True)
class Measured:
    """Peaks of the last benchmark of what is served, in MiB; None for what the host does not tell. `vram`: of the
    process on all devices; `ram`: all that it was charged for; `anonymous`: what of it cannot be taken back."""

    vram: int | None = None
    ram: int | None = None
    anonymous: int | None = None


NOTHING = Measured()
Row = tuple[str, str, str]


def table(host: str, plan: Plan, need: Need, limits: Limits, spare: int, measured: Measured = NOTHING) -> Table:
    """`spare`: the host's RAM beside what is left to everything else, bytes."""
    split = chosen(plan) if plan.devices else "all on the CPU"
    shown = Table(
        title=escape(f"{host}: memory, {split}"), title_justify="left",
        caption=escape("\n".join(beside(plan))), caption_justify="left",
    )  # fmt: skip
    for name, justify in (("MiB", "left"), ("planned", "right"), ("measured", "right")):
        shown.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    one_device = len(plan.devices) == 1
    for share in plan.devices:
        budget = next((one for one in plan.budgets if one.device == share.device), None)
        _add(shown, _device(share, budget, measured.vram if one_device else None))
    if measured.vram is not None and not one_device:
        held = sum(map(at_most, plan.devices)) + sum(budget.overhead for budget in plan.budgets)
        _add(shown, iter([("all devices", str(held), str(measured.vram))]))
    _add(shown, _ram(need, limits, spare, measured))
    return shown


def _add(shown: Table, rows: Iterator[Row]) -> None:
    for row in rows:
        shown.add_row(*map(escape, row))
    shown.add_section()


def _device(share: Share, budget: Budget | None, measured: int | None) -> Iterator[Row]:
    """Every item of one device, and what of its memory is left."""
    yield share.device, "", ""
    for name in ("model", "context", "compute"):
        yield f"  {name}", str(getattr(share, name)), ""
    held = at_most(share)
    overhead = budget.overhead if budget else 0
    if overhead:
        yield "  runtime", str(overhead), ""
    yield "  in all", str(held + overhead), _told(measured)
    if budget is None:
        return
    for name, kept in (("reserved for the desktop", budget.reserve), ("margin", budget.margin)):
        if kept:
            yield f"  {name}", str(kept), ""
    limit = "" if budget.limit is None else f", vram_limit_mib {budget.limit}"
    yield f"  of {budget.total}{limit} left", str(budget.room - held), ""


def _ram(need: Need, limits: Limits, spare: int, measured: Measured) -> Iterator[Row]:
    yield "RAM", "", ""
    for item in need.items:
        yield f"  {item.name}", str(item.mib), ""
    yield "  in all", str(need.whole), _told(measured.ram)
    yield "  of it fixed", str(need.fixed), _told(measured.anonymous)
    yield "  MemoryMax", str(limits.maximum // MIB), ""
    if limits.high:
        yield "  MemoryHigh", str(limits.high // MIB), ""
    yield "  left below MemoryMax", str(limits.maximum // MIB - need.whole), ""
    yield "  RAM beside ram_reserve", str(spare // MIB), ""


def _told(mib: int | None) -> str:
    return "" if mib is None else str(mib)


def of_host(host: str, wishes: Wishes, seen: Observation, measured: Measured) -> Table | None:
    """The table of a host; None where nobody planned. Raises CannotBuild."""
    plan, need = own_plan(wishes, seen), need_of(wishes, seen)
    if plan is None or need is None:
        return None
    spare = ram.available(wishes.settings.memory, seen[HOST].memory_total)
    return table(host, plan, need, limits_of(wishes, seen), spare, measured)


def show(shown: Table | None) -> None:
    """On standard error: standard output is pyinfra's --json."""
    if shown is not None:
        Console(stderr=True, highlight=False).print(shown)
