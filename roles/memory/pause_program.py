"""Runs on the host, as a part of the planner: a card that our own service fills has no room for a question.

The service is stopped for the seconds of the plan and started again. Whatever happens to this program, a timer of
systemd's does that too.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from typing import Any

from roles.memory.oracle_program import fail

SERVICE = "paddock-llama-server.service"
TIMER = "paddock-resume"
RESUME_SECONDS = 300
START = ["systemctl", "--user", "start", SERVICE]


def ended_well(argv: list[str]) -> bool:
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@contextlib.contextmanager
def paused(job: dict[str, Any]) -> Iterator[None]:
    """Without our service, where the job says so and it runs. A run that was killed in here left its timer behind."""
    active = ["systemctl", "--user", "is-active", "--quiet"]
    left = job["backend"] == "cuda" and ended_well([*active, TIMER + ".timer"])
    if not left and not (job["pause"] and ended_well([*active, SERVICE])):
        yield
        return
    timer = ["systemd-run", "--user", "--quiet", "--collect", "--unit=" + TIMER, f"--on-active={RESUME_SECONDS}"]
    if not left and not ended_well([*timer, *START]):
        fail("llama-server holds the VRAM, and systemd promises no timer that would start it again after the plan")
    ended_well(["systemctl", "--user", "stop", SERVICE])
    try:
        yield
    finally:
        ended_well(START)
        ended_well(["systemctl", "--user", "stop", TIMER + ".timer"])
