"""The throwaway hosts that `make demo` boots on this machine; what is special about them is data, in tests/lab."""

from typing import Any as _Any

from tests.lab.host import hosts as _hosts
from tests.lab.inventory import entry as _entry
from tests.lab.models import GEMMA_FILE as _GEMMA_FILE

# A real small model, so that the answer is one. It has no experts, so there is no split of them to choose.
_GEMMA: dict[str, _Any] = {
    "model_repo": "paddock/gemma-270m",
    "model_file": _GEMMA_FILE,
    "n_cpu_moe": None,
    "gpu_layers": 99,
}

lab_hosts = [_entry(host, **_GEMMA) for host in _hosts().values()]

if not lab_hosts:
    raise SystemExit("paddock: no lab host is up; `make demo` boots one")
