"""paddock-switch, the gate: one file of Python 3.8's standard library for the host, put together from these."""

from __future__ import annotations

from pathlib import Path

from roles import programs

ROLES = Path(__file__).parents[2]
PARTS = ("causes", "host", "devices", "proof", "switch", "watch", "main")
HEAD = """#!/usr/bin/env -S python3 -ISB
# Written by Paddock: proves a service of llama-server, and brings the last good one back where it does not pass.
"""
PROGRAM = HEAD + programs.joined(
    ROLES / "probe_tools.py",
    ROLES / "gpu/libraries.py",
    ROLES / "gpu/smi.py",
    *(Path(__file__).with_name(f"{name}.py") for name in PARTS),
)
