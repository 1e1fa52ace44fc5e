"""What the inventory may say. The keys are flat, as pyinfra's data is.

`of` takes the data of one host and returns its `Settings`; `errors` tells all that is wrong with it.
"""

from roles.settings.benchmark import Benchmark
from roles.settings.browser import Browser
from roles.settings.check import errors, of, part_of
from roles.settings.llama_cpp import LlamaCpp
from roles.settings.memory import Memory
from roles.settings.model import HUB, SHARD, Model
from roles.settings.records import ROLES, Settings
from roles.settings.service import Service, cuda_refuses
from roles.settings.values import seconds, size_in_bytes

__all__ = [
    "HUB",
    "ROLES",
    "SHARD",
    "Benchmark",
    "Browser",
    "LlamaCpp",
    "Memory",
    "Model",
    "Service",
    "Settings",
    "cuda_refuses",
    "errors",
    "of",
    "part_of",
    "seconds",
    "size_in_bytes",
]
