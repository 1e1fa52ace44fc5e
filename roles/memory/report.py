"""What a plan says to people, in a line each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from roles.gpu.classify import Nvidia
from roles.gpu.parse import Holder
from roles.memory.fitting_program import TO_ASK, shown, taken
from roles.memory.plan import Plan, Share, Split, Tried

OURS = "/paddock/releases/"  # in the path of a llama-server that Paddock started


def line(plan: Plan) -> str:
    """The choice, what it takes, and what the next one would."""
    if not plan.checked:
        return f"{named(plan)}, unchecked"
    if not plan.devices:
        return f"the host will hold {plan.host.total} MiB"
    rooms = {budget.device: budget.room for budget in plan.budgets}
    held = ", ".join(f"{figures(one)} of {rooms.get(one.device, 0)}" for one in plan.devices)
    return "; ".join([f"{chosen(plan)}: {held}", f"host {plan.host.total} MiB", *beside(plan)])


def chosen(plan: Plan) -> str:
    """The split, and where it leaves the experts."""
    if not plan.moe_layers:
        return named(plan)
    return f"{named(plan)} (the experts of {plan.moe_layers_on_cpu} of {plan.moe_layers} layers on the CPU)"


def named(split: Split) -> str:
    return shown(split.model_dump())


def beside(plan: Plan) -> list[str]:
    """What the next split with more on the devices would take, and the next with less."""
    return [f"{named(one)} would take at most {_takes(one)}" for one in (plan.better, plan.worse) if one]


def _takes(one: Tried) -> str:
    held = ", ".join(f"{at_most(share)} MiB of {share.device}" for share in one.devices)
    return held + (f", {one.lacking} too many" if one.lacking > 0 else f", and leave {-one.lacking}")


def figures(share: Share) -> str:
    parts = f"model {share.model}, context {share.context}, compute {share.compute}"
    return f"{share.device} {at_most(share)} MiB ({parts})"


def at_most(share: Share) -> int:
    """What a device holds, with what llama.cpp cuts off of each figure."""
    return taken([share.model, share.context, share.compute])


def warnings(plan: Plan, nvidia: Nvidia) -> list[str]:
    """What others hold of the VRAM right now beyond what is left to them, and what it would take. It never changes the
    plan: a browser's tab is no reason to load the model anew."""
    told, budgets = [], list(plan.budgets)
    for gpu in nvidia.gpus if plan.backend == "cuda" else ():
        budget = next((one for one in budgets if gpu.name in one.name), None)
        if budget is None:
            continue
        budgets.remove(budget)  # the next card of that name is another one
        others = [one for one in nvidia.holders if one.gpu in ("", gpu.uuid) and OURS not in one.name]
        held = sum(one.used or 0 for one in others)
        # Below vram_limit_mib they may hold more than the reserve, and the plan fits beside them.
        excess = budget.room - (budget.total - held - budget.margin - budget.overhead)
        if excess <= 0:
            continue
        beside = next((one for one in plan.tried if one.lacking + excess <= 0), None)
        would = f", with which {named(beside)} fits" if beside else ""
        told.append(
            f"{gpu.name}: others hold {held} MiB of VRAM now, and vram_reserve_mib leaves them {budget.reserve}"
            f"{listed(others)}; close them, or set vram_reserve_mib={held}{would}"
        )
    return told


def full_of_ours(nvidia: Nvidia) -> bool:
    """Whether it is our own service that leaves a card no room to ask llama.cpp anything."""
    full = [gpu.uuid for gpu in nvidia.gpus if (gpu.memory_total or 0) - (gpu.memory_used or 0) < TO_ASK]
    return any(OURS in one.name and one.gpu in ("", *full) for one in nvidia.holders) and bool(full)


def holders(nvidia: Nvidia) -> str:
    """Who holds VRAM, to be said in brackets; nothing where the driver does not tell."""
    return listed(list(nvidia.holders))


def listed(found: list[Holder]) -> str:
    told = [f"{one.name.rsplit('/', 1)[-1]} {one.used}" for one in found if one.used][:3]
    return f" ({', '.join(told)})" if told else ""


def teller(log: Callable[[str], None], unfit: list[dict[str, Any]] | None) -> Callable[[list[str]], None]:
    """What becomes of the program's output: the plan in a line, or one of the `unfit` where more is asked about."""

    def tell(lines: list[str]) -> None:
        told = json.loads(lines[-1])
        plan = Plan.model_validate(told)
        if plan.nothing_fits and unfit is not None:
            unfit.append(told)
        else:
            log("; ".join(filter(None, [line(plan), plan.problem])))  # with memory_check='warn' it goes on

    return tell
