"""What the host has to build llama.cpp with and for, and the releases that stand there."""

from __future__ import annotations

from typing import Any

from roles.observation import Fragment, Seen
from roles.on_host import entries, find_command, read, run


def look_at_llama_cpp(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import json
    import os
    import re

    folder = os.path.expanduser("~/.local/share/paddock/releases")
    releases = {}
    for name in entries(folder):
        try:
            stamp = json.loads(read(os.path.join(folder, name, "stamp.json")) or "null")
        except ValueError:
            continue
        if isinstance(stamp, dict) and not name.startswith("."):
            releases[name] = stamp
    compiler = run(["g++", "-dumpversion"])
    libc = run(["getconf", "GNU_LIBC_VERSION"])
    # In no PATH of a service: Arch's and NVIDIA's own folders. Order of preference is by version, not by place.
    toolkits = {}
    local = ["/usr/local/" + name for name in entries("/usr/local") if name.startswith("cuda")]
    onpath = find_command("nvcc")
    for root in [*local, "/opt/cuda", "/usr", os.path.dirname(os.path.dirname(onpath or "/usr/bin/nvcc"))]:
        nvcc = os.path.realpath(os.path.join(root, "bin", "nvcc"))
        told = run([nvcc, "--version"]) if os.access(nvcc, os.X_OK) and ask["cuda"] else None
        version = re.search(r"release (\d+\.\d+)", told["out"]) if told else None
        if version:
            toolkits[nvcc] = version.group(1)
    fields = "name,compute_cap,memory.total,memory.used,driver_version"
    smi = run(["nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader,nounits"], 10) if ask["cuda"] else None
    flags = re.search(r"^flags\s*:\s*(.*)$", read("/proc/cpuinfo", 1 << 16) or "", re.M)
    return {
        "releases": releases,
        "compiler": (compiler or {}).get("out", "").strip(),
        "libc": (libc or {}).get("out", "").strip(),
        "cpu_flags": sorted((flags.group(1) if flags else "").split()),
        "toolkits": toolkits,
        "nvidia_smi": smi,
        "nvidia_device": os.path.exists("/dev/nvidia0"),
    }


class Gpu(Seen):
    """One NVIDIA GPU; memory in MiB."""

    name: str
    compute_cap: str
    memory_total: int
    memory_used: int
    driver: str


class Tool(Seen):
    """What a tool answered; `rc` is None where it hung."""

    rc: int | None
    out: str = ""
    err: str = ""


class LlamaCppSeen(Seen):
    """`releases`: their stamps by key. `toolkits`: CUDA version by nvcc. An empty `compiler` is none."""

    releases: dict[str, dict[str, Any]]
    compiler: str
    libc: str
    cpu_flags: tuple[str, ...]
    toolkits: dict[str, str]
    nvidia_smi: Tool | None
    nvidia_device: bool

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """What nvidia-smi listed; nothing where it failed. A name may hold commas, so the row is read from its end."""
        if self.nvidia_smi is None or self.nvidia_smi.rc != 0:
            return ()
        found = []
        for line in self.nvidia_smi.out.splitlines():
            fields = [field.strip() for field in line.rsplit(",", 4)]
            if len(fields) == 5 and fields[2].isdigit():
                used = int(fields[3]) if fields[3].isdigit() else 0
                found.append(
                    Gpu(
                        name=fields[0],
                        compute_cap=fields[1],
                        memory_total=int(fields[2]),
                        memory_used=used,
                        driver=fields[4],
                    )
                )
        return tuple(found)


LLAMA_CPP = Fragment(
    "llama_cpp", look_at_llama_cpp, lambda wishes: {"cuda": wishes.settings.llama_cpp.backend in ("auto", "cuda")},
    LlamaCppSeen,
)  # fmt: skip
