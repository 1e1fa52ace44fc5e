"""The versions of the NVIDIA driver's libraries, by the names of the real files behind them.

Goes to the host with the probe, and with paddock-switch; probe_tools.py stands ahead of it.
"""

from __future__ import annotations

import os

from roles.probe_tools import find_command, run


def library_versions() -> dict[str, str | None]:
    """By soname; None where a library is not installed, or its file has no version in its name."""
    import re

    versions = {}
    listed = run([find_command("ldconfig") or "ldconfig", "-p"])
    for soname in ("libcuda.so.1", "libnvidia-ml.so.1"):
        # A 32-bit one, for old games, may stand beside it and be of another version.
        found = re.search(re.escape(soname) + r" \([^)]*64[^)]*\) => (\S+)", listed["out"]) if listed else None
        version = re.search(r"\.so\.(\d+\.\d[\d.]*)$", os.path.realpath(found.group(1))) if found else None
        versions[soname] = version.group(1) if version else None
    return versions
