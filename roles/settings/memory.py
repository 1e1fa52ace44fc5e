"""The keys of the memory role: what the plan may take, and what it leaves to others."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from roles.settings.base import Record, key
from roles.settings.values import Auto, Size


class Memory(Record):
    """What the model may take of each device's memory and of the RAM."""

    vram_reserve_mib: Annotated[int, Field(ge=0)] | Auto = key(
        "auto", "VRAM left to the desktop, MiB; auto is by whether a display is attached", 768
    )
    vram_margin_mib: int = key(256, "VRAM left free beside that, MiB", 128, ge=0)
    vram_limit_mib: Annotated[int, Field(ge=1)] | None = key(
        None, "VRAM that all of it may take of each device, MiB; None is what the device has", 4096
    )
    ram_reserve: Size = key("2G", "RAM left to everything else on the host", "4G")
    memory_check: Literal["refuse", "warn"] = key(
        "refuse", "what becomes of a plan that does not fit: refused, or said and done all the same", "warn"
    )
