"""What the planner on the host is told, as JSON."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from roles.host import HOST
from roles.llama_cpp.release import Release
from roles.memory import report, wanted
from roles.memory.alternatives import ADVICE, alternatives
from roles.memory.observe import FOLDER
from roles.memory.words import own_spread, words
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.wishes import ModelPin, Wishes


def asks_on(wishes: Wishes) -> bool:
    """Whether there is a repository to look for smaller quantizations in."""
    return wishes.model is not None and wishes.settings.model.model_repo is not None


def job(
    wishes: Wishes, release: Release, kind: str, headers: tuple[bytes, ...], observation: Observation
) -> dict[str, Any]:
    """What the program is told."""
    settings, host = wishes.settings, observation[HOST]
    service = settings.service
    layers, moe_layers = wanted.anatomy(wishes, observation)
    return {
        "digest": wanted.digest(wishes, observation),
        "inputs": wanted.inputs(wishes, observation),
        "release": release.key,
        "bin": f"{release.folder(host.data_dir)}/bin",
        "folder": FOLDER,
        "backend": kind,
        "model": observation[MODEL].path,
        "twin": twin(wishes.model, headers) if wishes.model else [],
        "words": words(service, ()),
        "extra": list(service.server_args),
        "rpc_servers": len(settings.llama_cpp.rpc_servers),
        "own_tensor_split": own_spread(service),
        "layers": layers,
        "moe_layers": moe_layers,
        "context": service.context,
        "ubatch": service.ubatch,
        "gpu_layers": None if service.gpu_layers == "auto" else service.gpu_layers,
        "n_cpu_moe": None if service.n_cpu_moe == "auto" else service.n_cpu_moe,
        "explicit": wanted.own_numbers(settings, bool(moe_layers)),
        **wanted.kept(wishes, kind, observation, release.key),
        "alternatives": alternatives(settings),
        "pause": kind == "cuda" and report.full_of_ours(wanted.nvidia(observation)),
        "holders": report.holders(wanted.nvidia(observation)),
        "check": settings.memory.memory_check,
        "sizes": [],
        "ask_on": asks_on(wishes),
        "asked": None,
        "smaller": [],
        "advice": ADVICE,
    }


def twin(pin: ModelPin, headers: tuple[bytes, ...]) -> list[dict[str, Any]]:
    """A file without its weights, or several."""
    return [
        {
            "name": file.path.rsplit("/", 1)[-1],
            "size": file.size,
            "header": base64.b64encode(zlib.compress(header)).decode(),
        }
        for file, header in zip(pin.files, headers, strict=False)
    ]
