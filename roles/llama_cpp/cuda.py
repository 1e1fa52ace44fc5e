"""Which CUDA toolkit may build for which card under which driver.

Sources: NVIDIA's "CUDA compatibility" (minimum drivers), the architecture lists of nvcc 12.6 to 13.5, and the end of
Maxwell, Pascal and Volta in CUDA 13 and of everything before Turing in driver 590.
"""

from __future__ import annotations

from dataclasses import dataclass

from roles.gpu.classify import Gpu

MINIMUM_DRIVER = {13: 580, 12: 525, 11: 450}  # by major version of the toolkit
FIRST_TOOLKIT = {12.0: (12, 8), 10.0: (12, 8), 9.0: (11, 8), 8.9: (11, 8), 8.0: (11, 0)}  # by compute capability
TURING = 7.5


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit. `gcc_max`: the newest gcc that its own header allows; None where it does not say."""

    nvcc: str
    version: str
    gcc_max: int | None = None

    @property
    def root(self) -> str:
        return self.nvcc.rsplit("/bin/", 1)[0]

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split("."))


def unsupported(toolkit: Toolkit, gpu: Gpu, driver: str | None) -> str | None:
    """Why this toolkit cannot build for this card, or its code not run under this driver; None where it can."""
    major, name = toolkit.number[0], f"CUDA {toolkit.version}"
    if gpu.compute_cap is not None:
        capability = float(gpu.compute_cap)
        if major >= 13 and capability < TURING:
            return f"{name} has no code for {gpu.name} (compute capability {gpu.compute_cap}, it begins at {TURING})"
        for begin, first in FIRST_TOOLKIT.items():
            if capability >= begin:
                if toolkit.number[:2] < first:
                    first_name = ".".join(map(str, first))
                    return f"{name} does not know {gpu.name} (compute capability {gpu.compute_cap}, from {first_name})"
                break
    if driver and int(driver.split(".")[0]) < MINIMUM_DRIVER.get(major, 0):
        return f"{name} needs driver {MINIMUM_DRIVER[major]} or newer, and {driver} is loaded"
    return None


def driver_dropped(gpu: Gpu, driver: str | None) -> str | None:
    """Driver 590 supports Turing and newer alone."""
    if driver and gpu.compute_cap and int(driver.split(".")[0]) >= 590 and float(gpu.compute_cap) < TURING:
        return (
            f"driver {driver} does not support {gpu.name} (compute capability {gpu.compute_cap});"
            " it takes the 580 branch (Arch: nvidia-580xx-dkms) and CUDA 12"
        )
    return None
