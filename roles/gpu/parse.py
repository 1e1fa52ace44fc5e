"""What nvidia-smi and the driver's files say, as records. Total: what is not understood is left out, and no error."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from roles.gpu.observe import FIELDS, GpuSeen

VERSION = re.compile(r"[0-9]{2,5}(\.[0-9]{1,5}){1,3}")


@dataclass(frozen=True)
class Gpu:
    """One card. Memory in MiB; PCIe link as now and at most; a value that the driver does not tell is None."""

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
    """A process that holds VRAM. `kind`: C compute, G graphics, C+G both; `used` in MiB.

    `name` is the program without its options, which are private. `purpose` is what Chrome and its kin tell of a
    process: the value of --utility-sub-type, or else of --type. `gpu`: the card's UUID.
    """

    pid: int
    kind: str
    name: str
    used: int | None
    purpose: str = ""
    gpu: str = ""


def loaded_version(seen: GpuSeen) -> str | None:
    """Of the kernel module that runs, by sysfs or else by the first line in /proc."""
    if loaded := version(seen.loaded):
        return loaded
    told = re.search(r"Module\b(.*)", first_line(seen.proc_version or ""))
    return next((word for word in told[1].split() if version(word)), None) if told else None


def version(text: str | None) -> str | None:
    """The text where it is a driver's version, as in 570.124.06."""
    return text if text and VERSION.fullmatch(text) else None


def rows(text: str) -> tuple[Gpu, ...]:
    """The GPUs of nvidia-smi's table."""
    return tuple(
        Gpu(
            index=_number(row["index"]),
            uuid=row["uuid"],
            name=row["name"],
            compute_cap=row["compute_cap"] if re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}", row["compute_cap"]) else None,
            memory_total=_number(row["memory.total"]),
            memory_used=_number(row["memory.used"]),
            pcie_gen=(_number(row["pcie.link.gen.current"]), _number(row["pcie.link.gen.max"])),
            pcie_width=(_number(row["pcie.link.width.current"]), _number(row["pcie.link.width.max"])),
            mig=row["mig.mode.current"] == "Enabled",
            display=row["display_active"] == "Enabled",
        )
        for row in _table(text)
    )


def table_version(text: str) -> str | None:
    """The driver's version by nvidia-smi's table."""
    return next((found for row in _table(text) if (found := version(row["driver_version"]))), None)


def holders(xml: str) -> tuple[Holder, ...]:
    """Who holds VRAM, compute and graphics alike, from `nvidia-smi -q -x`; the greediest first.

    Read by pattern: nothing says that a command line in it is escaped as XML wants it.
    """
    found = []
    for card in xml.split("<gpu id=")[1:]:
        head, *processes = card.split("<process_info>")
        for process in processes:
            pid, line = _number(_element(process, "pid")), html.unescape(_element(process, "process_name"))
            if pid is not None:
                used = _number(_element(process, "used_memory").removesuffix(" MiB"))
                name = line.partition(" -")[0]
                kind, uuid = _element(process, "type"), _element(head, "uuid")
                found.append(Holder(pid, kind, name, used, _purpose(line), uuid))
    return tuple(sorted(found, key=lambda holder: -(holder.used or 0)))


def first_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing"])[0][:120]


def _table(text: str) -> list[dict[str, str]]:
    """Lines that are no row are passed over: warnings, and cards of which nothing is told but an error."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",", len(FIELDS) - 1)]
        row = dict(zip(FIELDS, fields, strict=False))
        if len(fields) == len(FIELDS) and row["uuid"].startswith("GPU-"):
            found.append(row)
    return found


def _element(xml: str, name: str) -> str:
    """The text of the first element of this name; empty where there is none."""
    return xml.partition(f"<{name}>")[2].partition(f"</{name}>")[0].strip()


def _purpose(line: str) -> str:
    for option in ("--utility-sub-type=", "--type="):
        _, found, rest = line.partition(option)
        if found:
            return (rest.split() or [""])[0]
    return ""


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None
