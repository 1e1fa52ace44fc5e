"""What is known of a run before it begins: what is measured, and on what."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from roles.gpu.classify import classify
from roles.gpu.observe import GPU
from roles.host import HOST
from roles.llama_cpp import cmake
from roles.machine import MACHINE
from roles.memory.wanted import plan_of
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.service.reasons import options
from roles.service.unit import Unit
from roles.settings import Settings
from roles.wishes import Wishes

# What is no matter to a figure, or nobody's business.
BESIDE = {"host", "port", "api_key_file", "memory_cap_required"}


def configuration(told: Mapping[str, str]) -> str:
    """What the seed calls the config of a row: model, experts on the CPU, KV cache. `told`: llama-server's options."""
    model = told.get("-m", "").rsplit("/", 1)[-1].removesuffix(".gguf")
    split = f"n{told.get('--n-cpu-moe', 0)}" if {"-ngl", "--n-cpu-moe"} & told.keys() else "CPU"
    split = "fit" if told.get("-fit") == "on" else split
    kinds = dict.fromkeys((told.get("-ctk", "f16"), told.get("-ctv", "f16")))
    return f"{model}, {split}, KV {'/'.join(kinds)}"


def settings_of(settings: Settings) -> dict[str, Any]:
    """What of the inventory may matter to a figure."""
    build = settings.llama_cpp.model_dump(mode="json", include={"backend", "llama_ref", "llama_cmake_args"})
    return {**build, **settings.service.model_dump(mode="json", exclude=BESIDE)}


def about(wishes: Wishes, unit: Unit, observation: Observation) -> dict[str, Any]:
    """The part of a record that does not come from measuring, by its names (roles/benchmark/record.py)."""
    told, nvidia, host = options(unit.text), classify(observation[GPU]), observation[HOST]
    machine, chosen = observation[MACHINE], settings_of(wishes.settings)
    cards = [
        {
            "name": gpu.name,
            "uuid": gpu.uuid,
            "memory_total": gpu.memory_total,
            "pcie_gen_max": gpu.pcie_gen[1],
            "pcie_width_max": gpu.pcie_width[1],
        }
        for gpu in nvidia.gpus
    ]

    def count(option: str) -> int | None:
        return int(told[option]) if told.get(option, "").isdigit() else None

    plan = plan_of(wishes, observation)
    return {
        "config": configuration(told),
        "stamp": unit.stamp,
        "release": unit.release,
        "model_filename": told.get("-m", ""),
        "model_type": observation[MODEL].architecture,
        "model_sha256": wishes.model.sha256 if wishes.model else "",
        "driver": nvidia.driver,
        "kernel": machine.kernel,
        "cpu_info": machine.cpu,
        "gpu_info": ", ".join(gpu.name for gpu in nvidia.gpus),
        "backends": cmake.backend(wishes.settings.llama_cpp, nvidia),
        "ram_bytes": host.memory_total,
        "cards": cards,
        "n_batch": count("-b") or 2048,
        "n_ubatch": count("-ub") or 512,
        "n_threads": count("-t"),
        "type_k": told.get("-ctk", "f16"),
        "type_v": told.get("-ctv", "f16"),
        "n_gpu_layers": count("-ngl"),
        "n_cpu_moe": count("--n-cpu-moe"),
        "flash_attn": told.get("-fa", "auto"),
        "load_mode": wishes.settings.service.load_mode,
        "plan": plan.model_dump(mode="json", exclude={"inputs", "tried"}) if plan else None,
        "settings": chosen,
        "settings_digest": hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:16],
    }
