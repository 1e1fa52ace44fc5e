#!/usr/bin/python3
"""Stands in for nvidia-smi on a lab host, where no GPU can be. Runs there: Python's standard library alone.

What it says follows from what is planted, as with the real one: the module in /sys, the library behind
libnvidia-ml.so.1, the card on the bus. /etc/lab-gpu/answer (seconds, exit code, words) overrides all that.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

STATE = "/etc/lab-gpu/"
LIBRARY = "/usr/lib/lab-gpu/libnvidia-ml.so.1"
UNLOADED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA"
    " driver is installed and running.\n"
)


def read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError:
        return ""


def pairs(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def processes() -> list[list[str]]:
    """pid, type, MiB, command line: those that were planted, and each server whose layers the card is said to hold."""
    found = [line.split(" ", 3) for line in read(STATE + "processes").splitlines()]
    if held := read(STATE + "server").strip():
        programs = {path.name: path / "exe" for path in Path("/proc").iterdir() if path.name.isdigit()}
        found += [[pid, "C", held, "llama-server"] for pid, exe in programs.items() if served(exe)]
    return found


def served(exe: Path) -> bool:
    try:
        return exe.readlink().name == "llama-server.rpc"
    except OSError:
        return False


def report(card: dict[str, str]) -> str:
    told = "".join(
        f"\t\t\t<process_info>\n\t\t\t\t<pid>{pid}</pid>\n\t\t\t\t<type>{kind}</type>\n"
        f"\t\t\t\t<process_name>{name}</process_name>\n\t\t\t\t<used_memory>{used} MiB</used_memory>\n"
        "\t\t\t</process_info>\n"
        for pid, kind, used, name in processes()
    )
    return (
        '<?xml version="1.0" ?>\n<nvidia_smi_log>\n\t<attached_gpus>1</attached_gpus>\n\t<gpu id="00000000:01:00.0">\n'
        f"\t\t<product_name>{card['name']}</product_name>\n\t\t<uuid>{card['uuid']}</uuid>\n"
        f"\t\t<processes>\n{told}\t\t</processes>\n\t</gpu>\n</nvidia_smi_log>\n"
    )


def answer(words: list[str]) -> tuple[int, str]:
    """Exit code and standard output; the real one says its errors there too."""
    module = read("/sys/module/nvidia/version").strip()
    library = Path(LIBRARY).resolve().name.partition(".so.")[2]
    if not module:
        return 9, UNLOADED
    if module != library:
        told = library.rpartition(".")[0] if library.count(".") > 1 else library
        return 18, f"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {told}\n"
    if not Path("/sys/bus/pci/devices/0000:01:00.0").exists():
        return 6, "No devices were found\n"
    card = {**pairs(read(STATE + "card")), "driver_version": module}
    query = next((word.partition("=")[2] for word in words if word.startswith("--query-gpu=")), "")
    if query:
        unknown = [field for field in query.split(",") if field not in card]
        if unknown:
            return 2, f'Field "{unknown[0]}" is not a valid field to query.\n\n'
        return 0, ", ".join(card[field] for field in query.split(",")) + "\n"
    asked = next((word.partition("=")[2] for word in words if word.startswith("--query-compute-apps=")), "")
    if asked:
        held = [
            {"gpu_uuid": card["uuid"], "pid": pid, "process_name": name, "name": name, "used_memory": used}
            for pid, kind, used, name in processes()
            if "C" in kind
        ]
        return 0, "".join(", ".join(one[field] for field in asked.split(",")) + "\n" for one in held)
    if words == ["-q", "-x"]:
        return 0, report(card)
    return 0, f"GPU 0: {card['name']} (UUID: {card['uuid']})\n"


def main() -> None:
    told = read(STATE + "answer")
    if told:
        seconds, code, out = told.split("\n", 2)
        time.sleep(float(seconds))
        status = int(code)
    else:
        status, out = answer(sys.argv[1:])
    sys.stdout.write(out)
    sys.exit(status)


main()
