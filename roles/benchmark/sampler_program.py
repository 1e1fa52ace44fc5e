"""Runs on the host: what llama-server takes while it is measured, sampled twice a second in a thread.

One `nvidia-smi` runs as long as this does, per question, and is read line by line: one for each sample would cost more
than all the rest. It dies with this program, of the broken pipe.
"""

from __future__ import annotations

import glob
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from roles.gpu.smi import nvidia_smi

PACE = 0.45  # seconds between two samples, which take some time themselves: two a second at least
POINTS = 240  # of a series; twice as many are merged in pairs
CARD = ("clocks.sm", "temperature.gpu", "power.draw", "pcie.link.gen.current", "pcie.link.width.current", "memory.used")
# Its old name, which newer drivers know too: clocks_event_reasons.active.
REASONS = "clocks_throttle_reasons.active"
PROCESS = ("gpu_uuid", "pid", "used_memory", "name")  # the name last: it may hold commas
RPC_SERVERS = ("ggml-rpc-server", "rpc-server")  # the latter in older releases


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def pairs(text: str) -> dict[str, int]:
    """Lines of a name and a number, as /proc and cgroups have them; kB become bytes."""
    found = re.findall(r"^(\w+):?\s+(\d+)( kB)?\s*$", text, re.M)
    return {name: int(value) * (1024 if unit else 1) for name, value, unit in found}


class Tool(threading.Thread):
    """A command that goes on printing lines, each handed to `take`; `again` is another one where it ends at once."""

    def __init__(self, argv: list[str], take: Callable[[list[str]], None], again: list[str]) -> None:
        super().__init__(daemon=True)
        self.argv, self.take, self.again, self.over = argv, take, again, False
        self.process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        for argv in filter(None, (self.argv, self.again)):
            lines = 0
            try:
                self.process = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
                )
            except OSError:
                return
            with self.process as process:
                for line in process.stdout or ():
                    lines += not line.startswith("Field")
                    self.take([word.strip() for word in line.split(",")])
            if lines > 1 or self.over:
                return

    def end(self) -> None:
        self.over = True
        if self.process:
            self.process.kill()
        self.join(5)


class Gpu:
    """What nvidia-smi said last of cards and processes."""

    def __init__(self) -> None:
        self.cards: dict[str, tuple[float, list[float | None], int]] = {}
        self.processes: dict[tuple[str, int], tuple[float, float | None, str]] = {}
        every = ["--format=csv,noheader,nounits", f"--loop-ms={int(PACE * 1000)}"]
        smi = nvidia_smi()
        ask = [smi, "--query-gpu=uuid," + ",".join(CARD), *every]
        more = [smi, "--query-gpu=uuid," + ",".join((*CARD, REASONS)), *every]
        whose = [smi, "--query-compute-apps=" + ",".join(PROCESS), *every]
        self.tools = [Tool(more, self.card, ask), Tool(whose, self.process, [])]
        for tool in self.tools:
            tool.start()

    def card(self, words: list[str]) -> None:
        if len(words) > len(CARD):
            reasons = int(words[-1], 16) if re.fullmatch(r"0x[0-9a-fA-F]+", words[-1]) else 0
            self.cards[words[0]] = (time.monotonic(), [number(word) for word in words[1 : len(CARD) + 1]], reasons)

    def process(self, words: list[str]) -> None:
        if len(words) >= len(PROCESS) and words[1].isdigit():
            name = ",".join(words[3:]).rsplit("/", 1)[-1]
            self.processes[words[0], int(words[1])] = (time.monotonic(), number(words[2]), name)

    def end(self) -> None:
        for tool in self.tools:
            tool.end()


class Process:
    """llama-server's process and its unit's cgroup; `limit` and `quota` are the unit's own, None where there are none.
    `manager`: whose unit it is, `user` or `system`. `workers`: its pid, and those that compute for it on this host.

    Where no memory controller serves the user's units, the process's own numbers stand in.
    """

    def __init__(self, unit: str, manager: str) -> None:
        names = ["MainPID", "ControlGroup", "MemoryMax", "CPUQuotaPerSecUSec"]
        show = ["systemctl", "--" + manager, "show", "-p", ",".join(names), unit]
        told = subprocess.run(show, stdout=subprocess.PIPE, text=True, timeout=30).stdout
        properties = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
        self.pid = int(properties.get("MainPID") or 0)
        self.workers = [self.pid, *rpc_servers(self.pid)]
        self.folder = "/sys/fs/cgroup" + properties.get("ControlGroup", "/none")
        limit, quota = properties.get("MemoryMax", ""), properties.get("CPUQuotaPerSecUSec", "infinity")
        self.limit = int(limit) if limit.isdigit() else None
        # systemd tells processor seconds a second: 500ms, 1.800000s.
        share = re.match(r"([\d.]+)(ms|s)$", quota)
        self.quota = f"{float(share.group(1)) * (0.1 if share.group(2) == 'ms' else 100):.0f} %" if share else None

    def memory(self) -> dict[str, float | None]:
        """Bytes; `held` is what the kernel cannot take back."""
        own, group = pairs(read(f"/proc/{self.pid}/status")), pairs(read(self.folder + "/memory.stat"))
        anon = group.get("anon", own.get("RssAnon", 0))
        kernel = group.get("shmem", own.get("RssShmem", 0)) + group.get("slab_unreclaimable", 0)
        return {
            "ram": own.get("VmRSS"),
            "peak": own.get("VmHWM"),
            "current": number(read(self.folder + "/memory.current")),
            "anon": anon,
            "file": group.get("file", own.get("RssFile")),
            "swap": max(own.get("VmSwap", 0), number(read(self.folder + "/memory.swap.current")) or 0),
            "held": anon + kernel,
            "refaults": group.get("workingset_refault_file"),
        }

    def stalled(self) -> tuple[float | None, float | None]:
        """Per cent of the last 10 s in which all of the unit waited for the disk, and such seconds in all."""
        found = re.search(r"^full avg10=([\d.]+) .*total=(\d+)", read(self.folder + "/io.pressure"), re.M)
        return (float(found.group(1)), int(found.group(2)) / 1e6) if found else (None, None)


def rpc_servers(pid: int) -> list[int]:
    """Processes on this host that hold layers for a server, if it has any elsewhere."""
    if "\0--rpc\0" not in read(f"/proc/{pid}/cmdline"):
        return []
    return [int(path.split("/")[2]) for path in glob.glob("/proc/[0-9]*/comm") if read(path).strip() in RPC_SERVERS]


def busy(workers: list[int], stat: str = "/proc/stat") -> tuple[float, float] | None:
    """Processor seconds since the boot that the whole machine was busy for, and of those the workers; proc(5). None
    where the kernel does not tell, or one of them is gone, with all that it had worked."""
    whole = read(stat).split("\n", 1)[0].split()[1:9]
    own = [read(f"/proc/{pid}/stat").rpartition(")")[2].split() for pid in workers]
    if len(whole) < 8 or not all(own):
        return None
    tick = os.sysconf("SC_CLK_TCK")
    idle = int(whole[3]) + int(whole[4])  # the latter waits for a disk
    return (sum(map(int, whole)) - idle) / tick, sum(int(one[11]) + int(one[12]) for one in own) / tick


def cpu_mhz() -> float | None:
    """Of four processors at most: to ask one costs the kernel milliseconds."""
    paths = sorted(glob.glob("/sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq"))
    told = [number(read(path)) for path in paths[:: max(len(paths) // 4, 1)][:4]]
    if not paths and (os.cpu_count() or 1) <= 8:
        told = [float(word) * 1000 for word in re.findall(r"^cpu MHz\s*: ([\d.]+)", read("/proc/cpuinfo"), re.M)]
    known = [value for value in told if value]
    return sum(known) / len(known) / 1000 if known else None


class Series:
    """Values of many names over time, never more than POINTS of each: memory by its peaks, the rest by its means."""

    def __init__(self, before: dict[str, Any]) -> None:
        self.seconds: list[float] = before.get("seconds", [])
        self.values: dict[str, list[float | None]] = before.get("series", {})
        self.stride: int = before.get("stride", 1)
        self.waiting: list[tuple[float, dict[str, float | None]]] = []

    def add(self, second: float, values: dict[str, float | None]) -> None:
        self.waiting.append((second, values))
        if len(self.waiting) < self.stride:
            return
        for name in values:
            self.values.setdefault(name, []).append(self.merged(name, [each[1][name] for each in self.waiting]))
        self.seconds.append(round(self.waiting[0][0], 1))
        self.waiting = []
        if len(self.seconds) >= POINTS:
            self.stride *= 2
            self.seconds = self.seconds[::2]
            for name, old in self.values.items():
                self.values[name] = [self.merged(name, old[at : at + 2]) for at in range(0, len(old), 2)]

    def merged(self, name: str, values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        if not known:
            return None
        return round(max(known) if name.endswith("_mib") else sum(known) / len(known), 1)
