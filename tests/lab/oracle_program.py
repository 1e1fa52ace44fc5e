"""Runs on a lab host: what llama-fit-params of a release predicts, and what llama-server of it takes.

Questions come as a JSON list in the first argument, answers go out as one. A server of RPC of its own stands in for a
card, as one that serves answers nobody else.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

BUFFER = re.compile(r"(\S+)\s+(model|KV|RS|compute) buffer size\s*=\s*([\d.]+) MiB")
SECONDS = 60


def predicted(argv: list[str]) -> dict[str, list[int]]:
    """Whole MiB of model, context and compute by device."""
    done = subprocess.run([*argv, "--fit-print", "on"], capture_output=True, encoding="utf-8", timeout=SECONDS)
    rows = re.findall(r"^(\w+) (\d+) (\d+) (\d+) *$", done.stdout, re.M)
    if done.returncode or not rows:
        sys.exit(f"{' '.join(argv)}: {done.returncode} {done.stderr[-2000:]}")
    return {name: [int(one) for one in figures] for name, *figures in rows}


def loaded(argv: list[str]) -> dict[str, Any]:
    """MiB of model, context and compute on the device, by the log of a server that answers; or why there is none."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = Path(f"/tmp/paddock-oracle-{os.getpid()}.log")
    with log.open("wb") as file:
        argv = [*argv, "-fit", "off", "--no-warmup", "-lv", "4", "--port", str(port)]
        server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        answers = answering(server, f"http://127.0.0.1:{port}/health")
    finally:
        server.kill()
        server.wait()
    text = log.read_text("utf-8", "replace")
    log.unlink()
    found = {"model": 0.0, "context": 0.0, "compute": 0.0}
    for device, kind, size in BUFFER.findall(text):
        if device.startswith("RPC0"):
            kind = {"KV": "context", "RS": "context"}.get(kind, kind)
            found[kind] = float(size) + (0.0 if kind == "compute" else found[kind])  # reserved anew, not beside
    return {"answers": answers, "device": [round(size, 2) for size in found.values()], "log": text[-20000:]}


def answering(server: subprocess.Popen[bytes], url: str) -> bool:
    end = time.monotonic() + SECONDS
    while server.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return True
        time.sleep(0.05)
    return False


@contextlib.contextmanager
def device(program: str, limit: int) -> Any:
    """The address of a stand-in; `limit`: MiB of address space that it may have, 0 for any."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    bound = ["prlimit", f"--as={limit << 20}"] if limit else []
    server = subprocess.Popen([*bound, program, "-H", "127.0.0.1", "-p", port], stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", int(port)), 3).close()
                break
            time.sleep(0.1)
        yield "127.0.0.1:" + port
    finally:
        server.kill()
        server.wait()


def main() -> None:
    folder, limit = sys.argv[2], int(sys.argv[3])
    answers: list[Any] = []
    with device(folder + "/ggml-rpc-server", limit) as address:
        for question in json.loads(sys.argv[1]):
            tool = "/llama-server" if question["load"] else "/llama-fit-params"
            argv = [folder + tool, *question["words"], "--rpc", address]
            answers.append(loaded(argv) if question["load"] else predicted(argv))
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
