"""What is asked about where nothing fits: smaller wishes for the same model, and smaller quantizations of it.

Which quantizations is a guess by their bytes, and needs the Hub. Which of them fits, llama.cpp says.
"""

from __future__ import annotations

from typing import Any

from roles.lock import CannotPin
from roles.memory.bound import PACKED
from roles.memory.fitting_program import TRUNCATED
from roles.memory.plan import Plan
from roles.model import header, pin
from roles.model.hub import Tell
from roles.settings import Model, Settings
from roles.wishes import Anatomy, ModelPin

ADVICE = "take a smaller model or quantization"
MOST = 3  # quantizations, each with its header to fetch: some MB


def alternatives(settings: Settings) -> list[dict[str, Any]]:
    """Smaller wishes, the cheapest loss first: speed of reading, precision of the cache, tokens."""
    service = settings.service
    kinds = (service.cache_type_k, service.cache_type_v)

    def cache(kind: str) -> list[dict[str, Any]]:
        """Where it is smaller; llama.cpp quantizes V with flash attention alone."""
        if service.flash_attention == "off" or 2 * PACKED[kind] >= sum(PACKED[now] for now in kinds):
            return []
        told = f"KV {kind} instead of {'/'.join(dict.fromkeys(kinds))}"
        return [{"option": "-ctk", "changes": {"-ctk": kind, "-ctv": kind}, "told": told}]

    ubatch = {"option": "-ub", "changes": {"-ub": "512"}, "told": f"ubatch 512 instead of {service.ubatch}"}
    return [*([ubatch] if service.ubatch > 512 else []), *cache("q8_0"), {"option": "-c"}, *cache("q4_0")]


def quantizations(wanted: Model, now: ModelPin, plan: Plan, tell: Tell) -> tuple[list[ModelPin], str]:
    """Those worth a question instead of `now`, by whose plan nothing fits, the nearest first; and what to say where
    none of them can be asked. Asks the Hub."""
    left = weights_left(plan)
    if left <= 0:
        return [], "nor would any quantization, as context and compute buffers alone are too much"
    try:
        own = header.anatomy(now, wanted, tell)
        others = picked(pin.smaller(wanted, now, tell), int(left * now.size))
    except (CannotPin, header.CannotRead) as error:
        return [], f"{ADVICE} (the Hub does not tell which: {error})"
    found = []
    for other in others:
        try:
            anatomy = header.anatomy(other, wanted, tell)
        except (CannotPin, header.CannotRead):
            continue  # the next one may be whole
        if shape(anatomy) == shape(own):
            found.append(other)
    return found, ADVICE if found else f"{now.source} has no smaller quantization of it"


def weights_left(plan: Plan) -> float:
    """The share of the model's bytes on a device, of 1, for which there is room beside context and compute buffers, on
    the device that has least. With as little on the devices as may be."""
    rooms, least = {one.device: one.room for one in plan.budgets}, plan.tried[-1].devices
    shares = [(rooms.get(one.device, 0) - one.context - one.compute - TRUNCATED, one.model) for one in least]
    return min((room / model for room, model in shares if model), default=0.0)


def picked(smaller: list[ModelPin], size: int) -> list[ModelPin]:
    """At most three. Where there are more, those that fit if all tensors shrink alike go first: the largest of them,
    one in the middle, and the smallest, as in fact attention shrinks less than experts do. `size` in bytes."""
    fitting = [one for one in smaller if one.size <= size]
    if len(fitting) > MOST:
        return [fitting[0], fitting[len(fitting) // 2], fitting[-1]]
    return smaller[-MOST:]


def shape(told: Anatomy) -> tuple[object, ...]:
    """What all quantizations of one model have in common."""
    experts = tuple(size > 0 for size in told.expert_bytes)
    return told.architecture, told.layers, told.experts, told.trained_context, told.mla, told.cache_row, experts
