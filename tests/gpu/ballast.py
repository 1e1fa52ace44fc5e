"""Holds a card's memory until it is ended, all but some MiB: so a big card is a small one. Runs there.

python3 -m tests.gpu.ballast LEFT_FREE_MIB

By the CUDA driver's own interface (cuda.h), so that it needs no package; prints what it holds once it does.
"""

from __future__ import annotations

import ctypes
import signal
import sys

from tests.gpu.results import fail

LIBRARY = "libcuda.so.1"
SPARE = 64  # MiB: the driver may round up


def main() -> None:
    left = int(sys.argv[1])
    try:
        cuda = ctypes.CDLL(LIBRARY)
    except OSError as error:
        fail(f"the driver's library cannot be loaded: {error}")

    def call(name: str, *arguments: object) -> None:
        if status := getattr(cuda, name)(*arguments):
            fail(f"{name} of the CUDA driver ended with {status}")

    card, context, held = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(card), 0)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, card)
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    size = (free.value >> 20) - left
    if size < SPARE:
        fail(f"the card has {free.value >> 20} MiB free, and more than {left + SPARE} are needed to leave {left}")
    call("cuMemAlloc_v2", ctypes.byref(held), ctypes.c_size_t(size << 20))
    print(size, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
