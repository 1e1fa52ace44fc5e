"""What the model would be like with more VRAM: `pyinfra -y INVENTORY roles.memory.explore`. Nothing is changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from pyinfra import logger
from pyinfra.api import Host, State
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from roles import observation, remote, trouble
from roles.llama_cpp.cuda import CannotBuild
from roles.llama_cpp.observe import LLAMA_CPP
from roles.llama_cpp.release import wanted_release
from roles.lock import CannotPin
from roles.memory import bound
from roles.memory.decide import PROGRAM, SECONDS, exploring
from roles.memory.explore_program import CARD, explored, questions
from roles.memory.fitting_program import shown
from roles.model import header
from roles.model.decide import holds
from roles.model.observe import MODEL
from roles.observation import Observation, Unreadable
from roles.overview import start
from roles.remote import Script
from roles.settings import Service
from roles.wishes import Anatomy, Wishes

SIZES = (6144, 8192, 12288, 16384, 24576)  # MiB: the cards that people buy
BASIS = {
    "cuda": "llama.cpp's own figures of this release, on this host's card",
    "rpc": "weights and cache are llama.cpp's own figures; compute buffers are those of an RPC device",
    "cpu": "weights are the header's and the cache is llama.cpp's own figure, both exact; compute buffers are those of"
    " the CPU, a bound: a CUDA release tells them exactly",
    "": "no release is here to ask: weights and cache by the header alone, at least; compute buffers are not counted",
}


class CannotTell(Exception):
    """There is nothing to ask; the text says why."""


@dataclass(frozen=True)
class Explored:
    """Rows as the program tells them, and what the figures rest on."""

    rows: list[dict[str, Any]]
    basis: str


def explore() -> None:
    """The table of this host."""
    state, host = observation.context()
    wishes = start.begin()
    if wishes is None:
        return
    try:
        found = ask(state, host, wishes, observation.read())
    except (CannotTell, CannotBuild, CannotPin, header.CannotRead, Unreadable, remote.Failed) as error:
        trouble.out(state, host, str(error))
        return
    Console(stderr=True, highlight=False).print(table(host.name, wishes.settings.service, found))


def ask(state: State, host: Host, wishes: Wishes, seen: Observation) -> Explored:
    """By the release on the host where there is one, else by the header. Raises what the module's `explore` tells."""
    wishes, there = with_header(wishes, seen), wishes.model is None or holds(wishes.model, seen[MODEL])
    told = wishes.model.anatomy if wishes.model else None
    headers = header.bytes_of(wishes.model) if wishes.model and not there else ()
    try:
        built = wanted_release(wishes, seen).key in seen[LLAMA_CPP].releases
    except CannotBuild:
        built = False
    if not built:
        if told is None:
            raise CannotTell("no release of llama.cpp is on this host to ask about its model; deploy it first")
        return Explored(alone(told, wishes.settings.service), BASIS[""])
    job = exploring(wishes, SIZES, headers, seen)
    if job["backend"] == "cpu" and told is None:
        raise CannotTell(
            "this release knows no card, and a model_path has no header that was read here; build for cuda"
        )
    logger.info(
        f"paddock: {host.name}: asking llama.cpp at most {questions({**job, 'knows_n_cpu_ffn': True})} times, about a"
        " second each"
    )
    lines = remote.run(state, host, Script(PROGRAM, (json.dumps(job),), seconds=SECONDS, python=True))
    return Explored(json.loads(lines[-1]), BASIS[job["backend"]])


def with_header(wishes: Wishes, seen: Observation) -> Wishes:
    """The wishes with what the model's header tells, whether the model is on the host or not. Raises CannotPin and
    CannotRead."""
    if wishes.model is None:
        return wishes
    told = header.anatomy(wishes.model, wishes.settings.model, logger.info)
    return replace(wishes, model=replace(wishes.model, anatomy=told))


def alone(told: Anatomy, service: Service) -> list[dict[str, Any]]:
    """Without anybody to ask: the header's weights and cache, for a card without display."""
    row = bound.cache_row(told, service)

    def answer(split: dict[str, Any], changes: dict[str, str]) -> dict[str, Any]:
        weights = told.dense_bytes + sum(told.expert_bytes[split["n_cpu_moe"] or 0 :])
        return {"devices": {CARD: [weights >> 20, row * int(changes.get("-c", service.context)) >> 20, 0]}}

    moe = [layer for layer, size in enumerate(told.expert_bytes) if size]
    job = {
        "sizes": SIZES, "layers": told.layers, "moe_layers": moe, "n_cpu_moe": None, "gpu_layers": None if moe else 99,
        "reserve": 0, "margin": 0, "overhead": 0, "context": service.context, "trained": told.trained_context,
    }  # fmt: skip
    return explored(job, answer, CARD)


def table(host: str, service: Service, found: Explored) -> Table:
    """One card to a line."""
    told = Table(
        title=escape(f"{host}: the model on other cards, context {service.context}, KV {service.cache_type_k}"),
        caption=escape(found.basis), title_justify="left", caption_justify="left",
    )  # fmt: skip
    for name in ("Card, MiB", "Split", "Experts on it", "Takes, MiB", "Context at most"):
        told.add_column(name, justify="left" if name == "Split" else "right", overflow="fold")
    for row in found.rows:
        split = shown(row["split"]) if row["split"] else "does not fit"
        experts = "" if row["experts"] is None else f"{100 * row['experts']:.0f} %"
        takes = f"{row['takes']} of {row['room']}" if row["split"] else f"more than {row['room']}"
        told.add_row(str(row["size"]), split, experts, takes, str(row["context"]) if row["context"] else "none")
    return told
