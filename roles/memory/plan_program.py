"""Runs on the host, after the other parts: makes one plan and records it.

The model is its own file where that is there, and otherwise a twin: its header, then nothing up to its full size. What
to plan comes as JSON in the first argument. Where nothing fits and `ask_on` says that smaller quantizations are asked
about too, the plan is printed alone; it comes back as `asked`, with those, and is recorded with the answer. Killed
anywhere and run again, it begins anew; a plan is there whole or not at all.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from typing import Any

from roles.memory.explore_program import on_cards
from roles.memory.fitting_program import (
    REMEDY,
    budgets,
    first,
    lacking,
    ladder,
    room,
    shown,
    smaller_context,
    split,
    taken,
    too_much,
    typical,
    wished,
)
from roles.memory.folder_program import model_or_twin, prune, write
from roles.memory.oracle_program import Oracle, fail, own_servers
from roles.memory.pause_program import paused
from roles.memory.ram_program import repacked, state


class Planner:
    """The search for one plan. `budgets`: what each device has for the model; `free`: the job with nothing decided, as
    it would be if the inventory gave no number."""

    def __init__(self, job: dict[str, Any], oracle: Oracle) -> None:
        self.job, self.oracle = job, oracle
        self.free = {**job, "n_cpu_moe": None} if job["moe_layers"] else {**job, "gpu_layers": None}
        self.budgets = budgets(oracle.devices(), job)
        self.rooms = {one["device"]: one["room"] for one in self.budgets}
        self.typical = typical(ladder(self.free), job["layers"])
        self.last = ladder(job)[-1], ladder(self.free)[-1]
        if len(self.rooms) > 1 and not job["own_tensor_split"]:
            oracle.tensor_split = [max(free, 0) for free in self.rooms.values()]

    def fits(self, split: dict[str, Any], changes: dict[str, str]) -> bool:
        shares = self.oracle.ask(split, changes)["devices"]
        strange = set(shares) - set(self.rooms) if self.job["own_tensor_split"] else set(shares) ^ set(self.rooms)
        if strange:
            fail(f"llama-fit-params and llama-server do not agree on {', '.join(sorted(strange))}")
        without = {device: [*share[:2], 0] for device, share in shares.items()}
        if lacking(without, self.rooms) <= 0 < lacking(shares, self.rooms):
            self.oracle.look_closer(self.typical, changes)  # which cuts `shares` down
            if split in self.last and lacking(shares, self.rooms) > 0:
                self.oracle.look_at(split, changes)  # as there is no other
        return lacking(shares, self.rooms) <= 0

    def best(self, job: dict[str, Any], changes: dict[str, str]) -> dict[str, Any] | None:
        """The first split that fits."""
        rungs = ladder(job)
        at = first(len(rungs), lambda rung: self.fits(rungs[rung], changes))
        return None if at is None else rungs[at]

    def plan(self) -> dict[str, Any]:
        """The split that is wanted, or the best; and what is wrong with it where it does not fit."""
        job = self.job
        chosen = split(0) if job["backend"] == "cpu" else self.best(job, {})
        if chosen is not None:
            return self.record(chosen, "")
        last = ladder(job)[-1]
        problem = f"{shown(last)} does not fit: {too_much(self.oracle.look_at(last, {})['devices'], self.budgets)}"
        other = self.best(self.free, {}) if self.free != job else None
        told = [f"{wished(other)} fits"] if other else self.alternatives()
        return {**self.record(last, "; ".join([problem, *told])), "nothing_fits": other is None}

    def alternatives(self) -> list[str]:
        """Which smaller wishes would fit, the cheapest loss first."""
        last, found = ladder(self.free)[-1], []
        for other in self.job["alternatives"]:
            if other["option"] == "-c":
                found += [f"context={context} fits at {shown(last)}"] if (context := self.context(last)) else []
            elif self.fits(last, other["changes"]):
                found.append(f"{other['told']} fits at {shown(self.best(self.free, other['changes']) or last)}")
        found += self.higher_limit(last)
        advice = "" if self.job["ask_on"] else f"; {self.job['advice']}"
        return found or ["backend='cpu' needs no VRAM", "no smaller ubatch, cache type or context alone would" + advice]

    def higher_limit(self, last: dict[str, Any]) -> list[str]:
        """The vram_limit_mib with which it fits, where it is that limit alone that is in the way."""
        if self.job["limit"] is None:
            return []
        shares, need = self.oracle.look_at(last, {})["devices"], 0
        for one in self.budgets:
            held = taken(shares.get(one["device"], [0]))
            if held > room(one["total"], one["reserve"], one["margin"], one["overhead"], None):
                return []
            need = max(need, held + one["overhead"])
        return [f"vram_limit_mib={need} fits at {shown(last)}"]

    def context(self, last: dict[str, Any]) -> int:
        """The largest context that fits with the least on the devices; 0 where none does."""
        context, found = self.job["context"], []
        whole, half = (self.oracle.look_at(last, changes)["devices"] for changes in ({}, {"-c": str(context // 2)}))
        for device, free in self.rooms.items():
            need, less = taken(whole.get(device, [0])), taken(half.get(device, [0]))
            found += [smaller_context(context, need, less, free)] if need > free else []
        fitting = min(found, default=0)
        return fitting if fitting and self.fits(last, {"-c": str(fitting)}) else 0

    def ask_beside(self, chosen: dict[str, Any]) -> None:
        """The next better and the next worse split, as people want to know what those would take."""
        rungs = ladder(self.free)
        at = rungs.index(chosen) if chosen in rungs else len(rungs)
        for near in rungs[max(at - 1, 0) : at + 2]:
            if len(self.oracle.asked) < self.job["layers"].bit_length() + 2:  # ceil(log2(layers + 1)) + 2
                self.oracle.ask(near, {})

    def record(self, chosen: dict[str, Any], problem: str) -> dict[str, Any]:
        """All that is known of the plan, as JSON holds it."""
        answer = self.oracle.ask(chosen, {})
        self.oracle.look_closer(self.typical, {})
        if self.rooms and not problem:
            self.ask_beside(chosen)
        tried = [one for one in self.oracle.asked if not one["changes"] and not one["flags"]]
        calls = len(self.oracle.asked)  # those about the RAM are beside them, three at most
        return {
            **unchecked(self.job, chosen),
            "checked": True,
            "problem": problem,
            "tensor_split": self.oracle.tensor_split,
            "devices": shares(answer),
            "host": share("Host", answer["host"]),
            "state": state(self.oracle, chosen, self.job["context"], self.job["ubatch"]),
            "repacked": repacked(self.oracle, chosen, self.job),
            "budgets": self.budgets,
            "calls": calls,
            "tried": [
                {
                    **one["split"],
                    "devices": shares(one),
                    "lacking": lacking(one["devices"], self.rooms),
                }
                for one in sorted(tried, key=lambda one: -sum(map(sum, one["devices"].values())))
            ],
        }


def shares(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [share(device, figures) for device, figures in answer["devices"].items()]


def share(device: str, figures: list[int]) -> dict[str, Any]:
    return {"device": device, "model": figures[0], "context": figures[1], "compute": figures[2]}


def unchecked(job: dict[str, Any], split: dict[str, Any]) -> dict[str, Any]:
    """A plan of the inventory's own numbers, of which nobody has said that they fit."""
    layers, cpu = job["layers"] + 1 if job["layers"] else 0, split["n_cpu_moe"] or 0
    return {
        "schema": 1,
        "digest": job["digest"],
        "inputs": job["inputs"],
        "release": job["release"],
        "backend": job["backend"],
        "checked": False,
        "problem": "",
        "nothing_fits": False,
        "gpu_layers": split["gpu_layers"],
        "n_cpu_moe": split["n_cpu_moe"],
        "n_cpu_ffn": split["n_cpu_ffn"],
        "layers": layers,
        "offloaded": min(split["gpu_layers"], layers),
        "moe_layers": len(job["moe_layers"]),
        "moe_layers_on_cpu": sum(layer < cpu for layer in job["moe_layers"]),
        "devices": [],
        "host": share("Host", [0, 0, 0]),
    }


def smaller(job: dict[str, Any], folder: str) -> str:
    """Which of the smaller quantizations fits, the nearest first: it is asked until one does."""
    refused = []
    for one in job["smaller"]:
        try:
            with model_or_twin(folder, {**job, "twin": one["twin"]}) as model:
                planner = Planner(job, Oracle(job, model))
                chosen = planner.best(planner.free, {})
        except SystemExit:
            continue  # this release cannot read it, say: another one may do
        if chosen:
            return f"model_file={one['path']} fits at {shown(chosen)}"
        refused.append(one["path"])
    return f"model_file={' or '.join(refused)} would not" if refused else job["advice"]


def main() -> None:
    job = json.loads(sys.argv[1])
    folder = os.path.expanduser(job["folder"])
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with model_or_twin(folder, job) as model, own_servers(job), paused(job):
            oracle = Oracle(job, model)
            job["knows_n_cpu_ffn"] = "--n-cpu-ffn" in oracle.knows and not {"--n-cpu-ffn", "-ncffn"} & set(job["extra"])
            if job["sizes"]:
                print(json.dumps(on_cards(job, oracle)))
                return
            if job["asked"]:
                plan = {**job["asked"], "problem": f"{job['asked']['problem']}; {smaller(job, folder)}"}
            elif "--fit-print" in oracle.knows:
                plan = Planner(job, oracle).plan()
            elif job["backend"] == "cpu":
                plan = unchecked(job, split(0))
            elif job["explicit"]:
                plan = unchecked(job, ladder(job)[0])
            else:
                fail(
                    "this release of llama.cpp has no llama-fit-params --fit-print to plan with (it came in April 2026,"
                    " #22171); write gpu_layers and n_cpu_moe as numbers, or set another llama_ref"
                )
        if plan["nothing_fits"] and job["ask_on"]:
            print(json.dumps(plan))
            return
        write(folder, plan)
        prune(folder, job["release"])
    if plan["problem"] and job["check"] == "refuse":
        fail(plan["problem"] + REMEDY)
    print(json.dumps(plan))


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        fail(f"the plan cannot be recorded: {error.strerror} ({error.filename or 'no file is named'})")
