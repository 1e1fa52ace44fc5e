"""Where the NVIDIA driver's tool is. Goes to the host with the probe and with every program that asks it."""

from __future__ import annotations


def nvidia_smi() -> str:
    """Its path; where there is none, a name that is not there either."""
    import shutil

    return shutil.which("nvidia-smi") or "/usr/lib/wsl/lib/nvidia-smi"  # WSL: in an interactive shell's PATH alone
