"""What a start of the service waits for: the devices that take layers, and the program that waits."""

from __future__ import annotations

from roles.memory.wanted import backend, nvidia
from roles.observation import Observation
from roles.wishes import Wishes

DEVICE_SECONDS = 60  # that a boot waits for the devices


def devices(wishes: Wishes, observation: Observation) -> tuple[str, ...]:
    """What must be there before the server starts: llama.cpp's names of devices, or servers of layers over RPC."""
    kind = backend(wishes, observation)
    if kind == "cuda":
        return tuple(f"CUDA{at}" for at in range(max(len(nvidia(observation).gpus), 1)))
    return wishes.settings.llama_cpp.rpc_servers if kind == "rpc" else ()


def boot_check(program: str, server: str, devices: tuple[str, ...]) -> list[str]:
    """The words of ExecStartPre: paddock-switch waits for the devices. None for a service on the CPU."""
    return [program, "wait-device", str(DEVICE_SECONDS), server, *devices] if devices else []
