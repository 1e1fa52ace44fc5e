"""A release whose llama-fit-params is a few lines of Python: the programs of the memory role run against it as they run
on a host. The real one is asked in the lab; here it crashes, hangs, and has cards that no test machine has.

Its model: 100 MiB of dense weights and 50 of experts on each of `layers` layers, 10 MiB of cache per 1024 tokens and
layer at f16, half of that at q8_0 and a quarter at q4_0, and compute buffers of a fifth of the ubatch: its logits. They
go with the output layer where that is told apart (`-ot`), and then it is a twentieth; a thirtieth where the experts of
the last two layers are on the CPU. Several devices that work at the same time hold them twice.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from roles import remote
from roles.memory.decide import PROGRAM
from roles.memory.oracle_program import Oracle
from roles.memory.plan import Plan
from roles.memory.plan_program import Planner
from roles.remote import Script

FIT_PARAMS = """#!{python} -IS
import os, sys
words = sys.argv[1:]
if words == ["--help"]:
    print("-h,  --help       print usage")
    for option in {options!r}:
        print(option + " N      some option,\\n                  continued")
    sys.exit()
log = os.path.join({folder!r}, "calls.txt")
with open(log, "a") as file:
    print([words, os.path.getsize(words[words.index("-m") + 1])], file=file)
{trouble}
def value(name, default):
    return words[words.index(name) + 1] if name in words else default
layers, devices = {layers}, {devices!r}
ngl, moe, ffn = min(int(value("-ngl", 0)), layers), int(value("--n-cpu-moe", 0)), int(value("--n-cpu-ffn", 0))
kind = dict(f16=4, q8_0=2, q4_0=1)[value("-ctk", "f16")]
cache = int(value("-c", 0)) * 10 * kind // 4 // 1024 // layers
lost = {{layer for layer in range(layers) if layer < layers - ngl}}
moved = {{layer for layer in range(layers) if layer < max(moe, ffn)}} | lost
model, context = (layers - len(lost)) * 100 + (layers - len(moved)) * 50, (layers - len(lost)) * cache
for device in devices:
    logits = 0 if value("-ot", "").startswith("^(output|") else int(value("-ub", 512)) // 5
    rest = int(value("-ub", 512)) // (30 if max(moe, ffn) >= layers - 1 else 20)
    compute = max(rest, logits) if ngl else 0
    if len(devices) > 1 and not (moe or ffn or "-ot" in words):
        compute *= 2
    print(device, model // len(devices), context // len(devices), compute, "")
print("Host", layers * 150 - model, 0, 10, "")
"""
SERVER = """#!{python} -IS
import sys
for device in {devices!r}:
    print("  " + device + ": NVIDIA RTX 3050 (" + str({total}) + " MiB, 5000 MiB free)")
"""
# Answers as for units that are active where a file of their name lies there, and notes what it was told.
SYSTEMD = """#!/bin/sh
echo "${0##*/} $*" >>"$HOME/systemd.log"
case "$*" in
*is-active*) for unit; do :; done; test -e "$HOME/active-$unit" ;;
*--on-active*) test ! -e "$HOME/no-timers" ;;
esac
"""
KNOWS = ("-m", "-c", "-ub", "-np", "-ctk", "-ctv", "-fa", "-ngl", "--n-cpu-moe", "-ts", "-fitp, --fit-print", "--poll")
DENSE: dict[str, Any] = {"moe_layers": [], "n_cpu_moe": None}  # a job about a model without experts


@dataclass
class Fake:
    """A host's data folder with one release in it. `trouble`: lines of Python that go wrong before the answer."""

    home: Path
    layers: int = 8
    total: int = 3000
    devices: tuple[str, ...] = ("CUDA0",)
    options: tuple[str, ...] = KNOWS
    trouble: str = ""
    smi: str = "exit 9"
    job: dict[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        return self.home / ".local/share/paddock"

    @property
    def bin(self) -> Path:
        return self.data / "releases/r1/bin"

    def install(self) -> None:
        values = {
            "python": Path(sys.executable).resolve(),
            "folder": str(self.home),
            "layers": self.layers,
            "devices": self.devices,
        }
        values |= {"options": self.options, "trouble": self.trouble, "total": self.total}
        self.write(self.bin / "llama-fit-params", FIT_PARAMS.format(**values))
        self.write(self.bin / "llama-server", SERVER.format(**values))
        self.write(self.home / "bin/systemctl", SYSTEMD)
        self.write(self.home / "bin/systemd-run", SYSTEMD)
        self.write(self.home / "bin/nvidia-smi", f"#!/bin/sh\n{self.smi}\n")
        (self.home / "model.gguf").write_bytes(b"GGUF")

    @staticmethod
    def write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def wanted(self, **changes: Any) -> dict[str, Any]:
        """What the program is told; `changes` go over it."""
        return {
            "digest": "d1",
            "inputs": {},
            "release": "r1",
            "bin": str(self.bin),
            "folder": "~/.local/share/paddock/plans",
            "backend": "cuda",
            "model": "~/model.gguf",
            "twin": [],
            "words": ["-c", "8192", "-ub", "500", "-np", "1", "-ctk", "f16", "-ctv", "f16", "-fa", "on"],
            "extra": [],
            "rpc_servers": 0,
            "own_tensor_split": False,
            "layers": self.layers,
            "moe_layers": list(range(self.layers)),
            "context": 8192,
            "ubatch": 500,
            "gpu_layers": None,
            "n_cpu_moe": None,
            "explicit": False,
            "cards": [{"name": "RTX 3050", "total": 6144, "reserve": 500}],
            "reserve": 0,
            "margin": 200,
            "limit": None,
            "overhead": 300,
            "moe_cache": 0,
            "alternatives": [],
            "pause": False,
            "holders": " (chrome 900)",
            "check": "refuse",
            "sizes": [],
            "ask_on": False,
            "asked": None,
            "smaller": [],
            "advice": "take a smaller model or quantization",
            **self.job,
            **changes,
        }

    def start(self, **changes: Any) -> subprocess.Popen[str]:
        """The program as the host runs it, in a process group of its own."""
        self.install()
        script = Script(PROGRAM, (json.dumps(self.wanted(**changes)),), python=True)
        path = f"{self.home / 'bin'}:{os.environ['PATH']}"
        process = subprocess.Popen(
            ["python3", "-ISB", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"HOME": str(self.home), "PATH": path, "LC_ALL": "C"},
            text=True,
            start_new_session=True,
        )
        assert process.stdin
        process.stdin.write(remote.stdin(script))
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, **changes: Any) -> subprocess.CompletedProcess[str]:
        process = self.start(**changes)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def plan(self, **changes: Any) -> dict[str, Any]:
        """The plan that is printed, which is the one that is recorded."""
        done = self.run(**changes)
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        assert self.recorded() == told
        return told

    def searched(self) -> Plan:
        """The same search with the same answers in this process: for sweeps, where starting a process for each question
        takes nearly all of the time."""
        self.install()
        with mock.patch.object(Oracle, "tool", lambda _, argv: in_this_process(argv)):
            return Plan.model_validate(Planner(job := self.wanted(), Oracle(job, str(self.home / "model.gguf"))).plan())

    def recorded(self) -> Any:
        path = self.data / "plans/d1.json"
        return json.loads(path.read_text()) if path.exists() else None

    def refusal(self, **changes: Any) -> str:
        done = self.run(**changes)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        return line.removeprefix("paddock: ")

    def calls(self) -> list[Any]:
        """The command line of each question, and the size of the file that it was about."""
        log = self.home / "calls.txt"
        return [ast.literal_eval(line) for line in log.read_text().splitlines()] if log.exists() else []


def in_this_process(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """What one of the programs above answers, without starting it."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), mock.patch.object(sys, "argv", argv), contextlib.suppress(SystemExit):
        exec(Path(argv[0]).read_text("utf-8"), {"__name__": "__main__"})
    return subprocess.CompletedProcess(argv, 0, out.getvalue(), "")
