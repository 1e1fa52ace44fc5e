"""What to try next, from the newest figures of a host: sentences with the key to set. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from roles.benchmark.comparison import Comparison
from roles.benchmark.decide import SMOKE_DEPTHS
from roles.benchmark.record import Result

BIG_CONTEXT = 32 << 10  # tokens; from here on the KV cache is what weighs most
BIG_BATCH = 2048  # tokens; the article's -ub
ROOM = 512  # MiB of VRAM that are worth a try
FLAGGED = {
    "battery": "plug the machine in and measure again: `pyinfra -y INVENTORY roles.benchmark.full`",
    "clock_drop": "the clocks fell: look for dust, a power limit or a quiet fan profile, then measure again",
    "throttled": "the GPU was slowed down: look for heat and power limits, then measure again",
    "swap": "memory went to swap: lower `cache_ram_mib` or `context`, or give the service less of the RAM",
    "refaults": "the RAM is too small for the model's pages: raise `service_memory_max` or take a smaller quant",
    "other_gpu_process": "close what else uses the GPU (`browser_policy` keeps local AI models of browsers away)",
    "other_cpu_work": "other programs kept processors busy: let them end and measure again",
    "wide_spread": "the samples are far apart: leave the machine alone and measure again",
    "cpu_quota": "a drop-in limits the service's processor time; take `CPUQuota` away unless you want it",
}


def advice(newest: Result, found: Comparison | None) -> list[str]:
    """The most urgent first; nothing where nothing comes to mind."""
    flags = dict.fromkeys(flag.flag for flag in newest.flags)
    told = [FLAGGED[flag] for flag in flags if flag in FLAGGED]
    return [*told, *_slower(found), *_link(newest), *_split(newest), *_settings(newest), *_deeper(newest, found)]


def _slower(found: Comparison | None) -> Iterator[str]:
    if found is None or found.kind != "worse":
        return
    changed = {each.what for each in found.inputs}
    before, now = found.before[-1], found.now[-1]
    if "release" in changed and before.build_commit == now.build_commit != "":
        yield "build llama.cpp as before: the same commit was built with other options or another compiler"
    elif "release" in changed:
        build = f" (it was {before.build_commit or before.release})"
        yield f'pin the release of before with `llama_ref`{build}, or set `benchmark_on_regression = "rollback"`'
    elif "driver" in changed:
        yield f"go back to driver {before.driver or 'none'} with your package manager; Paddock never installs drivers"
    elif "settings" in changed:
        names = ", ".join(each.name for each in found.inputs if each.what == "settings")
        yield f"take back what the inventory changed: {names}"
    if changed:
        yield "make sure of it: `benchmark_ab = True` measures old and new in alternation"


def _link(newest: Result) -> Iterator[str]:
    """Of one card, as the series do not tell several apart."""
    widths = [width for width in newest.resources.series.get("pcie_width", ()) if width]
    most = newest.cards[0].pcie_width_max if len(newest.cards) == 1 else None
    if widths and most and max(widths) < most:
        yield (
            f"{newest.cards[0].name} ran on {max(widths):.0f} of its {most} PCIe lanes, and pp of experts on the CPU is"
            " bound by them: look at the slot, the riser and the firmware's settings"
        )


def _split(newest: Result) -> Iterator[str]:
    """One layer's experts more on the GPU, where there is room by the figures of the run itself."""
    took, cards = newest.resources, newest.cards
    if not newest.n_cpu_moe or took.peak_vram_mib is None or len(cards) != 1 or not cards[0].memory_total:
        return
    free = cards[0].memory_total - took.peak_vram_mib - (took.peak_vram_others_mib or 0)
    if free > ROOM:
        yield (
            f"{free} MiB of VRAM stayed free at the peak: `n_cpu_moe = {newest.n_cpu_moe - 1}` puts one more layer of"
            " experts on the GPU (the article gained little from it), or `vram_margin_mib` can be smaller"
        )


def _settings(newest: Result) -> Iterator[str]:
    """The article's four keys, where they are not used."""
    if newest.n_cpu_moe and newest.n_ubatch < BIG_BATCH:
        yield f"`ubatch = {BIG_BATCH}` reads prompts faster where experts are on the CPU; it takes more VRAM"
    if newest.n_ctx >= BIG_CONTEXT and newest.type_k in ("f16", "bf16", "f32"):
        yield "`cache_type_k` and `cache_type_v` of `q8_0` or `q4_0` halve or quarter the KV cache"


def _deeper(newest: Result, found: Comparison | None) -> Iterator[str]:
    """Where a smoke run's own depths were measured, and no full run of the same thing is among those that count."""
    if newest.depths == SMOKE_DEPTHS and not any(each.kind == "full" for each in (found.now if found else ())):
        yield "measure at greater depths too: `pyinfra -y INVENTORY roles.benchmark.full`"
