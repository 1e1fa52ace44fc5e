"""Hosts for tests, as their probe would answer: one that is bare, and one on which everything is as wanted.

An answer is a record of records, by fragment; a keyword changes fields of one of them, as in `bare(host={"cpus": 1})`.
"""

from __future__ import annotations

import json
from typing import Any

from roles import observation, settings
from roles.benchmark.decide import depths
from roles.browser.decide import text as policy_text
from roles.browser.table import CHROME, CHROMIUM, FOLDERS
from roles.browser.table import FILE as POLICY_FILE
from roles.host import AWAY, COMMANDS, HOST
from roles.llama_cpp.release import wanted_release
from roles.machine import CACHE, MODELS
from roles.machine import DATA as DATA_FOLDER
from roles.memory import wanted as memory
from roles.memory.observe import MEMORY
from roles.memory.plan import Plan
from roles.observation import Observation
from roles.overview import FRAGMENTS
from roles.overview.record import facts_of
from roles.service import sandbox, scope
from roles.service.decide import guard
from roles.service.directives import held
from roles.service.unit import wanted_unit
from roles.wishes import ModelPin, PinnedFile, Wishes
from tests.unit import measured

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL_PATH = "/models/Flint-abliterated-Mix-12G.gguf"
DATA: dict[str, Any] = {"llama_ref": COMMIT, "web_ui": "off", "model_path": MODEL_PATH}
HUB_DATA: dict[str, Any] = {"llama_ref": COMMIT, "web_ui": "off", "model_repo": "owner/name", "model_file": "some.gguf"}
FILE = PinnedFile("some.gguf", 12_000_000_000, "d" * 64, "https://hub.test/some.gguf")
PIN = ModelPin("owner/name", "c" * 40, "owner--name/cccccccccccc", (FILE,))
ROOM = 500 << 30  # bytes free on a disk that is no worry
KERNEL = "6.12.48-amd64"

ABSENT: dict[str, Any] = {"file": None, "is_gguf": False}  # a model that is not on the host

KEY: dict[str, Any] = {"kind": "file", "mode": 0o600, "uid": 1000, "size": 20, "mtime_ns": 5, "keys": 1}

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
        "machine": machine(),
        "gpu": nvidia(),
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
        "browser": browsers(),
        "browser_models": {"profiles": [], "services": []},
        "service": {
            "unit": None,
            "guard": None,
            "switch": None,
            "watchdog": None,
            "masked": False,
            "properties": {"ActiveState": "inactive", "MainPID": "0", "NeedDaemonReload": "no"},
            "running_stamp": None,
            "outgrew": None,
            "last_good": None,
            "rejected": {},
            "proved": None,
            "key_file": None,
            "first_port": 1024,
            "port_taken": False,
            "port_holder": None,
            "port_owner": None,
            "system_config": False,
            "elsewhere": False,
            "measuring": False,
        },
        "sandbox": {"modprobe": None, "uvm_at_boot": False, "trial": None},
        "benchmark": {"last": None},
        "record": {"facts": None},
    }
    return changed(answers, changes)


def machine(cache: dict[str, Any] | None = None, models: dict[str, Any] | None = None, **place: Any) -> dict[str, Any]:
    """A plain PC; `place` changes the disk that Paddock writes to, `cache` and `models` those parts of it."""
    disk = {
        "free": ROOM,
        "inodes_free": 1 << 24,
        "type": "ext4",
        "noexec": False,
        "read_only": False,
        "writable": True,
        "device": 1,
        **place,
    }
    return {
        "kernel": KERNEL,
        "kernel_newest": KERNEL,
        "cpu": "AMD Ryzen 5 7535HS",
        "cores": 6,
        "swap": 0,
        "zram": 0,
        "systemd_version": 257,
        "oomd": False,
        "secure_boot": None,
        "selinux": None,
        "user_namespaces": True,
        "battery": False,
        "places": {DATA_FOLDER: disk, CACHE: {**disk, **(cache or {})}, MODELS: {**disk, **(models or {})}},
    }


def nvidia(*cards: tuple[str, str], driver: str = "580.119.02", used: int = 750) -> dict[str, Any]:
    """What a healthy driver tells of cards by name and compute capability; without any there is no driver."""
    rows = [
        f"{at}, GPU-{at:08}, {capability}, {driver}, 6144, {used}, 4, 4, 8, 8, [N/A], Enabled, {name}"
        for at, (name, capability) in enumerate(cards)
    ]
    version = driver if cards else None
    return {
        "cards": [{"address": f"0000:0{at}:00.0", "power": "active"} for at in range(len(cards))],
        "loaded": version,
        "libraries": {"libcuda.so.1": version, "libnvidia-ml.so.1": version},
        "kernel": KERNEL,
        "kernel_newest": KERNEL,
        "modules": {KERNEL: version} if cards else {},
        "nodes": ["nvidia0", "nvidiactl", "nvidia-uvm"] if cards else [],
        "table": {"rc": 0, "out": "".join(row + "\n" for row in rows), "err": ""} if cards else None,
        "xml": None,
    }


POLICY = policy_text(settings.of(DATA).browser)
BOTH = ({"id": "Google Chrome (native)", "packaging": "deb"}, {"id": "Chromium (native)", "packaging": "deb"})


def browsers(installed: bool = True, managed: bool = False) -> dict[str, Any]:
    """Chrome and Chromium, as their packages leave them or with Paddock's policy."""
    return browser_answer(BOTH if installed else (), (CHROME, CHROMIUM) if managed else ())


def browser_answer(
    installs: Any = BOTH, managed: Any = (), mode: int = 0o755, files: dict[str, list[dict[str, Any]]] | None = None
) -> dict[str, Any]:
    """What the probe says of these browsers. `managed`: folders with our file; `files`: further ones, by folder."""
    seen: dict[str, Any] = {}
    for folder in FOLDERS:
        there = [policy_file()] if folder in managed else []
        there += (files or {}).get(folder, [])
        names = [folder, folder.rpartition("/")[0], folder.rpartition("/")[0].rpartition("/")[0]]
        seen[folder] = {
            "modes": dict.fromkeys(names, mode if there else None),
            "files": sorted(there, key=lambda file: file["name"].encode()),
            "more": False,
        }
    return {"installs": list(installs), "folders": seen}


def policy_file(text: str | None = POLICY, name: str = POLICY_FILE, **fields: Any) -> dict[str, Any]:
    """A file in such a folder; without a name it is ours."""
    return {"name": name, "text": text, "whole": True, "mode": 0o644, "uid": 0, **fields}


def profile(**fields: Any) -> dict[str, Any]:
    """Chrome's directory in dev's home, with a model of 2.7 GB in it."""
    return {
        "path": "/home/dev/.config/google-chrome",
        "id": "Google Chrome (native)",
        "version": "139.0.7258.154",
        "running": False,
        "models": {"OptGuideOnDeviceModel": 2_700_000_000},
        **fields,
    }


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
        browser=browsers(managed=True),
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
        answers["service"]["key_file"] = KEY
    answers["service"] = {**running_service(wanted, answers), "key_file": answers["service"]["key_file"]}
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


def running_service(wanted: Wishes, answers: Answers) -> dict[str, Any]:
    """systemd's answers about the wanted unit, up since long ago."""
    unit = wanted_unit(wanted, parsed(answers))
    return {
        "unit": unit.text,
        "guard": guard(parsed(answers)[HOST], scope.of(wanted.settings.service)).model_dump(),
        "masked": False,
        "properties": {
            "ActiveState": "active",
            "UnitFileState": "enabled" if unit.autostart else "disabled",
            "MainPID": "4711",
            "NeedDaemonReload": "no",
            **held(unit.text),
        },
        "running_stamp": unit.stamp,
        "outgrew": None,
        "last_good": None,
        "rejected": {},
        "proved": unit.stamp,
        "switch": None,
        "watchdog": None,
        "key_file": None,
        "first_port": 1024,
        "port_taken": True,
        "port_holder": {"pid": 4711, "name": "llama-server"},
        "port_owner": "dev",
        "system_config": False,
        "elsewhere": False,
        "measuring": False,
    }


def figures(wanted: Wishes, stamp: str) -> dict[str, Any]:
    """A result of the smoke run."""
    asked = depths(wanted.settings, "smoke")
    return measured.entry(
        kind="smoke",
        stamp=stamp,
        kernel=KERNEL,
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
