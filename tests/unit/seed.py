"""The machine, the settings and the final command of the article that Paddock was made for."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from roles.wishes import Wishes
from tests.unit import hosts, machines
from tests.unit.hosts import COMMIT, MODEL_PATH, Answers

COMMAND = (Path(__file__).parent / "seed_command.txt").read_text("utf-8").replace("\\\n", " ")

SETTINGS: dict[str, Any] = {
    "llama_ref": COMMIT,
    "web_ui": "off",
    "model_path": MODEL_PATH,
    "context": 122880,
    "n_cpu_moe": 44,
    "ubatch": 2048,
    "cache_ram_mib": 2048,
    "context_shift": False,
    "cache_type_k": "q4_0",
    "cache_type_v": "q4_0",
    "gpu_layers": 99,
    "flash_attention": "on",
    "jinja": True,
    "threads": 6,
    "fit": "off",
    "temperature": 1.0,
    "top_p": 0.95,
    "top_k": 20,
    "min_p": 0.0,
    "host": "127.0.0.1",
    "port": 8091,
    "service_memory_max": "24G",
}

RTX_3050 = ("NVIDIA GeForce RTX 3050 6GB Laptop GPU", "8.6")


def wishes(**changes: Any) -> Wishes:
    return hosts.wishes(SETTINGS, **changes)


def laptop_answers(**changes: dict[str, Any]) -> Answers:
    """The laptop before its first run, with a driver that answers, a compiler and Arch's CUDA."""
    arch = {"os_id": "cachyos", "os_like": "arch", "os_name": "CachyOS", "cpus": 12}
    cuda = {"toolkits": {"/opt/cuda/bin/nvcc": {"version": "13.2"}}, "compilers": {"/usr/bin/g++": "15.2.1"}}
    return hosts.changed(hosts.bare_answers(host=arch, llama_cpp=cuda, gpu=machines.nvidia(RTX_3050)), changes)


def pairs(words: list[str]) -> set[tuple[str, str]]:
    """A command line as options and values; a flag has the value "", a number is written one way."""
    found = set()
    for word, following in zip(words, [*words[1:], "-"], strict=True):
        if word.startswith("-"):
            found.add((word, "" if following.startswith("-") else as_number(following)))
    return found


def as_number(text: str) -> str:
    try:
        return f"{float(text):g}"
    except ValueError:
        return text.rpartition("/")[2]


def command() -> set[tuple[str, str]]:
    return pairs(shlex.split(COMMAND)[1:])
