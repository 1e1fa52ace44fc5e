"""What an NVIDIA driver's state is called, judged by exit codes and versions, never by the wording of a message.

Exit codes are NVML's (nvidia-ml-py; the numbers are part of its interface). The wording changed in driver 595, and the
same mismatch may read as "couldn't communicate with the NVIDIA driver" there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roles.gpu.observe import GpuSeen, Tool
from roles.gpu.parse import Gpu, Holder, first_line, holders, loaded_version, rows, table_version, version

__all__ = ["Gpu", "Holder", "Nvidia", "State", "classify"]

State = Literal["none", "healthy", "mismatch", "not loaded", "no devices", "lost", "refused", "mig", "unknown"]

NOT_LOADED, NO_DEVICES, INFOROM = 9, 6, 14
# exit code: state, what it means, what to do
CODES: dict[int, tuple[State, str]] = {
    2: ("unknown", "nvidia-smi does not know a field that was asked for; Paddock needs a driver newer than 470"),
    4: ("refused", "this user may not use the GPU; it takes the groups that own /dev/nvidia*"),
    NO_DEVICES: ("no devices", "the driver is loaded and finds no GPU that works; the kernel's log tells why"),
    8: ("lost", "the GPU has not all of its power cables"),
    NOT_LOADED: ("not loaded", "the NVIDIA kernel module is not loaded"),
    12: ("unknown", "libnvidia-ml.so.1 is missing: the driver's libraries are not installed whole"),
    INFOROM: ("lost", "the GPU's own memory (infoROM) is corrupt"),
    15: ("lost", "the GPU has fallen off the bus; only a power cycle brings it back"),
    16: ("lost", "the GPU must be reset; a reboot does it"),
    17: ("refused", "the operating system or a control group blocks the GPU"),
    18: ("mismatch", "the loaded NVIDIA kernel module and the driver's libraries are of different versions"),
}
NO_CARD = "NVIDIA's driver is installed and no NVIDIA card is on the bus; it is switched off, unplugged, or lost"
NOUVEAU = "nouveau drives the card, and CUDA needs NVIDIA's own driver"


@dataclass(frozen=True)
class Nvidia:
    """The state, the sentence about it (empty where healthy or none), and what there is.

    `next_boot`: what the next boot will break, or not mend. `warnings`: what else to know of a GPU that works.
    """

    state: State
    why: str = ""
    driver: str | None = None
    gpus: tuple[Gpu, ...] = ()
    holders: tuple[Holder, ...] = ()
    next_boot: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def present(self) -> bool:
        """There is a card, or somebody meant there to be one."""
        return self.state != "none"


def classify(seen: GpuSeen, secure_boot: bool | None = None) -> Nvidia:
    """Total: whatever the host said, there is a state for it."""
    driver, table = loaded_version(seen), seen.table
    # With a corrupt infoROM the table is whole, and the card computes.
    gpus = rows(table.out) if table and table.rc in (0, INFOROM) else ()
    if differs := _differs(seen, driver, works=bool(gpus)):
        return Nvidia("mismatch", differs, driver, next_boot=_next_boot(seen))
    if table is None:
        return Nvidia(*_without_tool(seen, driver), driver)
    if not gpus:
        return Nvidia(*_trouble(seen, table, driver, secure_boot), driver)
    split = ", ".join(gpu.name for gpu in gpus if gpu.mig)
    return Nvidia(
        state="mig" if split else "healthy",
        why=f"{split} is split by MIG, which Paddock does not plan for" if split else "",
        driver=driver or table_version(table.out),
        gpus=gpus,
        holders=holders(seen.xml.out if seen.xml else ""),
        next_boot=_next_boot(seen),
        warnings=_warnings(seen, table),
    )


def _differs(seen: GpuSeen, driver: str | None, works: bool) -> str | None:
    """The sentence about a library that is not of the loaded module's version.

    Where nvidia-smi works, its own library fits, wherever that lies; CUDA's may still be another.
    """
    management, cuda = (version(seen.libraries.get(soname)) for soname in ("libnvidia-ml.so.1", "libcuda.so.1"))
    if not works and driver and management not in (None, driver):
        return f"the loaded NVIDIA module is {driver} and the driver's libraries are {management}"
    if driver and cuda not in (None, driver):
        return f"the loaded NVIDIA module is {driver} and CUDA's library, libcuda.so.1, is {cuda}"
    return None


def _without_tool(seen: GpuSeen, driver: str | None) -> tuple[State, str]:
    if driver:
        return "unknown", f"the NVIDIA module {driver} is loaded, and nvidia-smi is not installed"
    if seen.cards:
        return "not loaded", NOUVEAU if seen.nouveau else "there is an NVIDIA card and no driver; install NVIDIA's"
    return "none", ""


def _trouble(seen: GpuSeen, table: Tool, driver: str | None, secure_boot: bool | None) -> tuple[State, str]:
    """nvidia-smi is there and lists no GPU."""
    if table.rc is None:
        if table.err.startswith("[Errno"):  # Python's words, not the driver's
            return "unknown", f"nvidia-smi cannot be run: {first_line(table.err)}"
        return "lost", "nvidia-smi hangs: the GPU does not answer; only a power cycle brings it back"
    if table.rc == 0:
        return "unknown", f"nvidia-smi lists no GPU that can be read: {first_line(table.out)}"
    if table.rc in (NO_DEVICES, NOT_LOADED) and not seen.cards and not seen.wsl:
        return "no devices", NO_CARD
    if table.rc == NOT_LOADED:
        return _not_loaded(seen, driver, secure_boot)
    return CODES.get(table.rc) or ("unknown", f"nvidia-smi ended with {table.rc}: {first_line(table.out)}")


def _not_loaded(seen: GpuSeen, driver: str | None, secure_boot: bool | None) -> tuple[State, str]:
    if driver:
        return "unknown", f"the NVIDIA module {driver} is loaded, and nvidia-smi cannot reach it"
    why = CODES[NOT_LOADED][1]
    if seen.wsl:
        why = "the NVIDIA driver of Windows does not answer; update it there, then run `wsl --shutdown`"
    elif seen.nouveau:
        why = NOUVEAU
    elif seen.kernel in seen.modules and not seen.modules[seen.kernel]:
        why = f"the running kernel {seen.kernel} has no NVIDIA module; `dkms status` may tell why"
    elif secure_boot:
        why += "; Secure Boot is on, and loads a module only where its key is enrolled"
    return "not loaded", why


def _next_boot(seen: GpuSeen) -> str:
    """By the module on disk for the newest kernel, which the next boot brings."""
    kernel, modules = seen.kernel_newest, seen.modules
    if seen.wsl or kernel not in modules or not loaded_version(seen):
        return ""
    library = next((one for one in map(version, seen.libraries.values()) if one), None)
    if not modules[kernel]:
        # A module that runs and is not found either has a name that was not looked for.
        unseen = seen.kernel in modules and not modules[seen.kernel]
        return "" if unseen else f"kernel {kernel} has no NVIDIA module: after a boot into it there is no GPU"
    if library and version(modules[kernel]) not in (None, library):
        return (
            f"kernel {kernel} has the NVIDIA module {modules[kernel]} on disk and the driver's libraries are {library}:"
            " after a boot into it they do not fit"
        )
    return ""


def _warnings(seen: GpuSeen, table: Tool) -> tuple[str, ...]:
    found = []
    if not seen.wsl and "nvidia-uvm" not in seen.nodes:
        found.append(
            "/dev/nvidia-uvm is missing, without which CUDA finds no GPU; `sudo nvidia-modprobe -u -c 0` makes it"
        )
    if table.rc == INFOROM:
        found.append("nvidia-smi warns that a GPU's own memory (infoROM) is corrupt")
    return tuple(found)
