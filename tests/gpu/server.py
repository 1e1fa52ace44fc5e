"""The release's own programs on the GPU machine: a server and its device, what it logged, what it holds. Runs there."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roles.memory.plan import Split
from roles.service import command
from roles.service.unit import url
from roles.settings import Service
from tests.gpu.results import OUT, WORK
from tests.gpu.wanted import BACKEND, wishes

DEVICE = re.compile(rf"{BACKEND.upper()}\d+")
KINDS = ("model", "KV", "compute")
MODEL = WORK / "model.gguf"
SECONDS = 60  # for the server to load the model
BUFFER = re.compile(r"(\S+)\s+(model|KV|output|compute) buffer size\s*=\s*([\d.]+) MiB")
PROCESSES, CARD = "nvidia-smi, this process", "nvidia-smi, the whole card before and after"
STAND_IN = "the kernel, memory of the stand-in device"


class NotServed(Exception):
    """A program of the release did not do what it is for; the text is a sentence."""


@dataclass
class Served:
    """A server that answers. `device`: the process that stands in for a card; `before`: MiB of the card without it."""

    wanted: Service
    log: Path
    pid: int
    device: int | None
    before: int

    def ask(self, path: str, body: Any = None, seconds: float = 120) -> Any:
        """What the server answers. Raises OSError and ValueError."""
        return ask(self.wanted, path, body, seconds)

    def held(self) -> tuple[int, str]:
        """MiB of the device that it holds now, and by whose word."""
        if self.device:
            return memory(self.device) - self.before, STAND_IN
        told = [row[1] for row in smi("--query-compute-apps=pid,used_memory") if row[0] == str(self.pid)]
        if told and all(used.isdigit() for used in told):
            return sum(map(int, told)), PROCESSES
        # In a container the process has another number, or none is told.
        return card() - self.before, CARD


def folder() -> Path:
    """The release."""
    key = (WORK / "release").read_text("utf-8")
    return Path(os.environ["HOME"]) / ".local/share/paddock/releases" / key


def words(wanted: Service) -> list[str]:
    """llama-server's arguments, by the service role and in the release's own spelling."""
    knows = (folder() / "flags.txt").read_text("utf-8").split()
    split = Split(gpu_layers=int(wanted.gpu_layers), n_cpu_moe=int(wanted.n_cpu_moe))
    return command.arguments(wanted, str(MODEL), wishes().settings.llama_cpp.rpc_servers, True, "", knows, split)


def ask(wanted: Service, path: str, body: Any = None, seconds: float = 120) -> Any:
    text = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url(wanted) + path, text, {"Content-Type": "application/json"})
    # Never through a proxy: the server is on this machine.
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=seconds) as answer:
        return json.load(answer)


def smi(query: str) -> list[list[str]]:
    """The rows of nvidia-smi's answer; none where it does not say."""
    asked = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False)
    return [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines() if line.strip()]


def card() -> int:
    """MiB that are used of all cards."""
    return sum(int(row[0]) for row in smi("--query-gpu=memory.used") if row[0].isdigit())


def memory(pid: int, kind: str = "VmRSS") -> int:
    """MiB of memory that a process has, by the kernel."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    return int((re.search(rf"^{kind}:\s+(\d+)", status, re.M) or ["", "0"])[1]) >> 10


@contextlib.contextmanager
def running(argv: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program, ended at the end."""
    with log.open("ab") as file:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def device(space: int | None = None) -> Iterator[int | None]:
    """Where no GPU is, llama.cpp's own device over RPC takes layers, cache and experts as a card does; its pid.

    `space`: MiB of addresses that it may have, as it has no limit of its own."""
    if BACKEND != "rpc":
        yield None
        return
    host, _, port = wishes().settings.llama_cpp.rpc_servers[0].rpartition(":")
    # One arena: each thread would take addresses for one of its own, used or not.
    bound = ["env", "MALLOC_ARENA_MAX=1", "prlimit", f"--as={space << 20}"] if space else ["env", "MALLOC_ARENA_MAX=1"]
    argv = [*bound, str(folder() / "bin/ggml-rpc-server"), "-H", host, "-p", port]
    with running(argv, OUT / "device.log") as process:
        time.sleep(0.5)
        yield process.pid


@contextlib.contextmanager
def served(wanted: Service, name: str, space: int | None = None) -> Iterator[Served]:
    """A server that answers, gone at the end; its log is NAME.log in the results. Raises NotServed. `space`: MiB of
    addresses that a stand-in may have."""
    log = OUT / f"{name}.log"
    log.unlink(missing_ok=True)
    with device(space) as stand_in:
        before = memory(stand_in) if stand_in else card()
        with running([str(folder() / "bin/llama-server"), *words(wanted)], log) as process:
            _wait(wanted, process, log)
            yield Served(wanted, log, process.pid, stand_in, before)


def _wait(wanted: Service, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise NotServed(f"llama-server ended with {process.returncode}: {_complaint(log)}")
        try:
            ask(wanted, "/health", seconds=5)
            return
        except (OSError, ValueError):
            time.sleep(0.1)
    raise NotServed(f"llama-server did not come up within {SECONDS} s: {_complaint(log)}")


def _complaint(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines()
    told = [line for line in lines if re.search("error|fail|unable|invalid|abort", line, re.I)]
    return (told or lines or ["it said nothing"])[0][:300]


def buffers(log: str) -> dict[str, dict[str, float]]:
    """MiB by device and kind, as the server's log says it. A model in parts is summed, and so is a cache; the compute
    buffer is reserved more than once, and the last word counts."""
    found: dict[str, dict[str, float]] = {}
    for line in log.splitlines():
        if match := BUFFER.search(line):
            told = found.setdefault(match[1].partition("[")[0], {})
            told[match[2]] = float(match[3]) + (told.get(match[2], 0.0) if match[2] in ("KV", "model") else 0.0)
    return found


def total(told: dict[str, dict[str, float]], on_device: bool) -> list[float]:
    """MiB of model, KV and compute, summed over the devices, or over all that is the host's (CUDA_Host, CPU_Mapped)."""
    ours = [found for name, found in told.items() if bool(DEVICE.fullmatch(name)) == on_device]
    return [round(sum(found.get(kind, 0.0) for found in ours), 2) for kind in KINDS]


def fit_print(model: Path, wanted: Service) -> dict[str, dict[str, float]]:
    """What llama-fit-params plans: MiB by device and kind, whole. Raises NotServed."""
    options = ["-m", str(model), "-c", str(wanted.context), "-ub", str(wanted.ubatch), "-np", "1", "-ngl", "99"]
    options += ["--n-cpu-moe", str(wanted.n_cpu_moe), "-ctk", wanted.cache_type_k, "-ctv", wanted.cache_type_v]
    options += ["-fa", wanted.flash_attention, "--fit-print", "on"]
    if servers := wishes().settings.llama_cpp.rpc_servers:
        options += ["--rpc", ",".join(servers)]
    program = folder() / "bin/llama-fit-params"
    done = subprocess.run([program, *options], capture_output=True, text=True, timeout=60, check=False)
    planned = re.findall(r"^([A-Za-z]+\d*)\S* (\d+) (\d+) (\d+) *$", done.stdout, re.M)
    if done.returncode or not planned:
        said = (done.stderr.splitlines() or ["nothing"])[-1]
        raise NotServed(f"llama-fit-params ended with {done.returncode} and said: {said}")
    return {name: dict(zip(KINDS, map(float, numbers), strict=True)) for name, *numbers in planned}
