"""Which hosts of an inventory a model fits: `pyinfra -y INVENTORY roles.memory.fleet`, before any of them has it.

Where the host has the release, llama.cpp is asked, and the plan is recorded as a deploy would; elsewhere the header
alone says what it takes at least.
"""

from __future__ import annotations

import json

from pyinfra.api import Host, State

from roles import observation, remote
from roles.host import HOST
from roles.llama_cpp.cuda import CannotBuild
from roles.lock import CannotPin
from roles.memory import bound, cap, decide, ram, report
from roles.memory.observe import MEMORY
from roles.memory.plan import Plan
from roles.model import header
from roles.model.decide import holds
from roles.model.observe import MODEL
from roles.observation import Observation, Unreadable
from roles.overview import rows, start
from roles.overview.explore import with_header
from roles.overview.preflight import gpu
from roles.wishes import Wishes

COLUMNS = ("Host", "Machine", "Fits", "Because")
LOST = ("", "unknown", "it cannot be reached")
Row = tuple[str, str, str]
_rows: dict[str, Row] = {}


def fleet() -> None:
    """One row for this host; the table is printed when pyinfra ends."""
    state, host = observation.context()
    wishes = start.begin()
    if not _rows:
        rows.at_the_end(state, COLUMNS, _rows, LOST)
    _rows[host.name] = ("", "unknown", "what it shall be cannot be resolved; the reason stands above")
    if wishes is None:
        return
    try:
        _rows[host.name] = row(state, host, wishes, observation.read())
    except (CannotBuild, CannotPin, header.CannotRead, Unreadable, remote.Failed) as error:
        _rows[host.name] = ("", "unknown", str(error))
    except Exception as error:  # one row must not take the table with it
        _rows[host.name] = ("", "unknown", f"a mistake of Paddock's own, please report it: {error!r}")


def row(state: State, host: Host, wishes: Wishes, seen: Observation) -> Row:
    """Machine, verdict and reason. Raises what `fleet` catches."""
    wishes = with_header(wishes, seen)
    if problem := decide.hopeless(wishes, seen):
        return machine(seen), "no", problem  # a deploy would say so before it asked anybody
    refused = None
    try:
        plan = cap.own_plan(wishes, seen)
        if plan is None:
            to_come = wishes.model is not None and not holds(wishes.model, seen[MODEL])
            headers = header.bytes_of(wishes.model) if wishes.model and to_come else ()
            decision = decide.planned(wishes, headers, None, seen, gentle=True)
            refused = decision.refusal
            for step in decision.steps:
                plan = Plan.model_validate(json.loads(remote.run(state, host, step.script)[-1]))
    except CannotBuild:
        plan = None  # no compiler or toolkit yet: by the header
    except remote.Failed as error:
        return machine(seen), "unknown", str(error)
    if plan is not None:
        plans = {**seen[MEMORY].plans, plan.digest: plan}
        return (machine(seen), *by_plan(wishes, plan, seen.replace(MEMORY, plans=plans)))
    return (machine(seen), *by_header(wishes, seen, refused))


def by_plan(wishes: Wishes, plan: Plan, seen: Observation) -> tuple[str, str]:
    """By llama.cpp's own figures."""
    if plan.problem:
        return "no", plan.problem
    if not plan.checked:
        return "perhaps", "this release has no llama-fit-params --fit-print to ask, so nobody has checked its numbers"
    held = cap.held(wishes, seen)
    if held.refusal:
        return "no", held.refusal
    return "yes", "; ".join(filter(None, [report.line(plan), held.left_out]))


def by_header(wishes: Wishes, seen: Observation, refused: str | None) -> tuple[str, str]:
    """What is known before there is a release: at least so much of the VRAM, and the file beside the RAM."""
    pin, settings, host = wishes.model, wishes.settings, seen[HOST]
    if pin is None or pin.anatomy is None:
        return "unknown", refused or "the model is a file on the host, and no header of it was read here"
    if problem := bound.hopeless(wishes, seen):
        return "no", problem
    vram = sum(card.memory_total or 0 for card in gpu(seen).gpus)
    spare, size = ram.available(settings.memory, host.memory_total) >> 20, pin.size >> 20
    least = bound.least(pin.anatomy, settings.service)
    told = f"by its header alone: at least {least} of {vram} MiB of VRAM" if vram else "by its size alone"
    if size > vram + spare:
        return "no", f"{told}; {size} MiB of weights go into {vram} MiB of VRAM and {spare} of RAM only from the disk"
    return "perhaps", f"{told}; certain after the build"


def machine(seen: Observation) -> str:
    cards = [f"{card.name} ({card.memory_total} MiB)" for card in gpu(seen).gpus]
    return ", ".join([*cards, f"{seen[HOST].memory_total >> 20} MiB of RAM"])
