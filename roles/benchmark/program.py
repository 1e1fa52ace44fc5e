"""Runs on the host: the smoke benchmark against the service as it is served. The job
comes as JSON in the first argument.

Every figure is the server's own (`timings`), from token ids, with the prompt cache off; one that the cache helped is
refused. The result is one line of JSON, appended to the history and printed.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any

KEY = ["none"]  # the API key, where the server wants one
SLOWEST = 20  # tokens a second of reading
PACE = 0.5  # seconds between two looks at VRAM and RAM


def post(url: str, path: str, body: dict[str, Any], seconds: float) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + KEY[0]}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
    # Never through a proxy: the server is on this machine.
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=seconds) as answer:
        return json.load(answer)


def text(words: int) -> str:
    """Sentences that do not repeat, the same on every machine."""
    stock = ["stone", "river", "winter", "lamp", "table", "north", "quiet", "engine"]
    stock += ["harbour", "paper", "seven", "garden", "iron", "letter", "morning", "salt"]
    state, said = 1, []
    for position in range(words):
        state = (state * 1103515245 + 12345) % (1 << 31)
        said.append(stock[state >> 16 & 15] + (".\n" if position % 11 == 10 else ""))
        if position % 23 == 22:
            said.append(str(position))
    return " ".join(said)


class Watch(threading.Thread):
    """The peaks of the process: VRAM by nvidia-smi (MiB, None without one), RAM as the kernel counts it (bytes)."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.over = pid, threading.Event()
        self.vram: int | None = None

    def run(self) -> None:
        query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
        while not self.over.wait(PACE):
            with contextlib.suppress(OSError):
                os.utime(os.path.expanduser("~/.local/share/paddock/run.lock"))  # this run's sign of life
            try:
                done = subprocess.run(query, capture_output=True, text=True, timeout=10)
            except (OSError, subprocess.TimeoutExpired):
                continue
            for line in done.stdout.splitlines():
                pid, _, used = line.partition(",")
                if pid.strip() == str(self.pid) and used.strip().isdigit():
                    self.vram = max(self.vram or 0, int(used))

    def ram(self) -> int:
        with open(f"/proc/{self.pid}/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        return 0


def measure(url: str, ids: list[int], depth: int, tokens: int) -> dict[str, Any]:
    prompt = ids[: max(depth, 1)]
    body = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "cache_prompt": False, "temperature": 0}
    answer = post(url, "/completion", {**body, "seed": 1}, 600 + depth / SLOWEST)["timings"]
    if answer["cache_n"] or answer["prompt_n"] != len(prompt) or answer["predicted_n"] != tokens:
        end(
            f"the figures at depth {depth} cannot be trusted: {answer['cache_n']} tokens came from the cache,"
            f" {answer['prompt_n']} of {len(prompt)} were read, {answer['predicted_n']} of {tokens} were generated"
        )
    return {
        "n_depth": depth,
        "pp": round(answer["prompt_per_second"], 2) if depth else None,
        "tg": round(answer["predicted_per_second"], 2),
    }


def main_pid(unit: str) -> int:
    show = ["systemctl", "--user", "show", "--property=MainPID", "--value", unit]
    return int(subprocess.run(show, capture_output=True, text=True, timeout=30).stdout.strip() or 0)


def end(sentence: str) -> None:
    sys.stderr.write("paddock: " + sentence + "\n")
    sys.exit(1)


def main() -> None:
    job = json.loads(sys.argv[1])
    os.environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    pid, url = main_pid(job["unit"]), job["url"]
    if not pid:
        end("llama-server does not run, so there is nothing to measure")
    if job["key_file"]:
        with open(job["key_file"]) as file:
            lines = [line.strip() for line in file]
            KEY[0] = next((line for line in lines if line and line[0] != "#" and not set('"\\') & set(line)), "none")
    watch = Watch(pid)
    try:
        deepest = max(job["depths"])
        ids = post(url, "/tokenize", {"content": text(deepest + 64)}, 60)["tokens"]
        measure(url, ids, min(64, deepest), 8)  # thrown away: pages are read in, buffers are made
        watch.start()
        rows = [measure(url, ids, depth, job["tokens"]) for depth in job["depths"]]
    except (urllib.error.URLError, OSError, KeyError, ValueError) as error:
        end(f"llama-server did not answer as expected: {error}")
    watch.over.set()
    watch.join(15)
    result = {
        "schema": 1,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "kind": "smoke",
        "stamp": job["stamp"],
        "config": job["config"],
        "tokens": job["tokens"],
        "driver": job["driver"],
        "kernel": job["kernel"],
        "rows": rows,
        "peak_vram_mib": watch.vram,
        "peak_ram_bytes": watch.ram(),
    }
    line = json.dumps(result)
    path = os.path.expanduser(job["history"])
    # A leading line break where the last writer was killed in the middle: its torn line stays the only one lost.
    with open(path, "ab+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        torn = file.read(1) not in (b"", b"\n")
        file.write(("\n" if torn else "").encode() + line.encode() + b"\n")
    print(line)


try:
    main()
except (OSError, subprocess.SubprocessError) as error:
    end(str(error))
