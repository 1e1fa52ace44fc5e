"""A part of the planner: what the model would be like on other cards. Here too the figures are llama.cpp's own; MiB
throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from roles.memory.fitting_program import LEAST_CONTEXT, first, ladder, room, split, taken, typical
from roles.memory.oracle_program import Oracle, fail

CARD = "card"  # what stands for a card where the release knows none
if TYPE_CHECKING:  # Python 3.8 cannot evaluate it
    Ask = Callable[[dict[str, Any], dict[str, str]], dict[str, Any]]


def on_cards(job: dict[str, Any], oracle: Oracle) -> list[dict[str, Any]]:
    """By the release's first device, which each card in turn is taken for."""
    if "--fit-print" not in oracle.knows:
        fail("this release of llama.cpp has no llama-fit-params --fit-print to ask (it came in April 2026, #22171)")
    if job["backend"] == "cpu":
        return explored(job, by_header(job, oracle.ask), CARD)
    devices = oracle.devices()
    if len(devices) > 1:
        oracle.words += ["-dev", devices[0]["device"]]
        oracle.found = devices[:1]
    return explored(job, closely(job, oracle), devices[0]["device"])


def closely(job: dict[str, Any], oracle: Oracle) -> Ask:
    """Answers with compute buffers as the server reserves them; those of the last split for its own context."""
    rungs = ladder(job)

    def answer(chosen: dict[str, Any], changes: dict[str, str]) -> dict[str, Any]:
        if chosen == rungs[-1]:
            return oracle.look_at(chosen, changes)
        oracle.look_closer(typical(rungs, job["layers"]), changes)
        return oracle.ask(chosen, changes)

    return answer


def explored(job: dict[str, Any], ask: Ask, device: str) -> list[dict[str, Any]]:
    """For each of `sizes`: the split that would be taken, None where none fits, what it takes, the share of the
    experts' bytes that would be on the card, and the largest context with the least on it. Every card is asked about
    the same splits, so that most answers serve for several."""
    rungs = ladder(job)
    found = []
    for size in job["sizes"]:
        free = room(size, job["reserve"], job["margin"], job["overhead"], None)

        def fits(rung: int, free: int = free) -> bool:
            return held(ask(rungs[rung], {}), device) <= free

        at = first(len(rungs), fits)
        chosen = None if at is None else rungs[at]
        found.append(
            {
                "size": size,
                "room": free,
                "split": chosen,
                "takes": held(ask(chosen, {}), device) if chosen else 0,
                "experts": share_of_experts(ask, device, rungs, chosen) if chosen and job["moe_layers"] else None,
                "context": largest_context(ask, device, rungs[-1], job, free),
            }
        )
    return found


def held(answer: dict[str, Any], device: str) -> int:
    return taken(answer["devices"].get(device, [0]))


def share_of_experts(ask: Ask, device: str, rungs: list[dict[str, Any]], chosen: dict[str, Any]) -> float:
    """Of 1: by what the model takes of the card with all of them, with none, and now."""
    asked = (rungs[0], chosen, rungs[-1])
    everything, now, nothing = (float(ask(rung, {})["devices"].get(device, [0])[0]) for rung in asked)
    return (now - nothing) / max(everything - nothing, 1)


def largest_context(ask: Ask, device: str, last: dict[str, Any], job: dict[str, Any], free: int) -> int:
    """Tokens, whole 1024; 0 where not even a small one fits. Context and compute buffers grow in a straight line, and
    what that tells is asked about before it is believed."""
    context, trained = job["context"], job["trained"]
    need, less = (held(ask(last, changes), device) for changes in ({}, {"-c": str(context // 2)}))
    per_token = (need - less) / (context - context // 2)
    if per_token <= 0:
        return trained if need <= free else 0
    tokens = context // 2 + (free - less) / per_token
    for _ in range(3):
        tokens = min(int(tokens), trained or int(tokens)) // 1024 * 1024
        if tokens < LEAST_CONTEXT:
            return 0
        over = held(ask(last, {"-c": str(tokens)}), device) - free
        if over <= 0:
            return int(tokens)
        tokens -= over / per_token
    return 0


def questions(job: dict[str, Any]) -> int:
    """How many there are at most."""
    rungs = len(ladder(job))
    return len(job["sizes"]) * (rungs.bit_length() + 6) + 6


def by_header(job: dict[str, Any], ask: Ask) -> Ask:
    """What stands for a card where the release has none: the header's weights, and cache and compute buffers as on the
    CPU."""

    def answer(chosen: dict[str, Any], changes: dict[str, str]) -> dict[str, Any]:
        host = ask(split(0), changes)["host"]
        weights = job["dense_bytes"] + sum(job["expert_bytes"][chosen["n_cpu_moe"] or 0 :])
        return {"devices": {CARD: [-(-weights >> 20), host[1], host[2]]}}

    return answer
