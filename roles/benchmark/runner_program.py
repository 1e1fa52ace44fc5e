"""Runs on the host, in a transient unit: measures llama-server as it is served, and adds one line to the history.

Killed anywhere and run again, a full run goes on where it was: each pass is kept when it is done. What to do comes as
JSON in the first argument; the text is in TEXT, packed.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from typing import Any

from roles.benchmark.bench_program import llama_bench
from roles.benchmark.flags_program import of_machine, of_rows, on_battery
from roles.benchmark.passes_program import Measure, needed, rows
from roles.benchmark.sampler_program import Process
from roles.benchmark.server_program import NotAsExpected, Server, TooLate
from roles.benchmark.watch_program import Watch

TEXT = ""
ENOUGH = 16  # tokens generated where a machine is too slow for more


def fail(sentence: str) -> None:
    sys.stdout.write("paddock: " + sentence + "\n")
    sys.exit(1)


def say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


def depth_name(depth: int) -> str:
    return "empty" if not depth else f"{depth // 1024}k" if depth % 1024 == 0 else str(depth)


class Part:
    """A run under way: what it has measured so far, in a file beside the history."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.path = os.path.expanduser(job["history"]) + ".part"
        self.digest = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()
        now = time.gmtime()
        self.state: dict[str, Any] = {"job": self.digest, "passes": [], "flags": [], "left_out": [], "watch": {}}
        self.state.update(run=time.strftime("%Y%m%dT%H%M%SZ", now) + f"-{os.getpid()}", interrupted=0)
        self.state["test_time"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", now)
        with contextlib.suppress(OSError, ValueError):
            with open(self.path) as file:
                before = json.load(file)
            if job["kind"] != "smoke" and before["job"] == self.digest:  # a smoke run is quicker measured anew
                self.state = before
                self.state["interrupted"] += 1

    def save(self, watch: Watch) -> None:
        self.state["watch"] = watch.state()
        with open(self.path + ".new", "w") as file:
            json.dump(self.state, file)
        os.replace(self.path + ".new", self.path)

    def done(self, depth: int, turn: int) -> bool:
        return any((one["n_depth"], one["turn_of"]) == (depth, turn) for one in self.state["passes"])


def measure(job: dict[str, Any], part: Part, measured: Measure, watch: Watch) -> None:
    """All passes that are still to do, as far as time and memory go. Raises NotAsExpected and OSError."""
    try:
        measured.warm_up(max(job["depths"]), job["seconds"] or 3600)
        for _ in passes(job, part, measured, watch):
            add_flags(part, measured)
            part.save(watch)
    except (NotAsExpected, OSError):
        if watch.near is None:
            raise
    if watch.near:
        part.state["left_out"].append(f"all from {watch.what} on: {watch.near}")
        measured.flags.append({"flag": "near_cap", "why": watch.near})
    add_flags(part, measured)


def add_flags(part: Part, measured: Measure) -> None:
    part.state["flags"] += [each for each in measured.flags if each not in part.state["flags"]]


def passes(job: dict[str, Any], part: Part, measured: Measure, watch: Watch) -> Iterator[None]:
    """Every depth once, then once more; it comes back after each pass."""
    state, budget = part.state, job["seconds"]
    tokens = state["tokens"] = few_enough(job, measured)
    todo = [(turn, depth) for turn in range(job["repetitions"]) for depth in job["depths"]]
    todo = [(turn, depth) for turn, depth in todo if not part.done(depth, turn)]
    for at, (turn, depth) in enumerate(todo):
        if watch.near:
            return
        needs = measured.estimate(depth, tokens)
        left = budget - watch.duration if budget else 3600 + 20 * needs
        left = left if state["passes"] else max(left, 30)
        if needs > left and (state["passes"] or depth):
            if not turn:
                why = f"it takes about {needs / 60:.1f} minutes, too long for a smoke run"
                state["left_out"].append(f"{depth_name(depth)}: {why}")
            continue
        what = f"{depth_name(depth)}, pass {turn + 1} of {job['repetitions']}"
        watch.progress(what, sum(measured.estimate(each, tokens) for _, each in todo[at:]))
        try:
            one = measured.one(depth, turn, tokens, left)
            state["passes"].append(one)
            why = ", the next turn: no time was left for it" if one.pop("late", False) else ""
        except TooLate:
            why = f": it took longer than {left:.0f} s"
        if why and not (turn and budget):  # a smoke run has its figures from the first turn
            state["left_out"].append(depth_name(depth) + why)
        yield


def few_enough(job: dict[str, Any], measured: Measure) -> int:
    """Tokens to generate per figure: fewer where all of a smoke run's time would not do for them."""
    tokens, speed = int(job["tokens"]), measured.speeds["tg"]
    if not job["seconds"] or tokens / speed <= job["seconds"] / 4:
        return tokens
    fewer = max(min(tokens, ENOUGH), min(tokens, int(speed * job["seconds"] / 8)))
    if fewer < tokens:
        why = f"{fewer} tokens were generated per figure, not {tokens}: {speed:.1f} a second"
        measured.flags.append({"flag": "few_tokens", "why": why})
    return fewer


def text_ids(server: Server, wanted: int) -> list[int]:
    ids: list[int] = server.ask("/tokenize", {"content": zlib.decompress(base64.b64decode(TEXT)).decode()}, 300)[
        "tokens"
    ]
    if len(ids) < wanted:
        raise NotAsExpected(f"the text makes {len(ids)} tokens, and {wanted} are needed; set smaller benchmark_depths")
    return ids


def about(server: Server, n_ctx: int) -> dict[str, Any]:
    """What the server says of itself, by llama-bench's names."""
    props = server.ask("/props")
    build = re.match(r"b(\d+)-(\w+)", props.get("build_info", ""))
    meta = (server.ask("/v1/models").get("data") or [{}])[0].get("meta") or {}
    told = {"build_number": int(build.group(1)), "build_commit": build.group(2)} if build else {}
    sizes = {"model_size": int(meta.get("size") or 0), "model_n_params": int(meta.get("n_params") or 0), "n_ctx": n_ctx}
    return {**told, **sizes, "model_ftype": props.get("model_ftype") or ""}


def append(path: str, line: str) -> None:
    """A leading line break where the last writer was killed in the middle: its torn line stays the only one lost."""
    with open(path, "ab+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        torn = file.read(1) not in (b"", b"\n")
        file.write(("\n" if torn else "").encode() + line.encode() + b"\n")


def spent() -> dict[str, float]:
    """What the measuring itself took: its own processor time and memory."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return {"cpu_seconds": round(seconds, 2), "peak_bytes": own.ru_maxrss * 1024}


def run(job: dict[str, Any]) -> None:
    process = Process(job["unit"], job["manager"])
    if not process.pid:
        fail("llama-server does not run, so there is nothing to measure")
    part, server = Part(job), Server(job["url"], job["key_file"])
    server.wait()
    n_ctx = server.ask("/props")["default_generation_settings"]["n_ctx"]
    sizes = {"n_ctx": n_ctx, "n_ubatch": job["about"]["n_ubatch"]}
    ids = text_ids(server, needed(job["depths"], job["repetitions"], sizes["n_ubatch"]))
    bos = server.ask("/tokenize", {"content": "", "add_special": True})["tokens"][:1]
    watch, battery, began = Watch(process, part.state["watch"], server.stop), on_battery(), time.monotonic()
    measured = Measure(server, watch, ids, bos, sizes)
    watch.start()
    try:
        measure(job, part, measured, watch)
    finally:
        watch.end()
    cost = {**spent(), "seconds": round(time.monotonic() - began, 1)}
    state = part.state
    if not state["passes"]:
        fail("nothing could be measured: " + "; ".join(state["left_out"]))
    told = about(server, n_ctx)
    if job["bench"] and "llama_bench" not in state:
        say("llama-bench; the service is stopped meanwhile")
        state["llama_bench"], why = llama_bench(job["unit"], job["bench"], job["bench_seconds"])
        if why:
            state["left_out"].append(why)
        part.save(watch)
        server.wait()
    record(job, part, told, watch, cost, [process.quota, battery or on_battery()])


def record(
    job: dict[str, Any], part: Part, told: dict[str, Any], watch: Watch, cost: dict[str, float], machine: list[Any]
) -> None:
    """One more line in the history."""
    state, resources = part.state, watch.resources()
    figures = rows(state["passes"], state["tokens"])
    flags = state["flags"] + of_machine(resources, watch.counts, *machine) + of_rows(figures)
    kind = " ".join(filter(None, [job["about"].get("model_type", ""), told.pop("model_ftype")]))
    kept = {name: state[name] for name in ("run", "test_time", "interrupted", "left_out")}
    line = {
        **{name: job[name] for name in ("schema", "kind")},
        **kept,
        "duration": round(watch.state()["duration"], 1),
        **job["about"],
        **told,
        "model_type": kind,
        **{name: job[name] for name in ("depths", "repetitions")},
        "tokens": job["tokens"],
        "rows": figures,
        "llama_bench": state.get("llama_bench", []),
        "resources": resources,
        "flags": flags,
        "runner": cost,
    }
    append(os.path.expanduser(job["history"]), json.dumps(line))
    with contextlib.suppress(OSError):
        os.unlink(part.path)


def main() -> None:
    os.environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    try:
        run(json.loads(sys.argv[1]))
    except TooLate:
        fail("llama-server takes too long for a few tokens, so nothing was measured")
    except NotAsExpected as error:
        fail(str(error))
    except (OSError, subprocess.SubprocessError) as error:
        fail(f"the benchmark broke off: {error}; run it again")
    except (KeyError, TypeError, ValueError) as error:
        fail(f"llama-server did not answer as expected: {error!r}")


if __name__ == "__main__":
    main()
