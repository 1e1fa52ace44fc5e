"""Everything that tells what NVIDIA's driver and cards are doing: raw, as tools and files say it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from roles.gpu.libraries import library_versions
from roles.gpu.smi import nvidia_smi
from roles.observation import Fragment, Seen
from roles.probe_tools import entries, find_command, newest_kernel, read, run

# The name comes last: it may hold commas.
FIELDS = (
    "index", "uuid", "compute_cap", "driver_version", "memory.total", "memory.used", "pcie.link.gen.max",
    "pcie.link.gen.current", "pcie.link.width.max", "pcie.link.width.current", "mig.mode.current", "display_active",
    "name",
)  # fmt: skip


def look_at_gpu(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import os
    import re

    cards = []
    for name in entries("/sys/bus/pci/devices"):
        base = "/sys/bus/pci/devices/" + name + "/"
        if (read(base + "vendor") or "").strip() == "0x10de" and (read(base + "class") or "").startswith("0x03"):
            # Before nvidia-smi: that wakes the card.
            cards.append({"address": name, "power": (read(base + "power/runtime_status") or "").strip()})
    libraries = library_versions()
    kernels = {"kernel": os.uname().release, "kernel_newest": newest_kernel()}
    modules = {}
    for kernel in sorted(set(kernels.values())) if cards or any(libraries.values()) else []:
        # Debian calls it nvidia-current. The exit code tells only that one of the names is unknown.
        told = run([find_command("modinfo") or "modinfo", "-k", kernel, "-F", "version", "nvidia", "nvidia-current"])
        if told and told["rc"] is not None and os.path.exists("/lib/modules/" + kernel + "/modules.dep"):
            modules[kernel] = (told["out"].split() or [None])[0]
    smi = nvidia_smi()
    table = run([smi, "--query-gpu=" + ",".join(ask["fields"]), "--format=csv,noheader,nounits"], ask["seconds"])
    # 14: a corrupt infoROM, of which it warns beside a table that is whole.
    xml = run([smi, "-q", "-x"], ask["seconds"]) if table and table["rc"] in (0, 14) else None
    if xml:
        xml["out"] = re.sub(r"<supported_clocks>.*?</supported_clocks>", "", xml["out"], flags=re.S)  # nine tenths
    return {
        "cards": cards,
        "wsl": os.path.exists("/dev/dxg"),
        "nouveau": os.path.isdir("/sys/module/nouveau"),
        "loaded": (read("/sys/module/nvidia/version") or "").strip() or None,
        "proc_version": read("/proc/driver/nvidia/version"),
        "libraries": libraries,
        **kernels,
        "modules": modules,
        "nodes": [name for name in ("nvidia0", "nvidiactl", "nvidia-uvm") if os.path.exists("/dev/" + name)],
        "table": table,
        "xml": xml,
    }


class Card(Seen):
    """An NVIDIA display device on the PCI bus. `power`: its runtime state before anything woke it."""

    address: str
    power: str


class Tool(Seen):
    """What a tool answered; `rc` is None where it hung."""

    rc: int | None
    out: str = ""
    err: str = ""


class GpuSeen(Seen):
    """`loaded`: version of the module that runs; `modules`: version on disk by kernel, where that can be told;

    `libraries`: by soname; `nodes`: those of /dev/nvidia* that CUDA needs and that are there.
    """

    cards: tuple[Card, ...] = ()
    wsl: bool = False
    nouveau: bool = False
    loaded: str | None = None
    proc_version: str | None = None
    libraries: dict[str, str | None] = Field(default_factory=dict)
    kernel: str | None = None
    kernel_newest: str | None = None
    modules: dict[str, str | None] = Field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    table: Tool | None = None
    xml: Tool | None = None


SECONDS = 10  # a card that is lost makes nvidia-smi hang

# Not "no GPU": that would quietly be the CPU.
UNKNOWN = GpuSeen(table=Tool(rc=1, out="the probe could not look"))

GPU = Fragment(
    "gpu",
    look_at_gpu,
    lambda _: {"fields": FIELDS, "seconds": SECONDS},
    GpuSeen,
    UNKNOWN,
    (nvidia_smi, library_versions),
)
