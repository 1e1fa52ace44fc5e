"""What fits into a device's memory, and which split of a model is the first that does. Pure, and in MiB throughout.

It goes to the host ahead of the programs that ask llama.cpp, and is imported here: one piece of code says what fits.
A split is gpu_layers, n_cpu_moe and n_cpu_ffn, None for an option that is left out. Shares are model, context and
compute by device; a budget is what a device has, what is kept free of it, and the room that remains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ALL_LAYERS = 99  # as people write it; more than a model has is no mistake
TO_ASK = 400  # MiB free on a card before llama.cpp is asked: a CUDA context takes about 320 (unslothai/unsloth#6718)
TRUNCATED = 3  # llama-fit-params cuts each of a device's three figures down to whole MiB
REMEDY = ". Change that, or take the risk with memory_check='warn'"
LEAST_CONTEXT = 4096  # tokens; less is no alternative to anything


def room(total: int, reserve: int, margin: int, overhead: int, limit: int | None) -> int:
    """What model, context and compute buffers may take of a device. `limit` bounds all of it, the overhead too."""
    free = total - reserve - margin
    return (free if limit is None else min(free, limit)) - overhead


def budgets(devices: list[dict[str, Any]], job: dict[str, Any]) -> list[dict[str, Any]]:
    """What each device that llama.cpp found has for the model. A card is known by its name: CUDA counts the fastest
    first, nvidia-smi by the bus."""
    cards, found = list(job["cards"]), []
    overhead = job["overhead"] + -(-job["moe_cache"] // max(len(devices), 1))
    for one in devices:
        card = next((card for card in cards if card["name"] in one["name"]), cards[0] if cards else None)
        if card in cards:
            cards.remove(card)
        total = min(one["total"], card["total"]) if card and card["total"] else one["total"]
        reserve = card["reserve"] if card else job["reserve"]
        free = room(total, reserve, job["margin"], overhead, job["limit"])
        kept = {"reserve": reserve, "margin": job["margin"], "overhead": overhead, "limit": job["limit"]}
        found.append({"device": one["device"], "name": one["name"], "total": total, **kept, "room": free})
    return found


def taken(share: list[int]) -> int:
    """At most so much, of figures that were cut down; nothing of a device that is not used."""
    return sum(share) + TRUNCATED if any(share) else 0


def short(share: list[int], free: int) -> int:
    """What one device lacks; nothing where nothing is put on it, as on a card that its desktop fills."""
    return taken(share) - (free if any(share) else max(free, 0))


def lacking(shares: dict[str, list[int]], rooms: dict[str, int]) -> int:
    """What the tightest device lacks; 0 and less is room that is left."""
    return max([short(shares.get(device, [0]), free) for device, free in rooms.items()] or [0])


def ladder(wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """The splits worth trying, each with less on the devices than the one before. `layers` and `moe_layers` (those that
    have experts) are the model's; `gpu_layers` and `n_cpu_moe` a number, or None to choose. A layer without experts
    uses up an N without moving anything, so that N is no rung of its own. Nothing on a device at all is no rung either:
    who wants that says so."""
    layers, most, moe = wanted["layers"], wanted["gpu_layers"], wanted["n_cpu_moe"]
    ngl = ALL_LAYERS if most is None else most
    if moe is None and wanted["moe_layers"]:
        return [split(ngl, number) for number in [0, *(layer + 1 for layer in wanted["moe_layers"])]]
    if moe is not None or most is not None:
        return [split(ngl, moe)]
    if not wanted["knows_n_cpu_ffn"]:
        return [split(number) for number in [ALL_LAYERS, *range(layers, 0, -1)]]
    # Attention and its cache stay on the device as long as they can: they are needed for every token of the context.
    rungs = [split(ALL_LAYERS, None, number or None) for number in range(layers + 1)]
    return rungs + [split(number, None, layers) for number in range(layers, 0, -1)]


def typical(rungs: list[dict[str, Any]], layers: int) -> dict[str, Any]:
    """Of a ladder the split whose compute buffers stand for those of the others. With half of the layers' weights moved
    both kinds of work are on the devices; at its end, where the experts of the last two layers move too, the buffers
    are smaller by a third, and at its beginning they may be."""
    return rungs[min(layers // 2, len(rungs) - 1)]


def split(gpu_layers: int, n_cpu_moe: int | None = None, n_cpu_ffn: int | None = None) -> dict[str, Any]:
    return {"gpu_layers": gpu_layers, "n_cpu_moe": n_cpu_moe, "n_cpu_ffn": n_cpu_ffn}


def first(count: int, fits: Callable[[int], bool]) -> int | None:
    """The first of `count` rungs that fits, by halving; None where not even the last does. It has been asked about, so
    it fits even where the rungs are out of order. At most ceil(log2(count + 1)) are asked about."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return low if low < count else None


def smaller_context(context: int, need: int, half: int, free: int) -> int:
    """The context that should fit, from what `context` and half of it need: the cache grows with it in a straight line.
    Whole 1024 tokens; 0 where none will do."""
    per_token = (need - half) / (context - context // 2)
    if per_token <= 0:
        return 0
    fitting = int(context - (need - free) / per_token) // 1024 * 1024
    return fitting if LEAST_CONTEXT <= fitting < context else 0


def shown(one: dict[str, Any]) -> str:
    """A split in the words of the inventory."""
    if one["n_cpu_moe"] is not None:
        return "n_cpu_moe=" + str(one["n_cpu_moe"])
    told = "gpu_layers=" + str(one["gpu_layers"])
    return told + (", --n-cpu-ffn " + str(one["n_cpu_ffn"]) if one["n_cpu_ffn"] is not None else "")


def wished(one: dict[str, Any]) -> str:
    """What to write into the inventory to get a split. --n-cpu-ffn has no key of its own: it is chosen."""
    return shown(one) if one["n_cpu_ffn"] is None else f"gpu_layers='auto' (--n-cpu-ffn {one['n_cpu_ffn']})"


def too_much(shares: dict[str, list[int]], found: list[dict[str, Any]]) -> str:
    """The sentence about the device that lacks most."""
    one = max(found, key=lambda budget: short(shares.get(budget["device"], [0]), int(budget["room"])))
    share = shares.get(one["device"], [0, 0, 0])
    limit = "" if one["limit"] is None else f", vram_limit_mib is {one['limit']}"
    return (
        f"{one['device']} would hold {taken(share)} MiB (model {share[0]}, context {share[1]}, compute {share[2]}), and"
        f" {one['room']} of its {one['total']} MiB are for it ({one['reserve']} reserved, margin {one['margin']},"
        f" runtime {one['overhead']}{limit})"
    )
