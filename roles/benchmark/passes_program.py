"""Runs on the host: what is measured at one depth, and how long it will take."""

from __future__ import annotations

import statistics
import time
from typing import Any

from roles.benchmark.flags_program import late
from roles.benchmark.server_program import NotAsExpected, Pass, Server, TooLate
from roles.benchmark.watch_program import Watch

TURN = 256  # tokens of a later turn
SHIFT = 61  # tokens between the beginnings of two passes' prompts: none has another's beginning
WARM_UP = (512, 8)  # tokens to read and to generate, thrown away
KEPT = 0.9  # of a depth, from the cache: a sliding window goes on from a checkpoint a few tokens before the end
FEWEST = 64  # tokens below which reading is no figure


class Measure:
    """Passes through the server. `ids`: the text's tokens; `bos`: what a prompt begins with; `n_ctx`, `n_ubatch`."""

    def __init__(self, server: Server, watch: Watch, ids: list[int], bos: list[int], sizes: dict[str, int]) -> None:
        self.server, self.watch, self.ids, self.bos, self.sizes = server, watch, ids, bos, sizes
        self.cached = True
        self.speeds: dict[str, float] = {}
        self.flags: list[Any] = []

    def room(self, depth: int, tokens: int) -> int:
        """Tokens that the next turn may read, after a depth and its reply."""
        return self.sizes["n_ctx"] - depth - tokens - TURN - 16

    def at_depth(self, depth: int, tokens: int) -> int:
        """Tokens of the figure at a depth: a whole batch, as far as the context goes."""
        return min(self.sizes["n_ubatch"], self.room(depth, tokens))

    def estimate(self, depth: int, tokens: int) -> float:
        """Seconds of one pass, by the slowest reading and generating so far."""
        more = TURN + max(self.at_depth(depth, tokens), 0) + 16 if depth and self.room(depth, tokens) >= 0 else 0
        return (depth + more) / self.speeds["pp"] + tokens / self.speeds["tg"]

    def learn(self, one: Pass) -> None:
        for name, speed in (("pp", one.pp), ("tg", one.tg)):
            if speed > 0 and (name == "tg" or one.timings["prompt_n"] >= FEWEST):
                self.speeds[name] = speed

    def warm_up(self, deepest: int, seconds: float) -> None:
        """Pages are read in, buffers made, clocks up; and the speeds are known roughly."""
        prompt = self.ids[-max(min(WARM_UP[0], deepest), 16) :]
        one = self.server.complete(prompt, WARM_UP[1], False, seconds)
        self.speeds["pp"] = max(one.pp, 0.1)
        self.learn(one)
        self.speeds.setdefault("tg", 0.1)

    def one(self, depth: int, turn: int, tokens: int, seconds: float) -> dict[str, Any]:
        """A cold pass at a depth, then the next turn, then reading a batch more, in so many seconds altogether; `late`
        is set where they did not do for all of it. Raises NotAsExpected, and TooLate where they did for nothing."""
        begin, end = turn * SHIFT, time.monotonic() + seconds
        prompt = (self.bos + self.ids[begin:])[: max(depth, 1)]
        self.watch.phase("pp" if depth else "tg", depth)
        cold = self.server.complete(prompt, tokens, False, seconds)
        timings = cold.timings
        if timings["cache_n"] or timings["prompt_n"] != len(prompt) or timings["predicted_n"] != tokens:
            raise NotAsExpected(
                f"the figures at depth {depth} cannot be trusted: {timings['cache_n']} tokens came from the cache,"
                f" {timings['prompt_n']} of {len(prompt)} were read, {timings['predicted_n']} of {tokens} generated"
            )
        self.learn(cold)
        self.compare(cold, depth)
        if depth:
            # One request has both; where generating began is known when it is over.
            self.watch.seen["phases"].append(
                {"second": round(self.watch.duration - cold.rest, 1), "what": "tg", "n_depth": depth}
            )
        told: dict[str, Any] = {"n_depth": depth, "turn_of": turn, "tg": [cold.tg, cold.tg_wall]}
        if depth:
            told["pp"] = [cold.pp, cold.pp_wall]
            if len(cold.reply) == tokens:
                try:
                    self.later(told, prompt + cold.reply, begin + depth, tokens, end)
                except TooLate:
                    told["late"] = True
        return told

    def later(self, told: dict[str, Any], so_far: list[int], at: int, tokens: int, end: float) -> None:
        """What comes after a reply: a turn as people have it, and a batch for the speed of reading at this depth.
        `end`: when it must be over, by the monotonic clock. Raises NotAsExpected, TooLate."""
        depth = told["n_depth"]
        if not self.cached or self.room(depth, tokens) < 0:
            return
        self.watch.phase("turn", depth)
        prompt = so_far + self.ids[at : at + TURN]
        turn = self.server.complete(prompt, 8, True, left(end))
        told["turn"] = [turn.first, turn.timings["cache_n"]]
        if turn.timings["cache_n"] < KEPT * depth:
            self.cached = False  # it would read all of it again, each time
            why = f"at {depth}: the next turn found {turn.timings['cache_n']} of {len(so_far)} tokens in the cache"
            self.flags.append({"flag": "no_prompt_cache", "why": why})
            return
        batch = self.at_depth(depth, tokens)
        if batch >= FEWEST:
            self.watch.phase("pp_at", depth)
            more = prompt + turn.reply + self.ids[at + TURN : at + TURN + batch]
            read = self.server.complete(more, 1, True, left(end))
            if read.timings["cache_n"] >= KEPT * depth and read.timings["prompt_n"] >= batch:
                told["pp_at"] = [read.pp, read.pp_wall, read.timings["prompt_n"], read.timings["cache_n"]]

    def compare(self, one: Pass, depth: int) -> None:
        if found := late(one.disagreement, one.seconds, depth):
            self.flags.append(found)


def left(end: float) -> float:
    """Seconds until then; a moment where it is over, since a socket waits for ever with none."""
    return max(end - time.monotonic(), 0.01)


def needed(depths: list[int], repetitions: int, n_ubatch: int) -> int:
    """Tokens of text that a run takes."""
    return max(depths) + repetitions * SHIFT + TURN + n_ubatch + 64


def rows(passes: list[dict[str, Any]], tokens: int) -> list[dict[str, Any]]:
    """The figures of each depth, as the record has them."""
    found = []
    for depth in dict.fromkeys(one["n_depth"] for one in passes):
        here = [one for one in passes if one["n_depth"] == depth]
        row: dict[str, Any] = {"n_depth": depth, "tg": figure(here, "tg", n_gen=tokens, n_depth=depth)}
        if depth:
            row["pp"] = figure(here, "pp", n_prompt=depth)
        if batches := [one["pp_at"][2:] for one in here if "pp_at" in one]:
            row["pp_at"] = figure(here, "pp_at", n_prompt=batches[0][0], n_depth=batches[0][1])
        if turns := [one["turn"] for one in here if "turn" in one]:
            seconds, cached = [round(turn[0], 4) for turn in turns], [turn[1] for turn in turns]
            row["turn"] = {"n_prompt": TURN, "n_depth": depth, "seconds": seconds, "cache_n": cached}
        found.append(row)
    return found


def figure(passes: list[dict[str, Any]], name: str, **what: int) -> dict[str, Any]:
    samples = [round(one[name][0], 3) for one in passes if name in one]
    wall = [None if one[name][1] is None else round(one[name][1], 3) for one in passes if name in one]
    apart = statistics.stdev(samples) if len(samples) > 1 else 0.0
    told = {"samples_ts": samples, "wall_ts": wall, "avg_ts": round(statistics.mean(samples), 3)}
    return {**what, **told, "stddev_ts": round(apart, 3)}
