"""Runs on the host: llama-bench, which needs the memory that the service holds. The service is stopped for it and
started again; where this program is killed, its unit does that (ExecStopPost)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

SYSTEMCTL = ("systemctl", "--user")


def llama_bench(unit: str, commands: list[list[str]], seconds: float) -> tuple[list[Any], str]:
    """llama-bench's own rows, and why there are no more of them. Raises OSError and SubprocessError."""
    rows: list[Any] = []
    end = time.monotonic() + seconds
    subprocess.run([*SYSTEMCTL, "stop", unit], timeout=120, check=True)
    try:
        for command in commands:
            found, why = ran(command, end - time.monotonic())
            rows += found
            if why:
                return rows, why
        return rows, ""
    finally:
        subprocess.run([*SYSTEMCTL, "start", unit], timeout=120, check=True)


def ran(command: list[str], seconds: float) -> tuple[list[Any], str]:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return [], f"llama-bench took longer than {seconds:.0f} s"
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        return rows, f"llama-bench ended with {done.returncode}: {said[-1].strip()[:200]}"
    sys.stdout.write(f"{len(rows)} rows of llama-bench\n")
    sys.stdout.flush()
    return rows, ""
