"""Runs on the host: asks llama-fit-params of a release what each device would hold, without loading a weight.

Each question opens a context on the devices for a second, so that there is a look at their free memory before it.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from roles.gpu.smi import nvidia_smi
from roles.memory.fitting_program import TO_ASK

ANSWER_SECONDS = 120  # usually it takes one
# llama-fit-params reserves the logits of a whole batch, the server those of one token (`n_outputs_max`, in llama.cpp's
# common/common.h and tools/server/server-context.cpp). They hide what everything else takes: the two are never there at
# one time. With the output layer elsewhere, its logits are elsewhere too.
OUTPUT_ELSEWHERE = ("-ot", r"^(output|token_embd)\.weight=CPU")
SPLIT_OPTIONS = {"gpu_layers": "-ngl", "n_cpu_moe": "--n-cpu-moe", "n_cpu_ffn": "--n-cpu-ffn"}


def fail(sentence: str) -> None:
    sys.exit("paddock: " + sentence)


def changed(words: list[str], changes: dict[str, str]) -> list[str]:
    """The command line with other values for some of its options."""
    return [changes.get(before, word) for before, word in zip(["", *words], words)]  # noqa: B905


def of_them(words: list[str], knows: set[str]) -> list[str]:
    """The options that this release's llama-fit-params shares with its server, and their values."""
    kept, keep = [], False
    for word in words:
        if word.startswith("-") and not word[1:].replace(".", "").isdigit():
            keep = word in knows
        kept += [word] if keep else []
    return kept


class Oracle:
    """One release and one model. `words`: the options that the server gets too; `asked`: every answer so far."""

    def __init__(self, job: dict[str, Any], model: str) -> None:
        self.bin, self.backend, self.holders = job["bin"], job["backend"], job["holders"]
        self.program = self.bin + "/llama-fit-params"
        self.tensor_split: list[int] = []
        self.found: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.buffers: dict[str, int] = {}
        self.knows = self.options() if os.path.exists(self.program) else set()
        self.words = ["-m", model, *job["words"], *of_them(job["extra"], self.knows)]

    def tool(self, argv: list[str]) -> Any:
        """Nobody's environment or settings: only the release is asked."""
        env = {"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent", "LC_ALL": "C"}
        name = os.path.basename(argv[0])
        try:
            return subprocess.run(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=ANSWER_SECONDS,
            )
        except subprocess.TimeoutExpired:
            fail(f"{name} gave no answer within {ANSWER_SECONDS} s, so nothing can be planned; does a device hang?")
        except OSError as error:
            fail(f"{name} of this release cannot be run: {error.strerror}")

    def options(self) -> set[str]:
        """What `--help` knows."""
        lines = [line for line in self.tool([self.program, "--help"]).stdout.splitlines() if line.startswith("-")]
        heads = [re.split(r"  +(?=[^\s-])", line)[0] for line in lines]
        return {word for head in heads for word in re.findall(r"(?:^|[\s,])(--?[A-Za-z][\w-]*)", head)}

    def look(self) -> None:
        """Before anything opens a context on a card, the card has room for one."""
        smi = nvidia_smi()
        if self.backend != "cuda" or not os.path.exists(smi):
            return
        told = self.tool([smi, "--query-gpu=name,memory.free", "--format=csv,noheader,nounits"]).stdout
        for name, free in re.findall(r"^(.*), *(\d+)\s*$", told, re.M):
            if int(free) < TO_ASK:
                fail(
                    f"{name} has {free} MiB of VRAM free, and llama.cpp needs about {TO_ASK} to say what a model takes;"
                    f" close what holds it{self.holders}"
                )

    def devices(self) -> list[dict[str, Any]]:
        """What llama.cpp finds to hold layers: its name, the card's, and MiB in all."""
        if self.backend == "cpu":
            return []
        self.look()
        rpc = self.words[self.words.index("--rpc") : self.words.index("--rpc") + 2] if "--rpc" in self.words else []
        told = self.tool([self.bin + "/llama-server", *rpc, "--list-devices"])
        rows = re.findall(r"^ *(\w+\d+): (.*) \((\d+) MiB, \d+ MiB free\)", told.stdout + told.stderr, re.M)
        kind = self.backend.upper()
        found = [{"device": row[0], "name": row[1], "total": int(row[2])} for row in rows if row[0].startswith(kind)]
        if not found:
            fail(f"llama.cpp finds no {kind} device on this host, and one shall hold the layers")
        self.found = found
        return found

    def ask(self, split: dict[str, Any], changes: dict[str, str], flags: tuple[str, ...] = ()) -> dict[str, Any]:
        """What each device and the host would hold with this split, with other values for some options, and with
        further `flags`."""
        for answer in self.asked:
            if (answer["split"], answer["changes"], answer["flags"]) == (split, changes, flags):
                return answer
        self.look()
        words = [*changed(self.words, changes), *self.split_words(split), *flags]
        told = self.tool([self.program, *words, "--fit-print", "on"])
        rows = re.findall(r"^(\w+) (\d+) (\d+) (\d+) *$", told.stdout, re.M)
        shares = {row[0]: [int(one) for one in row[1:]] for row in rows}
        if told.returncode != 0 or "Host" not in shares:
            lines = [line.strip() for line in (told.stderr + told.stdout).splitlines() if line.strip()]
            worst = [line for line in lines if re.search(r"error|fail|invalid|abort|what\(\)", line, re.I)]
            said = (worst or lines or ["nothing"])[0][:300]
            fail(f"llama-fit-params does not tell what the model takes (status {told.returncode}): {said}")
        host = shares.pop("Host")
        answer = {"split": split, "changes": changes, "flags": flags, "host": host, "devices": shares}
        self.asked.append(answer)
        self.trim(answer)
        return answer

    def look_closer(self, typical: dict[str, Any], changes: dict[str, str]) -> None:
        """One more question for what the server reserves of compute buffers: all answers with these changes are cut
        down to it. A device is bounded by the largest, as another split may give it other layers."""
        if str(changes) in self.buffers or not self.tells_buffers():
            return
        told = self.ask(typical, changes, OUTPUT_ELSEWHERE)["devices"]
        self.buffers[str(changes)] = max(map(reserved, told.values()), default=0)
        for answer in self.asked:
            self.trim(answer)

    def look_at(self, split: dict[str, Any], changes: dict[str, str]) -> dict[str, Any]:
        """The answer about one split, cut down to buffers of its own."""
        answer = self.ask(split, changes)
        if self.tells_buffers() and not self.pipelined(split):
            own = self.ask(split, changes, OUTPUT_ELSEWHERE)["devices"]
            for device, share in answer["devices"].items():
                share[2] = min(share[2], reserved(own.get(device, share)))
        return answer

    def tells_buffers(self) -> bool:
        return self.backend != "cpu" and OUTPUT_ELSEWHERE[0] in self.knows

    def pipelined(self, split: dict[str, Any]) -> bool:
        """Where no tensor has a place of its own, several devices work at the same time, and hold their buffers several
        times over (`pipeline_parallel` in src/llama-context.cpp). The question about the buffers cannot show that."""
        return len(self.found) > 1 and not (split["n_cpu_moe"] or split["n_cpu_ffn"])

    def trim(self, answer: dict[str, Any]) -> None:
        most = self.buffers.get(str(answer["changes"]))
        if most is not None and not answer["flags"] and not self.pipelined(answer["split"]):
            for share in answer["devices"].values():
                share[2] = min(share[2], most)

    def split_words(self, split: dict[str, Any]) -> list[str]:
        if self.backend == "cpu":
            return []
        chosen = [(option, split[name]) for name, option in SPLIT_OPTIONS.items() if split[name] is not None]
        words = [str(word) for pair in chosen for word in pair]
        return [*words, "-ts", ",".join(map(str, self.tensor_split))] if self.tensor_split else words


def reserved(share: list[int]) -> int:
    """Compute buffers, with an eighth for the one token and for splits that differ a little."""
    return share[2] + share[2] // 8 + 1


@contextlib.contextmanager
def own_servers(job: dict[str, Any]) -> Iterator[None]:
    """Layers over RPC: servers of this program's own, as one that serves answers nobody else."""
    servers, addresses = [], []
    try:
        for _ in range(job["rpc_servers"]):
            with socket.socket() as one:
                one.bind(("127.0.0.1", 0))
                port = one.getsockname()[1]
            argv = [job["bin"] + "/ggml-rpc-server", "-H", "127.0.0.1", "-p", str(port)]
            try:
                servers.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            except OSError as error:
                fail(f"ggml-rpc-server of this release cannot be run: {error.strerror}")
            addresses.append(f"127.0.0.1:{port}")
        for address in addresses:
            wait_for(address)
        if addresses:
            job["words"] = [*job["words"], "--rpc", ",".join(addresses)]
        yield
    finally:
        for server in servers:
            server.kill()
            server.wait()


def wait_for(address: str) -> None:
    host, _, port = address.partition(":")
    for _ in range(100):
        try:
            return socket.create_connection((host, int(port)), 3).close()
        except OSError:
            time.sleep(0.1)
    return fail("ggml-rpc-server of this release does not start")
