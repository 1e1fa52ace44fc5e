"""One line of a host's history of benchmarks: what was measured, of what, under which circumstances.

Names are llama-bench's where it has them (tools/llama-bench, `-o jsonl`), the inventory's for settings. Times are
seconds, speeds tokens per second. The runner on the host writes such a line, and no line is ever changed.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from roles.observation import Seen

SCHEMA = 2
Kind = Literal["smoke", "full", "ab"]
# What was measured is a number that can be drawn; a line with any other is passed over.
Number = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class Figure(Seen):
    """A speed, measured once or more. `samples_ts` by the server's own timings, `wall_ts` the same passes by the
    client's clock (None where it saw no such thing); `n_prompt` tokens were read or `n_gen` generated, with `n_depth`
    tokens in the context before."""

    n_prompt: int = 0
    n_gen: int = 0
    n_depth: int = 0
    samples_ts: tuple[Number, ...] = Field(min_length=1)
    wall_ts: tuple[float | None, ...] = ()
    avg_ts: float
    stddev_ts: float

    @property
    def median(self) -> float:
        return statistics.median(self.samples_ts)


class Turn(Seen):
    """A later turn of a conversation: `n_prompt` new tokens after the `n_depth` and the reply that the prompt cache
    holds, and the seconds until the answer's first token by the client's clock. `cache_n`: what came from the cache."""

    n_prompt: int
    n_depth: int
    seconds: tuple[Number, ...] = Field(min_length=1)
    cache_n: tuple[int, ...] = ()

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


class Row(Seen):
    """All figures at one depth. `pp`: reading the first `n_depth` tokens, cold (None on an empty context); `pp_at`:
    reading more when they are there; `tg`: generating then; `turn`: the next turn. None: not measured."""

    n_depth: int
    pp: Figure | None = None
    pp_at: Figure | None = None
    tg: Figure
    turn: Turn | None = None


class Phase(Seen):
    """What the runner did from this second on: `pp`, `tg`, `turn`, `pp_at`, `llama-bench`; `n_depth` tokens deep."""

    second: float
    what: str
    n_depth: int


class Resources(Seen):
    """What it took, sampled twice a second. A peak is that of the whole run; what the host does not tell is None.

    `ram`: the process's resident set, with the model's pages that are mapped; `current`, `anon`, `file`, `swap`: as the
    unit's cgroup counts them (the process's own where no memory controller does). `refaults`: pages that were read from
    the disk again because the memory was too small; `io_stalled`: seconds in which all of the unit waited for the disk;
    `host_swap_bytes`: what the whole machine swapped meanwhile, in and out.

    `series`: at most 240 values each, beside `seconds` since the start of the run: vram_mib, vram_others_mib (all of
    the cards that is not the server's), ram_mib, current_mib, anon_mib, file_mib, swap_mib, gpu_clock_mhz, cpu_mhz,
    gpu_temperature_c, gpu_power_w, pcie_gen, pcie_width, io_pressure (per cent) and refaults; those that nothing told
    are not there.
    """

    peak_vram_mib: int | None = None
    peak_vram_others_mib: int | None = None
    peak_ram_bytes: int = 0
    peak_current_bytes: int | None = None
    peak_anon_bytes: int | None = None
    peak_file_bytes: int | None = None
    peak_swap_bytes: int | None = None
    memory_max_bytes: int | None = None
    refaults: int | None = None
    io_stalled: float | None = None
    host_swap_bytes: int | None = None
    samples: int = 0
    seconds: tuple[Number, ...] = ()
    series: dict[str, tuple[Number | None, ...]] = Field(default_factory=dict)
    phases: tuple[Phase, ...] = ()


class Flag(Seen):
    """Why figures of this run may not be trusted: a name for programs, a sentence for people."""

    flag: str
    why: str


class Card(Seen):
    """A GPU. Memory in MiB; the PCIe link at most, what it was under load is among the series."""

    name: str
    uuid: str = ""
    memory_total: int | None = None
    pcie_gen_max: int | None = None
    pcie_width_max: int | None = None


class Result(Seen):
    """One run. `run` is its own name; `stamp` that of the process measured; `depths` what was asked for, and
    `left_out` why some of it has no row. `settings`: what of the inventory may matter to a figure, by its keys, and
    `settings_digest` theirs; `plan`: what was planned of each device's memory (roles/memory/plan.py). `llama_bench`:
    that program's own lines, where they were asked for. `runner`: what the measuring itself took."""

    kind: Kind
    run: str
    test_time: str
    duration: float = 0.0
    config: str
    stamp: str
    release: str
    build_commit: str = ""
    build_number: int = 0
    model_filename: str = ""
    model_type: str = ""
    model_size: int = 0
    model_n_params: int = 0
    model_sha256: str = ""
    driver: str | None = None
    kernel: str = ""
    cpu_info: str = ""
    gpu_info: str = ""
    backends: str = ""
    ram_bytes: int = 0
    cards: tuple[Card, ...] = ()
    n_ctx: int = 0
    n_batch: int = 0
    n_ubatch: int = 0
    n_threads: int | None = None
    type_k: str = ""
    type_v: str = ""
    n_gpu_layers: int | None = None
    n_cpu_moe: int | None = None
    flash_attn: str = ""
    load_mode: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    settings_digest: str = ""
    plan: dict[str, Any] | None = None
    depths: tuple[int, ...]
    tokens: int
    repetitions: int = 1
    rows: tuple[Row, ...]
    llama_bench: tuple[dict[str, Any], ...] = ()
    resources: Resources = Resources()
    flags: tuple[Flag, ...] = ()
    left_out: tuple[str, ...] = ()
    interrupted: int = 0
    runner: dict[str, float] = Field(default_factory=dict)


def parsed(line: str) -> Result | None:
    """A line of the history; None where it is torn, of another version, or nobody's. Version 1 is passed over: its
    lines held no samples, and compare with nothing."""
    try:
        entry = json.loads(line)
        return Result.model_validate(entry) if isinstance(entry, dict) and entry.get("schema") == SCHEMA else None
    except (ValueError, ValidationError):
        return None


def taken_back(lines: Iterable[str]) -> frozenset[str]:
    """The stamps of services that gave way to the former one: a line of its own, which is no result."""
    found = set()
    for line in lines:
        try:
            entry = json.loads(line) if '"taken back"' in line else None
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("kind") == "taken back":
            found.add(str(entry.get("stamp")))
    return frozenset(found)


def history(lines: Iterable[str]) -> tuple[Result, ...]:
    """All results that can be read, the oldest first, and each run once: a host whose file became shorter tells some of
    them again."""
    return tuple({result.run: result for line in lines if (result := parsed(line))}.values())
