"""The runner as a job for the host: its program, the text, and what it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roles import programs
from roles.benchmark.passage import packed
from roles.benchmark.passes_program import needed
from roles.gpu import smi
from roles.job import Job
from roles.service.command import BENCHMARK, UNIT

PARTS = ("server", "sampler", "watch", "flags", "passes", "bench", "runner")
MEMORY = 192 << 20  # bytes; it takes a quarter of that
SLOWEST = 20  # tokens a second of reading
SMOKE_SECONDS = 100  # of measuring; what does not fit is left out
# What llama-bench calls llama-server's options.
BENCH = {
    "-m": "-m", "-ub": "-ub", "-b": "-b", "-ctk": "-ctk", "-ctv": "-ctv", "-fa": "-fa", "-ngl": "-ngl", "-t": "-t",
    "--n-cpu-moe": "-ncmoe", "--load-mode": "-lm", "--rpc": "-rpc",
}  # fmt: skip
FIT_TARGET = "1024"  # MiB; llama-server's own default, and llama-bench's is not to fit


def program(text: str) -> str:
    """The parts as the one program that a host gets: without what they import of each other, with the packed text."""
    parts = (Path(__file__).with_name(f"{name}_program.py") for name in PARTS)
    whole = programs.joined(Path(smi.__file__), *parts)
    return whole.replace('TEXT = ""\n', f'TEXT = "{text}"\n')


def job(wire: Mapping[str, Any], memory: int) -> Job:
    """The unit. `wire`: what the program is told; `memory`: bytes that llama-bench may take, 0 without it."""
    text = packed(needed(wire["depths"], wire["repetitions"], wire["about"]["n_ubatch"]))
    back = f"systemctl --user start {UNIT}" if wire["bench"] else ""
    return Job(
        name=BENCHMARK.removeprefix("paddock-"),
        title="benchmark",
        text=f"exec python3 -ISB - \"$@\" <<'END_OF_PROGRAM'\n{program(text)}END_OF_PROGRAM",
        args=(json.dumps(wire),),
        seconds=limit(wire),
        memory=memory + MEMORY,
        after=back,
    )


def limit(wire: Mapping[str, Any]) -> int:
    """Seconds for a whole run; generous, as it is there to end what hangs."""
    if wire["seconds"]:
        return 1200 + int(wire["seconds"])
    passes = sum(600 + depth // SLOWEST for depth in wire["depths"]) * wire["repetitions"]
    return 1200 + int(passes + (wire["bench_seconds"] if wire["bench"] else 0))


def llama_bench(told: Mapping[str, str], folder: str, wire: Mapping[str, Any]) -> list[list[str]]:
    """llama-bench's command lines for what the service runs (`told`: its options) and the figures of the runner."""
    shared = [word for ours, its in BENCH.items() if ours in told for word in (its, told[ours])]
    if told.get("-fit") == "on":
        shared += ["-fitt", FIT_TARGET]
    each = [f"{folder}/bin/llama-bench", *shared, "-r", str(wire["repetitions"]), "-o", "jsonl"]
    depths: Sequence[int] = wire["depths"]
    deep = ",".join(str(depth) for depth in depths if depth)
    at_depth = ["-d", ",".join(map(str, depths)), "-p", str(wire["about"]["n_ubatch"]), "-n", str(wire["tokens"])]
    return [[*each, *words] for words in ((["-d", "0", "-p", deep, "-n", "0"] if deep else []), at_depth) if words]
