"""Everything that tells what NVIDIA's driver and cards are doing: raw, as tools and files say it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from roles.observation import Fragment, Seen
from roles.on_host import entries, find_command, newest_kernel, read, run

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
    libraries = {}
    listed = run([find_command("ldconfig") or "ldconfig", "-p"])
    for soname in ("libcuda.so.1", "libnvidia-ml.so.1"):
        found = re.search(re.escape(soname) + r".*=> (\S+)", listed["out"]) if listed else None
        version = re.search(r"\.so\.(\d+\.\d[\d.]*)$", os.path.realpath(found.group(1))) if found else None
        libraries[soname] = version.group(1) if version else None
    kernels = sorted({os.uname().release, newest_kernel()})
    modules = {}
    for kernel in kernels if cards or any(libraries.values()) else []:
        told = run(["modinfo", "-k", kernel, "-F", "version", "nvidia"])
        modules[kernel] = told["out"].strip() if told and told["rc"] == 0 else None
    query = ["nvidia-smi", "--query-gpu=" + ",".join(ask["fields"]), "--format=csv,noheader,nounits"]
    table = run(query, 10)
    return {
        "cards": cards,
        "wsl": os.path.exists("/dev/dxg"),
        "nouveau": os.path.isdir("/sys/module/nouveau"),
        "loaded": (read("/sys/module/nvidia/version") or "").strip() or None,
        "proc_version": read("/proc/driver/nvidia/version"),
        "libraries": libraries,
        "modules": modules,
        "nodes": [name for name in ("nvidia0", "nvidiactl", "nvidia-uvm") if os.path.exists("/dev/" + name)],
        "table": table,
        "xml": run(["nvidia-smi", "-q", "-x"], 10) if table and table["rc"] == 0 else None,
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
    """`loaded`: version of the module that runs; `modules`: version on disk by kernel; `libraries`: by soname."""

    cards: tuple[Card, ...] = ()
    wsl: bool = False
    nouveau: bool = False
    loaded: str | None = None
    proc_version: str | None = None
    libraries: dict[str, str | None] = Field(default_factory=dict)
    modules: dict[str, str | None] = Field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    table: Tool | None = None
    xml: Tool | None = None


GPU = Fragment("gpu", look_at_gpu, lambda _: {"fields": FIELDS}, GpuSeen)
