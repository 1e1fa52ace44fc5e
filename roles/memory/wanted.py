"""Which plan a host needs: what it is made from, as a digest, and the one that was recorded for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from roles.gpu.classify import Nvidia, classify
from roles.gpu.observe import GPU
from roles.llama_cpp import cmake
from roles.llama_cpp.cuda import CannotBuild
from roles.llama_cpp.release import wanted_release
from roles.memory.fitting_program import REMEDY
from roles.memory.observe import MEMORY
from roles.memory.overhead import overhead
from roles.memory.plan import Plan
from roles.memory.words import words
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.settings import Settings
from roles.wishes import Wishes

# MiB that a desktop takes of the card that shows it: the article that Paddock was made for measured about 0.75 GB.
DESKTOP = 768
VERSION = 1  # raise it when another plan would come of the same wishes
LONG = {"model", "server_args", "cards"}  # inputs that no sentence has room for


class NotPlanned(CannotBuild):
    """The memory role has not planned what is wanted, or it does not fit; the text says what to do."""


def backend(wishes: Wishes, observation: Observation) -> str:
    """Raises CannotBuild."""
    return cmake.backend(wishes.settings.llama_cpp, classify(observation[GPU]))


def planned_by_us(wishes: Wishes, kind: str) -> bool:
    """Whether the split is ours to find: llama.cpp's own -fit was not asked for, and there is something to plan."""
    return wishes.settings.service.fit != "on" or kind == "cpu"


def plan_of(wishes: Wishes, observation: Observation) -> Plan | None:
    """The recorded plan for what is wanted; None where there is none. Raises CannotBuild."""
    return observation[MEMORY].plans.get(digest(wishes, observation))


def needed_plan(wishes: Wishes, observation: Observation) -> Plan | None:
    """The plan that llama-server is started by; None where the split is not planned. Raises CannotBuild, NotPlanned."""
    kind = backend(wishes, observation)
    if kind == "cpu" or not planned_by_us(wishes, kind):
        return None
    plan = plan_of(wishes, observation)
    if plan is None:
        raise NotPlanned(
            "no plan of the memory is recorded for this release, model and settings; run the memory role too"
        )
    if plan.problem and wishes.settings.memory.memory_check == "refuse":
        raise NotPlanned(plan.problem + REMEDY)
    return plan


def inputs(wishes: Wishes, observation: Observation) -> dict[str, Any]:
    """Everything that a plan is made from, as JSON holds it. What varies while people work (VRAM in use, a display that
    is plugged in) is not among it. Raises CannotBuild."""
    settings, kind = wishes.settings, backend(wishes, observation)
    options = words(settings.service, settings.llama_cpp.rpc_servers)
    found = {
        "version": VERSION,
        "release": wanted_release(wishes, observation).key,
        "model": model_identity(wishes, observation),
        "backend": kind,
        **dict(zip(options[::2], options[1::2], strict=True)),
        "server_args": list(settings.service.server_args),
    }
    if kind != "cpu":
        found |= settings.service.model_dump(include={"gpu_layers", "n_cpu_moe", "moe_cache_mib"})
        found |= settings.memory.model_dump(include={"vram_reserve_mib", "vram_margin_mib", "vram_limit_mib"})
    if kind == "cuda":
        found["cards"] = [[gpu.uuid, gpu.name, gpu.memory_total] for gpu in nvidia(observation).gpus]
    return found


def digest(wishes: Wishes, observation: Observation) -> str:
    """Of the inputs: the name of a plan. Raises CannotBuild."""
    told = json.dumps(inputs(wishes, observation), sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def changes(now: dict[str, Any], plans: Iterable[Plan]) -> str:
    """In words what differs from the recorded plan that is nearest to what is wanted; empty where there is none."""

    def differing(before: dict[str, Any]) -> list[str]:
        return [name for name in {**now, **before} if before.get(name) != now.get(name)]

    def told(name: str) -> str:
        old, new = ("none" if each.get(name) is None else each[name] for each in (before, now))
        return f"another {name}" if name in LONG else f"{name} {old} -> {new}"

    before = min((plan.inputs for plan in plans if plan.inputs), key=lambda each: len(differing(each)), default=now)
    return ", ".join(map(told, differing(before)))


def model_identity(wishes: Wishes, observation: Observation) -> str:
    """The pinned bytes, or the files on the host as they stand."""
    if wishes.model:
        return wishes.model.sha256
    seen = observation[MODEL]
    return " ".join([seen.path, *(f"{one.file.size} {one.file.mtime_ns}" for one in seen.files if one.file)])


def nvidia(observation: Observation) -> Nvidia:
    return classify(observation[GPU])


def cards(wishes: Wishes, observation: Observation) -> list[dict[str, Any]]:
    """Name, MiB in all and MiB reserved of each card."""
    wanted = wishes.settings.memory.vram_reserve_mib
    return [
        {
            "name": gpu.name,
            "total": gpu.memory_total,
            "reserve": (DESKTOP if gpu.display else 0) if wanted == "auto" else wanted,
        }
        for gpu in nvidia(observation).gpus
    ]


def kept(wishes: Wishes, kind: str, observation: Observation, release: str = "") -> dict[str, Any]:
    """What of each device is not for the model, as fitting_program.budgets takes it; MiB. `release`: its key, where it
    is known."""
    memory, uuids = wishes.settings.memory, [gpu.uuid for gpu in nvidia(observation).gpus]
    return {
        "cards": cards(wishes, observation) if kind == "cuda" else [],
        "reserve": 0 if memory.vram_reserve_mib == "auto" else memory.vram_reserve_mib,
        "margin": memory.vram_margin_mib,
        "limit": memory.vram_limit_mib,
        "overhead": overhead(kind, release, uuids, observation[MEMORY].measured),
        "moe_cache": wishes.settings.service.moe_cache_mib,
    }


def anatomy(wishes: Wishes, observation: Observation) -> tuple[int, list[int]]:
    """How many layers the model has, and which of them have experts: from the header that was read here, or from what
    the probe reads of the file."""
    pin, seen = wishes.model, observation[MODEL]
    if pin and pin.anatomy:
        return pin.anatomy.layers, [layer for layer, size in enumerate(pin.anatomy.expert_bytes) if size]
    layers = seen.layers or 0
    return layers, list(range(seen.leading_dense, layers)) if seen.experts else []


def own_numbers(settings: Settings, moe: bool) -> bool:
    """Whether the inventory leaves nothing to choose."""
    wanted = settings.service
    return wanted.n_cpu_moe != "auto" or (wanted.gpu_layers != "auto" and not moe)
