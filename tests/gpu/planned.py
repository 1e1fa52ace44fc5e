"""What llama.cpp plans for a device, against what its log and the device say: the runtime's own share becomes known.

Runs there. The last rows are of a model of which only the header is here: what a laptop's card would be asked for.

python3 -m tests.gpu.planned
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from roles.settings import Service
from tests.gpu.gate import differs
from tests.gpu.results import WORK, fail, record
from tests.gpu.server import DEVICE, MODEL, NotServed, buffers, device, fit_print, served, total
from tests.gpu.wanted import BACKEND, wishes

CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"n_cpu_moe": 0},
    {"n_cpu_moe": 12},
    {"cache_type_k": "q8_0", "cache_type_v": "q8_0"},
    {"cache_type_k": "f16", "cache_type_v": "f16"},
    {"context": 4096},
    {"context": 131072},
    {"ubatch": 2048},
)
# A 30B mixture with 122,880 tokens of context, as on a card of 6 GB.
LAPTOP = {"context": 122_880, "ubatch": 2048}
LAPTOP_SPLITS = (48, 44, 40, 0)
# Tokens: what a runtime allocates only when it computes is there afterwards.
PROMPT = 980 if BACKEND == "cuda" else 98


def told(wanted: Service) -> str:
    kinds = "/".join(dict.fromkeys((wanted.cache_type_k, wanted.cache_type_v)))
    return f"-c {wanted.context} -ub {wanted.ubatch} --n-cpu-moe {wanted.n_cpu_moe} KV {kinds}"


def compared(wanted: Service, plan: dict[str, dict[str, float]]) -> dict[str, Any]:
    """One row: planned, by the log, and as held when idle and after a prompt; MiB."""
    planned = total(plan, on_device=True)
    with served(wanted, "plan") as server:
        idle, by = server.held()
        body = {"prompt": list(range(4, 102)) * (PROMPT // 98), "n_predict": 4, "ignore_eos": True, "temperature": 0}
        server.ask("/completion", body)
        busy, _ = server.held()
        log = server.log
    text = log.read_text("utf-8", "replace")
    logged = total(buffers(text), on_device=True)
    if problem := differs(planned, logged):
        fail(f"{told(wanted)}: {problem}")
    return {
        "options": told(wanted),
        "planned": planned,
        "logged": logged,
        "idle": idle,
        "busy": busy,
        "beside_the_plan": round(busy - sum(planned)),
        "by": by,
        "unaccounted": unaccounted(text),
        "host_planned": total(plan, on_device=False),
        "host_logged": total(buffers(text), on_device=False),
    }


def unaccounted(log: str) -> list[int]:
    """llama.cpp's own last word on each device, MiB: what is taken there beside its buffers, whoever took it."""
    rows = [line.rpartition("+")[2] for line in log.splitlines() if re.search(rf"\|   - {DEVICE.pattern} ", line)]
    return [int(found[0]) for found in (re.findall(r"-?\d+", row) for row in rows) if found]


def laptop(folder: Path) -> list[dict[str, Any]]:
    """What a bigger model would take, from its header: a file of its size that holds nothing else."""
    size = json.loads((Path(os.environ["PADDOCK_GPU_PACK"]) / "pack.json").read_text("utf-8"))["twin_bytes"]
    twin = folder / "twin.gguf"
    os.truncate(twin, size)
    base = wishes().settings.service.model_copy(update=LAPTOP)
    found = []
    for split in LAPTOP_SPLITS:
        wanted = base.model_copy(update={"n_cpu_moe": split})
        plan = fit_print(twin, wanted)
        found.append({"options": told(wanted), "planned": total(plan, True), "host_planned": total(plan, False)})
    return found


def main() -> None:
    base = wishes().settings.service
    try:
        settings = [base.model_copy(update=changes) for changes in CHANGES]
        with device():
            plans = [fit_print(MODEL, wanted) for wanted in settings]
            twin = laptop(WORK)
        rows = [compared(wanted, plan) for wanted, plan in zip(settings, plans, strict=True)]
    except NotServed as error:
        fail(str(error))
    except (OSError, ValueError, KeyError) as error:
        fail(f"the plan could not be compared: {error!r}")
    beside = [row["beside_the_plan"] for row in rows]
    record("plan", rows=rows, beside_the_plan_mib=[min(beside), max(beside)], laptop=twin)
    print(f"{min(beside)} to {max(beside)} MiB beside the plan, by {rows[0]['by']}; model, KV, compute in MiB:")
    for row in rows:
        held = f"held {row['idle']}, {row['busy']} after a prompt"
        print(f"  {row['options']}: planned {row['planned']}, logged {row['logged']}, {held}")
    for row in twin:
        print(f"  header only, {row['options']}: planned {row['planned']}, host {row['host_planned']}")


if __name__ == "__main__":
    main()
