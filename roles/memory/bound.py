"""What the model takes of the devices at least, by its header alone: a hopeless wish is refused before a build.
It is never more than llama-fit-params tells; how much it really is, that program alone knows.
"""

from __future__ import annotations

from typing import Any

from roles.llama_cpp.cuda import CannotBuild
from roles.memory import wanted
from roles.memory.fitting_program import REMEDY, budgets
from roles.observation import Observation
from roles.settings import Service
from roles.wishes import Anatomy, Wishes

UNKNOWN = 1 << 30  # MiB of a device that nobody has asked yet
# Bytes of 32 elements of a cache, as ggml packs them (ggml/src/ggml-common.h).
PACKED = {"f32": 128, "f16": 64, "bf16": 64, "q8_0": 34, "q4_0": 18, "q4_1": 20, "iq4_nl": 18, "q5_0": 22, "q5_1": 24}


def least(anatomy: Anatomy, service: Service) -> int:
    """MiB on all devices together: weights and cache. 0 where the inventory wants nothing there, or has options of its
    own that may; where fewer than all layers may be there, that is something."""
    if service.server_args or service.gpu_layers == 0:
        return 0
    if partly(anatomy, service):
        return 1
    split = len(anatomy.expert_bytes) if service.n_cpu_moe == "auto" else service.n_cpu_moe
    weights = anatomy.dense_bytes + sum(anatomy.expert_bytes[split:])
    return (weights + service.context * cache_row(anatomy, service)) >> 20


def partly(anatomy: Anatomy, service: Service) -> bool:
    """Whether fewer than all layers may be on the devices. Nothing at all is never chosen."""
    layers = service.gpu_layers
    return not anatomy.expert_bytes if layers == "auto" else layers <= anatomy.layers


def cache_row(anatomy: Anatomy, service: Service) -> int:
    """Bytes of cache for one token."""
    kinds = (service.cache_type_k, service.cache_type_v)
    return sum(row // 32 * PACKED[kind] for row, kind in zip(anatomy.cache_row, kinds, strict=True))


def hopeless(wishes: Wishes, observation: Observation) -> str | None:
    """The sentence about a model that cannot fit, whatever llama.cpp says; None where it must be asked."""
    pin, settings = wishes.model, wishes.settings
    try:
        kind = wanted.backend(wishes, observation)
    except CannotBuild:
        return None  # told by another check
    if pin is None or pin.anatomy is None or kind == "cpu" or settings.service.fit == "on":
        return None
    found = budgets(_devices(wishes, kind, observation), wanted.kept(wishes, kind, observation))
    need, room = least(pin.anatomy, settings.service), sum(max(one["room"], 0) for one in found)
    if not found or need <= room:
        return None
    if partly(pin.anatomy, settings.service):
        return (
            f"beside what the runtime takes, what is reserved and the margin no VRAM is left for {pin.file} here; leave"
            f" more for it, or set backend='cpu'{REMEDY}"
        )
    all_moved = pin.anatomy.expert_bytes and settings.service.n_cpu_moe == "auto"
    how = " even with all experts on the CPU" if all_moved else ""
    return (
        f"{pin.file} takes at least {need} MiB of VRAM{how} (weights and cache, by its header), and {room} MiB are"
        f" for it here; take a smaller context, cache type or model{REMEDY}"
    )


def _devices(wishes: Wishes, kind: str, observation: Observation) -> list[dict[str, Any]]:
    """The devices as far as they are known before there is a llama.cpp to ask: the cards, or what a limit leaves."""
    servers = wishes.settings.llama_cpp.rpc_servers if wishes.settings.memory.vram_limit_mib else ()
    if kind == "rpc":
        return [{"device": name, "name": name, "total": UNKNOWN} for name in servers]
    gpus = wanted.nvidia(observation).gpus
    return [{"device": gpu.uuid, "name": gpu.name, "total": gpu.memory_total} for gpu in gpus if gpu.memory_total]
