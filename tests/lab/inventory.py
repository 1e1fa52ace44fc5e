"""A lab host as an entry of a pyinfra inventory: how to reach it, and what makes llama.cpp at home there."""

from __future__ import annotations

from typing import Any

from tests.lab import models
from tests.lab.common import Lab
from tests.lab.host import LabHost

# A native build dies of an illegal instruction on virtual machines that advertise AMX, so the instruction set is
# named; without the stand-in GPU a split over two devices could not be shown; the container's cgroups cap nothing.
DATA: dict[str, Any] = {
    "llama_ref": "b1000",
    "web_ui": "off",
    "llama_cmake_args": ["GGML_NATIVE=OFF", "GGML_AVX2=ON", "GGML_FMA=ON", "GGML_F16C=ON", "GGML_BMI2=ON"],
    "backend": "rpc",
    "rpc_servers": ["127.0.0.1:50052"],
    "memory_cap_required": "warn",
    "model_repo": "paddock/tiny-moe",
    "model_file": models.TINY_MOE_FILE,
    "context": 4096,
    "n_cpu_moe": 2,
    "ubatch": 512,
    "cache_type_k": "q4_0",
    "cache_type_v": "q4_0",
    "flash_attention": "on",
    "cache_ram_mib": 256,
    "service_memory_max": "2G",
    "browser_policy": ["chrome", "chromium"],
    "benchmark_depths": [0, 1024],
    "benchmark_tokens": 16,  # two cores that are shared generate a few a second
    "benchmark_repetitions": 1,
}
# Over that, for a small real model: it has no experts.
GEMMA: dict[str, Any] = {
    "model_repo": "paddock/gemma-270m",
    "model_file": models.GEMMA_FILE,
    "n_cpu_moe": None,
    "gpu_layers": 99,
    "benchmark_depths": [0, 256, 1024],
}


def addresses(lab: Lab) -> dict[str, str]:
    """Where the lab serves llama.cpp's source and the models."""
    return {"llama_repo": f"git://{lab.gateway}/llama.cpp", "hub_endpoint": f"http://{lab.gateway}:8010"}


def entry(host: LabHost, user: str = "dev", /, **changes: Any) -> tuple[str, dict[str, Any]]:
    """Name and data of a host; a key in `changes` that is None is left out."""
    data = {
        **host.ssh_data(user),
        **DATA,
        **addresses(host.lab),
        **changes,
    }
    return host.name, {key: value for key, value in data.items() if value is not None}
