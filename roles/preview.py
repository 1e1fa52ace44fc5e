"""What a run would do, per host, as one block: collected while pyinfra prepares, shown when it has."""

from __future__ import annotations

import sys

from pyinfra.api import Host, State

_planned: dict[str, list[tuple[str, str]]] = {}


def decide_ahead(state: State) -> None:
    """With -y pyinfra decides nothing before it acts; a dry run never acts, and would say nothing then."""
    if "--dry" in sys.argv:
        state.check_for_changes = True


def note(host: Host, role: str, reasons: tuple[str, ...]) -> None:
    """Why a role would change this host."""
    _planned.setdefault(host.name, []).extend((role, reason) for reason in reasons)


def show(host: Host, verdict: str) -> None:
    """The block of one host: the verdict, then a line per reason. Only the verdict where nothing would change."""
    lines = _planned.pop(host.name, [])
    if not verdict:
        return
    if lines and verdict.startswith("nothing"):
        verdict += "; still to do:"
    width = max((len(role) for role, _ in lines), default=0)
    for line in [verdict, *(f"  {role:{width}}  {reason}" for role, reason in lines)]:
        host.log(line)
