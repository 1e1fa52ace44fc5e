"""What a service takes of the RAM, item by item, and the cap that holds it.

A cgroup is charged for all of it, but the kernel can take back only a part. Pages of the mapped model file it drops and
reads again; what is anonymous, pinned or locked stays until the process is killed. Sources: llama.cpp's
src/llama-model-loader.cpp (which buffer a weight gets) and tools/server/server-context.cpp (context checkpoints); its
issues #20490 (a CPU build copies what it repacks), #20509 (killed while it saved a prompt) and #24649 (checkpoints of
hybrid models); kekzl/imp#2070 (with CUDA 0.7 GiB anonymous beside 69 GiB of mapped file).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roles.memory.plan import Plan
from roles.settings import Memory, Service, size_in_bytes

CHECKPOINTS = 32  # llama.cpp's default of --ctx-checkpoints, for the one slot that is served
PROCESS = {"cuda": 512}  # MiB of the process itself: code, vocabulary, HTTP, and what the CUDA driver keeps
PROCESS_ELSE = 128  # after the start 19 to 27 were seen (docs/memory.md); long prompts come on top
SHARE = 75  # percent of the RAM where there is no plan: the seed's 24G of 32
MAPPED = "mapped from its file"
MIB = 1 << 20
STEP = 64 * MIB  # of RAM: each kernel keeps some MiB more or less of it to itself, which is no reason for another unit
GAP = 512 * MIB  # what lies between MemoryHigh and MemoryMax, or a sixteenth: for what no plan knows


@dataclass(frozen=True)
class Item:
    """One part, in MiB. What is not `fixed` are pages of the model's file."""

    name: str
    mib: int
    fixed: bool = True


@dataclass(frozen=True)
class Need:
    """All items. `fixed`: MiB that only a kill gives back; `whole`: MiB with which nothing is read twice."""

    items: tuple[Item, ...]

    @property
    def fixed(self) -> int:
        return sum(item.mib for item in self.items if item.fixed)

    @property
    def whole(self) -> int:
        return sum(item.mib for item in self.items)

    def __str__(self) -> str:
        return " + ".join(f"{item.name} {item.mib}" for item in self.items if item.fixed)


@dataclass(frozen=True)
class Limits:
    """The unit's limits in bytes. `high` is None where the kernel shall not throttle before it kills. `to_come`: which
    of these nobody knows before the plan is made."""

    maximum: int
    high: int | None
    swap: int
    to_come: tuple[str, ...] = ()


def needed(wanted: Service, backend: str, plan: Plan) -> Need:
    """What the service will take. `backend`: cuda, cpu or rpc, as the release is built."""
    return Need(tuple(item for item in _items(wanted, backend, plan) if item.mib))


def _items(wanted: Service, backend: str, plan: Plan) -> Iterator[Item]:
    how = loaded(wanted, backend)
    yield Item(f"model, {how}", plan.host.model, fixed=how != MAPPED)
    yield Item("model, repacked", plan.repacked)
    yield Item("context", plan.host.context)
    yield Item("compute", plan.host.compute)
    yield Item("prompt cache", wanted.cache_ram_mib)
    yield Item(f"{checkpoints(wanted)} context checkpoints", checkpoints(wanted) * plan.state)
    yield Item("process", PROCESS.get(backend, PROCESS_ELSE))


def loaded(wanted: Service, backend: str) -> str:
    """How the weights that stay on the CPU are held as they are in the file."""
    if wanted.load_mode == "mmap+mlock":
        return "locked"
    if wanted.load_mode in ("none", "mlock", "dio"):
        return "pinned" if backend == "cuda" else "copied"
    return MAPPED


def checkpoints(wanted: Service) -> int:
    """How many context checkpoints the server may hold, beside those in its prompt cache."""
    for option, value in zip(wanted.server_args, wanted.server_args[1:], strict=False):
        if option in ("-ctxcp", "--ctx-checkpoints", "--swa-checkpoints") and value.isdigit():
            return int(value)
    return CHECKPOINTS


def limits(wanted: Service, memory: Memory, total: int, oomd: bool, need: Need | None) -> Limits:
    """The unit's limits. `total`: the host's RAM in bytes; `oomd`: whether systemd-oomd runs there; `need` is None
    where nobody planned."""
    most = available(memory, total)
    if wanted.service_memory_max != "auto":
        cap = size_in_bytes(wanted.service_memory_max, of=total)
    elif need is None:
        cap = min(size_in_bytes(f"{SHARE}%", of=total), most) // STEP * STEP
    else:
        cap = min(holding(need), most)
    high = cap - gap(cap)
    # A process that grows where nothing can be taken back is throttled above MemoryHigh, and hangs where it should be
    # killed and come back; and throttling is the pressure that systemd-oomd kills for.
    throttles = not oomd and need is not None and high >= need.fixed * MIB
    return Limits(cap, high if throttles else None, size_in_bytes(wanted.service_memory_swap_max))


def available(memory: Memory, total: int) -> int:
    """Bytes of RAM beside what is left to everything else, in whole steps."""
    return max(total - size_in_bytes(memory.ram_reserve, of=total), 0) // STEP * STEP


def holding(need: Need) -> int:
    """The smallest cap in bytes below whose MemoryHigh everything fits."""
    whole = need.whole * MIB
    return max(whole + GAP, -(-whole * 16 // 15 // MIB) * MIB)


def gap(cap: int) -> int:
    """Bytes between MemoryHigh and MemoryMax."""
    return max(cap // 16, GAP) // MIB * MIB


def refusal(wanted: Service, memory: Memory, total: int, need: Need) -> str | None:
    """The sentence about what cannot be held at all."""
    most, cap = available(memory, total), limits(wanted, memory, total, False, need).maximum
    fixed = f"{need.fixed} MiB of RAM that cannot be taken back ({need})"
    if need.fixed * MIB > most:
        return (
            f"the service needs {fixed}, and ram_reserve={memory.ram_reserve} leaves {most // MIB} of"
            f" {total // MIB} MiB; {smaller(wanted, need)}"
        )
    if need.fixed * MIB > cap:
        enough = min(holding(need), most) // MIB
        return (
            f"service_memory_max={wanted.service_memory_max} is {cap // MIB} MiB and cannot hold the {fixed};"
            f" set it to {enough}M or to 'auto', or {smaller(wanted, need)}"
        )
    return None


def warning(wanted: Service, memory: Memory, total: int, oomd: bool, need: Need) -> str | None:
    """The sentence about a cap with which the service would run, and badly."""
    most, cap = available(memory, total), limits(wanted, memory, total, oomd, need).maximum
    told = []
    if cap >= most + STEP:
        told.append(
            f"service_memory_max={wanted.service_memory_max} leaves less than ram_reserve={memory.ram_reserve} to all"
            " else"
        )
    file = need.whole - need.fixed
    if need.fixed * MIB <= min(cap, most) < need.whole * MIB:
        room = min(cap, most) // MIB - need.fixed
        holder = "the RAM" if cap >= most else f"service_memory_max={wanted.service_memory_max}"
        killed = ", and systemd-oomd, which runs here, may kill it for that" if oomd else ""
        better = holding(need)
        how = f"service_memory_max='{better // MIB}M' holds them" if better <= most else "this RAM does not hold them"
        told.append(
            f"{file} MiB of the model's file are read by the CPU, and {holder} has room for {room}: they"
            f" would come from the disk again and again{killed}; {how}"
        )
    return "; ".join(told) or None


def smaller(wanted: Service, need: Need) -> str:
    """What would take less, the greatest part first."""
    greatest = sorted((item for item in need.items if item.fixed), key=lambda item: -item.mib)
    remedies = {
        "model, repacked": "add '--no-repack' to server_args, which leaves the weights in their file",
        "model, copied": "set load_mode='mmap'",
        "model, pinned": "set load_mode='mmap'",
        "model, locked": "set load_mode='mmap'",
        "context": "lower context or take cache_type_k and cache_type_v of fewer bits",
        "compute": "lower ubatch",
        "prompt cache": "lower cache_ram_mib",
        f"{checkpoints(wanted)} context checkpoints": "add '--ctx-checkpoints', '4' to server_args",
    }
    return next((remedies[item.name] for item in greatest if item.name in remedies), "take a smaller model")
