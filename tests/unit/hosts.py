"""Hosts for tests, as their probe would answer: one that is bare, and one on which everything is as wanted.

An answer is a record of records, by fragment; a keyword changes fields of one of them, as in `bare(host={"cpus": 1})`.
"""

from __future__ import annotations

import json
from typing import Any

from roles import observation, settings
from roles.benchmark.decide import depths
from roles.host import AWAY, COMMANDS
from roles.llama_cpp.release import wanted_release
from roles.memory import wanted as memory
from roles.memory.observe import MEMORY
from roles.memory.plan import Plan
from roles.observation import Observation
from roles.overview import FRAGMENTS
from roles.overview.record import facts_of
from roles.service import sandbox, scope
from roles.wishes import ModelPin, PinnedFile, Wishes
from tests.unit import browsers, machines, measured, services

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL_PATH = "/models/Flint-abliterated-Mix-12G.gguf"
DATA: dict[str, Any] = {"llama_ref": COMMIT, "web_ui": "off", "model_path": MODEL_PATH}
HUB_DATA: dict[str, Any] = {"llama_ref": COMMIT, "web_ui": "off", "model_repo": "owner/name", "model_file": "some.gguf"}
FILE = PinnedFile("some.gguf", 12_000_000_000, "d" * 64, "https://hub.test/some.gguf")
PIN = ModelPin("owner/name", "c" * 40, "owner--name/cccccccccccc", (FILE,))

ABSENT: dict[str, Any] = {"file": None, "is_gguf": False}  # a model that is not on the host

Answers = dict[str, dict[str, Any]]


def wishes(data: dict[str, Any] | None = None, **changes: Any) -> Wishes:
    """What one host shall be; with `model_repo` among the keys the model is `PIN`."""
    wanted = settings.of({**(data or DATA), **changes})
    return Wishes(wanted, COMMIT, PIN if wanted.model.model_repo else None)


def bare_answers(**changes: dict[str, Any]) -> Answers:
    """A fresh Debian on 8 cores and 32 GiB, no GPU; its user may use sudo without a password."""
    answers: Answers = {
        "host": {
            "user": "dev",
            "uid": 1000,
            "home": "/home/dev",
            "machine": "x86_64",
            "os_id": "debian",
            "os_like": "",
            "os_name": "Debian GNU/Linux 13 (trixie)",
            "root": "free",
            "systemd": True,
            "user_manager": False,
            "lingers": False,
            "memory_capped": False,
            "system_capped": False,
            "data": "",
            "stranded": False,
            "memory_total": 32 << 30,
            "cpus": 8,
            "certificates": False,
            "commands": dict.fromkeys(COMMANDS),
        },
        "machine": machines.machine(),
        "gpu": machines.nvidia(),
        "llama_cpp": {
            "releases": {},
            "options": {},
            "shelf": {},
            "in_use": [],
            "compilers": {},
            "libc": "glibc 2.41",
            "cpu_flags": ["avx2", "fma"],
            "toolkits": {},
            "named_toolkit": None,
        },
        "model": {
            "path": MODEL_PATH,
            "file": {"kind": "file", "mode": 0o644, "uid": 1000, "size": 12_000_000_000, "mtime_ns": 1},
            "is_gguf": True,
            "architecture": "qwen3moe",
            "layers": 48,
            "experts": 128,
            "leading_dense": 0,
            "trained_context": 262144,
            "mla": False,
            "sidecar": None,
            "part_size": 0,
            "bad_size": 0,
            "rest": [],
            "missing": [],
            "stored": [],
            "named": [],
        },
        "memory": {"plans": {}},
        "browser": browsers.both(),
        "browser_models": {"profiles": [], "services": []},
        "service": services.absent(),
        "sandbox": {"modprobe": None, "uvm_at_boot": False, "trial": None},
        "benchmark": {"last": None},
        "record": {"facts": None},
    }
    return changed(answers, changes)


def changed(answers: Answers, changes: dict[str, dict[str, Any]]) -> Answers:
    """The answers with some fields changed; a name that no fragment has is a mistake of the test."""
    for fragment, fields in changes.items():
        assert fields.keys() <= answers[fragment].keys(), fields
    return {name: {**answer, **changes.get(name, {})} for name, answer in answers.items()}


def converged_answers(wanted: Wishes | None = None, **changes: dict[str, Any]) -> Answers:
    """The same host with everything that `wanted` asks for; `changes` come last, so they are what drifted since."""
    wanted = wanted or wishes()
    answers = bare_answers(
        host={
            "certificates": True,
            "commands": {name: f"/usr/bin/{name}" for name in COMMANDS},
            "user_manager": True,
            "lingers": True,
            "memory_capped": True,
            "system_capped": True,
            "data": AWAY if scope.of(wanted.settings.service) is scope.SYSTEM else "",
        },
        llama_cpp={"compilers": {"/usr/bin/g++": "14.2.0"}},
        browser=browsers.both(managed=True),
    )
    if wanted.model:
        file = {"kind": "file", "mode": 0o644, "uid": 1000, "size": PIN.size, "mtime_ns": 7}
        sidecar = {"sha256": PIN.sha256, "size": PIN.size, "mtime_ns": 7}
        answers["model"] |= {"file": file, "sidecar": sidecar}
    release = wanted_release(wanted, parsed(answers))
    answers["llama_cpp"]["releases"] = {release.key: release.stamp}
    answers["memory"] = {"plans": plans(wanted, answers)}
    groups, _ = sandbox.offered(wanted, parsed(answers))
    trial = {"digest": sandbox.digest(groups, release.key, parsed(answers)), "groups": list(groups)}
    answers["sandbox"] = {**answers["sandbox"], "trial": trial}
    if wanted.settings.service.api_key_file:
        answers["service"]["key_file"] = services.KEY
    answers["service"] = {**services.running(wanted, parsed(answers)), "key_file": answers["service"]["key_file"]}
    answers["benchmark"] = {"last": figures(wanted, answers["service"]["running_stamp"])}
    answers["record"] = {"facts": facts_of(wanted, parsed(answers)).model_dump()}
    return changed(answers, changes)


def plans(wanted: Wishes, answers: Answers, **fields: Any) -> dict[str, Any]:
    """The plan that was made for this: what llama.cpp said of a model with 48 layers, all that is on the devices."""
    return plans_on(wanted, parsed(answers), **fields)


def with_plan(wanted: Wishes, seen: Observation) -> Observation:
    """The host after the memory role: with a plan for what is wanted now."""
    made = {key: Plan(**told) for key, told in plans_on(wanted, seen).items()}
    return seen if made.keys() <= seen[MEMORY].plans.keys() else seen.replace(MEMORY, plans=made)


def plans_on(wanted: Wishes, seen: Observation, **fields: Any) -> dict[str, Any]:
    service = wanted.settings.service
    digest, kind = memory.digest(wanted, seen), memory.backend(wanted, seen)
    device = {"cuda": "CUDA0", "rpc": "RPC0"}.get(kind)
    free = {"device": device, "name": "some", "total": 6144, "reserve": 768, "margin": 256, "overhead": 320}
    told = {
        "digest": digest,
        "inputs": memory.inputs(wanted, seen),
        "backend": kind,
        "gpu_layers": 99 if service.gpu_layers == "auto" else service.gpu_layers,
        "n_cpu_moe": 44 if service.n_cpu_moe == "auto" else service.n_cpu_moe,
        "layers": 49,
        "offloaded": 49 if device else 0,
        "moe_layers": 48,
        "moe_layers_on_cpu": 44,
        "devices": [{"device": device, "model": 1594, "context": 1800, "compute": 1203}] if device else [],
        "host": {"device": "Host", "model": 6777, "context": 0, "compute": 512},
        "budgets": [{**free, "limit": None, "room": 4800}] if device else [],
    }
    return {digest: {**told, **fields}} if memory.planned_by_us(wanted, kind) else {}


def figures(wanted: Wishes, stamp: str) -> dict[str, Any]:
    """A result of the smoke run."""
    asked = depths(wanted.settings, "smoke")
    return measured.entry(
        kind="smoke",
        stamp=stamp,
        kernel=machines.KERNEL,
        depths=list(asked),
        tokens=wanted.settings.benchmark.benchmark_tokens,
        rows=[measured.row(depth, 600.0, 22.4) for depth in asked],
        resources={"peak_ram_bytes": 11_300_000_000},
    )


def parsed(answers: Answers) -> Observation:
    return observation.parse(json.dumps(answers), FRAGMENTS)


def bare(**changes: dict[str, Any]) -> Observation:
    return parsed(bare_answers(**changes))


def converged(wanted: Wishes | None = None, **changes: dict[str, Any]) -> Observation:
    return parsed(converged_answers(wanted, **changes))
