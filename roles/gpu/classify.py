"""What an NVIDIA driver's state is called, judged by exit codes and versions, never by the wording of a message.

Exit codes are NVML's (nvidia-ml-py; the numbers are part of its interface). The wording changed in driver 595, and the
same mismatch may read as "couldn't communicate with the NVIDIA driver" there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from roles.gpu.observe import FIELDS, GpuSeen

State = Literal["none", "healthy", "mismatch", "not loaded", "no devices", "lost", "refused", "mig", "unknown"]

# exit code: state, what it means, what to do
CODES: dict[int, tuple[State, str]] = {
    2: ("unknown", "nvidia-smi does not know a field that was asked for; drivers before 470 are too old for Paddock"),
    4: ("refused", "this user may not use the GPU; it takes the groups that own /dev/nvidia*"),
    6: ("no devices", "the driver is loaded and finds no GPU; it is switched off, or the driver does not know it"),
    8: ("lost", "the GPU has not all of its power cables"),
    9: ("not loaded", "the NVIDIA kernel module is not loaded"),
    12: ("unknown", "libnvidia-ml.so.1 is missing: the driver's libraries are not installed whole"),
    14: ("lost", "the GPU's own memory (infoROM) is corrupt"),
    15: ("lost", "the GPU has fallen off the bus; only a power cycle brings it back"),
    16: ("lost", "the GPU must be reset; a reboot does it"),
    17: ("refused", "the operating system or a control group blocks the GPU"),
    18: ("mismatch", "the loaded NVIDIA kernel module and the driver's libraries are of different versions"),
}


@dataclass(frozen=True)
class Gpu:
    """One card. Memory in MiB; a value that the driver does not tell is None."""

    index: int | None
    uuid: str
    name: str
    compute_cap: str | None
    memory_total: int | None
    memory_used: int | None
    pcie_gen: tuple[int | None, int | None]
    pcie_width: tuple[int | None, int | None]
    mig: bool
    display: bool


@dataclass(frozen=True)
class Holder:
    """A process that holds VRAM. `kind`: C compute, G graphics, C+G both; `used` in MiB."""

    pid: int
    kind: str
    name: str
    used: int | None


@dataclass(frozen=True)
class Nvidia:
    """The state, the sentence about it (empty where healthy or none), and what there is."""

    state: State
    why: str = ""
    driver: str | None = None
    gpus: tuple[Gpu, ...] = ()
    holders: tuple[Holder, ...] = ()

    @property
    def present(self) -> bool:
        """There is a card, or somebody meant there to be one."""
        return self.state != "none"


def classify(seen: GpuSeen) -> Nvidia:
    """Total: whatever the host said, there is a state for it."""
    driver = loaded_version(seen)
    library = next((version for version in seen.libraries.values() if version), None)
    if driver and library and driver != library:
        return Nvidia(
            "mismatch", f"the loaded NVIDIA module is {driver} and the driver's libraries are {library}", driver
        )
    table = seen.table
    if table is None:
        return _without_tool(seen, driver)
    if table.rc is None:
        return Nvidia("lost", "nvidia-smi hangs: the GPU does not answer; only a power cycle brings it back", driver)
    if table.rc != 0:
        state, why = CODES.get(table.rc, ("unknown", f"nvidia-smi ended with {table.rc}: {_first_line(table.out)}"))
        if state == "not loaded" and seen.nouveau:
            why = "nouveau drives the card, and CUDA needs NVIDIA's own driver"
        return Nvidia(state, why, driver)
    gpus = rows(table.out)
    if not gpus:
        return Nvidia("unknown", f"nvidia-smi lists no GPU that can be read: {_first_line(table.out)}", driver)
    found = Nvidia("healthy", "", driver or _driver(table.out), gpus, holders(seen.xml.out if seen.xml else ""))
    if any(gpu.mig for gpu in gpus):
        names = ", ".join(gpu.name for gpu in gpus if gpu.mig)
        return Nvidia(
            "mig", f"{names} is split by MIG, which Paddock does not plan for", found.driver, gpus, found.holders
        )
    return found


def _without_tool(seen: GpuSeen, driver: str | None) -> Nvidia:
    if seen.nouveau and seen.cards:
        return Nvidia("not loaded", "nouveau drives the card, and CUDA needs NVIDIA's own driver")
    if driver:
        return Nvidia("unknown", f"the NVIDIA module {driver} is loaded, and nvidia-smi is not installed", driver)
    if seen.cards or any(seen.libraries.values()):
        return Nvidia("not loaded", "there is an NVIDIA card and no driver that runs; install your distribution's")
    return Nvidia("none")


def loaded_version(seen: GpuSeen) -> str | None:
    """Of the kernel module that runs, by sysfs or else by the first line in /proc."""
    if seen.loaded:
        return seen.loaded
    found = re.search(r"Module\S*\s+(?:\S+\s+)*?(\d+\.\d[\d.]*)", _first_line(seen.proc_version or ""))
    return found[1] if found else None


def rows(text: str) -> tuple[Gpu, ...]:
    """The GPUs of nvidia-smi's table. Lines that are no row (warnings come first) are passed over."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",", len(FIELDS) - 1)]
        if len(fields) != len(FIELDS) or not fields[1].startswith("GPU-"):
            continue
        row = dict(zip(FIELDS, fields, strict=True))
        found.append(
            Gpu(
                index=_number(row["index"]),
                uuid=row["uuid"],
                name=row["name"],
                compute_cap=row["compute_cap"] if re.fullmatch(r"\d+\.\d+", row["compute_cap"]) else None,
                memory_total=_number(row["memory.total"]),
                memory_used=_number(row["memory.used"]),
                pcie_gen=(_number(row["pcie.link.gen.current"]), _number(row["pcie.link.gen.max"])),
                pcie_width=(_number(row["pcie.link.width.current"]), _number(row["pcie.link.width.max"])),
                mig=row["mig.mode.current"] == "Enabled",
                display=row["display_active"] == "Enabled",
            )
        )
    return tuple(found)


def holders(xml: str) -> tuple[Holder, ...]:
    """Who holds VRAM, compute and graphics alike, from `nvidia-smi -q -x`. Read by pattern: the text is not ours."""
    found = []
    for block in re.findall(r"<process_info>(.*?)</process_info>", xml, re.S):
        values = dict(re.findall(r"<(pid|type|process_name|used_memory)>\s*(.*?)\s*</", block, re.S))
        if (values.get("pid") or "").isdecimal():
            used = re.match(r"\d+", values.get("used_memory", ""))
            name = values.get("process_name", "")
            found.append(Holder(int(values["pid"]), values.get("type", ""), name, int(used[0]) if used else None))
    return tuple(sorted(found, key=lambda holder: -(holder.used or 0)))


def _driver(text: str) -> str | None:
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",", len(FIELDS) - 1)]
        if len(fields) == len(FIELDS) and fields[1].startswith("GPU-"):
            return fields[3]
    return None


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing"])[0][:200]
