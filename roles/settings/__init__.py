"""What the inventory may say. The keys are flat, as pyinfra's data is.

`of` takes the data of one host and returns its `Settings`; `errors` tells all that is wrong with it.
"""

from roles.settings.check import errors, of, part_of
from roles.settings.model import HUB, SHARD, Model
from roles.settings.records import (
    ROLES,
    Benchmark,
    Browser,
    LlamaCpp,
    Service,
    Settings,
    cuda_refuses,
)
from roles.settings.values import seconds, size_in_bytes

__all__ = [
    "HUB",
    "ROLES",
    "SHARD",
    "Benchmark",
    "Browser",
    "LlamaCpp",
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
