"""A service as one record, as paddock-switch takes it, keeps it as the last good, and proves it."""

from __future__ import annotations

import json
from typing import Any

from roles.host import HOST
from roles.job import Job
from roles.memory.wanted import needed_plan
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.service import scope as scopes
from roles.service.boot import devices
from roles.service.command import UNIT
from roles.service.directives import held
from roles.service.unit import Unit, key_file, url
from roles.wishes import Wishes

LOAD_SECONDS = 120  # to begin with; a big model on a slow disk gets more
SLOWEST_DISK = 50_000_000  # bytes a second; where the host measures less, it waits for longer
ANSWER_SECONDS = 900  # completions, and what else the proof asks for
SWITCH_MEMORY = 256 << 20  # bytes; Python needs 20 MB


def record(wishes: Wishes, unit: Unit, observation: Observation) -> dict[str, Any]:
    """Sizes in bytes. `limits`: properties of the unit as systemd prints them back; `layers`: how many the command
    line asks a device to take, None where llama.cpp fits them itself; `plan`: what llama.cpp told of them, None where
    it was not asked; `seconds`: for the model to load. Raises CannotBuild."""
    wanted, host, model = wishes.settings.service, observation[HOST], observation[MODEL]
    plan = needed_plan(wishes, observation)
    return {
        "schema": 1,
        "manager": scopes.of(wanted).manager,
        "unit": UNIT,
        "text": unit.text,
        "stamp": unit.stamp,
        "release": unit.release,
        "build": wishes.commit[:9],
        "server": f"{host.data_dir}/releases/{unit.release}/bin/llama-server",
        "model": host.located(model.path),
        "load_bytes": size(observation),
        "context": wanted.context,
        "url": url(wanted),
        "key_file": key_file(wanted, host),
        "limits": held(unit.text),
        "autostart": unit.autostart,
        "devices": devices(wishes, observation) if plan is None or plan.gpu_layers else (),
        "layers": plan.gpu_layers if plan else None,
        "plan": plan.model_dump(include={"digest", "offloaded", "devices"}) if plan and plan.checked else None,
        "seconds": load_seconds(observation),
    }


def job(record: dict[str, Any], program: str) -> Job:
    """The switch as a job: it outlives this connection, and the next run joins it."""
    return switch('printf \'%s\' "$2" | "$1" switch', (program, json.dumps(record)), int(record["seconds"]))


def switch(text: str, args: tuple[str, ...], seconds: int) -> Job:
    """Its time holds the slowest disk, twice, as another service may have to come back."""
    return Job("switch", "llama-server", text, args, 2 * (6 * seconds + ANSWER_SECONDS), SWITCH_MEMORY)


def load_seconds(observation: Observation) -> int:
    """What the model has to load, at the least."""
    return LOAD_SECONDS + size(observation) // SLOWEST_DISK


def size(observation: Observation) -> int:
    """Bytes of the model's files."""
    return sum(one.file.size for one in observation[MODEL].files if one.file)
