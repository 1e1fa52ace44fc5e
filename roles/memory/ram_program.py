"""Goes to the host after oracle_program.py: what llama-fit-params does not print of the RAM, asked for with its help.

Both are differences of two answers, so that nothing of llama.cpp's arithmetic is done again here. MiB.
"""

from __future__ import annotations

from typing import Any

from roles.memory.oracle_program import Oracle

CELLS = 256  # llama.cpp rounds a context up to so many tokens (GGML_PAD in src/llama-kv-cache.cpp)


def state(oracle: Oracle, split: dict[str, Any], context: int, ubatch: int) -> int:
    """What of all contexts does not grow with -c: recurrent state, and the tokens that sliding windows look at. Their
    cache has room for a batch beside those, which no checkpoint holds."""
    cells = str(-(-context // CELLS) * CELLS * 2)
    once, twice = (contexts(oracle.ask(split, changes)) for changes in ({}, {"-c": cells}))
    constant = sum(max(2 * one - two, 0) for one, two in zip(once, twice))  # noqa: B905 (Python 3.8)
    if not constant:
        return 0
    half = contexts(oracle.ask(split, {"-c": cells, "-ub": str(max(ubatch // 2, 1))}))
    return max(constant - 2 * (sum(twice) - sum(half)), 0) + 1  # the figures are cut down to whole MiB


def contexts(answer: dict[str, Any]) -> list[int]:
    """MiB of context on the host and on each device."""
    return [answer["host"][1], *(share[1] for _, share in sorted(answer["devices"].items()))]


def repacked(oracle: Oracle, split: dict[str, Any], job: dict[str, Any]) -> int:
    """Weights that the CPU copies into an order of its own, K-quants for one: they are in no line of the answer, and
    without --no-repack they are missing in the host's. Where a card has a host buffer, none are."""
    asked_for = {"-nr", "--no-repack"} & {*job["extra"]}
    plain_buffers = job["backend"] != "cuda" or "--no-host" in job["extra"]
    if asked_for or not plain_buffers or "--no-repack" not in oracle.knows:
        return 0
    as_it_is, in_the_file = oracle.ask(split, {}), oracle.ask(split, {}, ("--no-repack",))
    more: int = in_the_file["host"][0] - as_it_is["host"][0]
    return max(more, 0)
