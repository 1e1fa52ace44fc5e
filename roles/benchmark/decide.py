"""Whether what is served has been measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from roles.benchmark.observe import BENCHMARK, HISTORY, Result, Row
from roles.gpu.classify import classify
from roles.gpu.observe import GPU
from roles.host import HOST
from roles.llama_cpp.cuda import CannotBuild
from roles.machine import MACHINE
from roles.memory.plan import Plan
from roles.memory.wanted import needed_plan
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.remote import Script
from roles.service.command import UNIT, fitted
from roles.service.observe import SERVICE
from roles.service.reasons import stopped_by_hand
from roles.service.unit import key_file, url, wanted_unit
from roles.settings import Benchmark, Settings
from roles.wishes import Wishes

NOT_WHAT_IS_WANTED = "what runs is not what the inventory wants, and figures are for that; run the service role too"
SLOWEST_READING = 20  # tokens a second
PROGRAM = (Path(__file__).parent / "program.py").read_text("utf-8")


def configuration(settings: Settings, plan: Plan | None) -> str:
    """What the seed calls the config of a row: model, experts on the CPU, KV cache."""
    wanted = settings.service
    model = (settings.model.model_file or settings.model.model_path or "").rsplit("/", 1)[-1].removesuffix(".gguf")
    chosen = (plan.n_cpu_moe if plan else None) if wanted.n_cpu_moe == "auto" else wanted.n_cpu_moe
    split = "fit" if fitted(wanted) else f"n{chosen or 0}"
    kinds = dict.fromkeys((wanted.cache_type_k, wanted.cache_type_v))
    return f"{model}, {split}, KV {'/'.join(kinds)}"


def measured(wishes: Wishes, report: Callable[[list[str]], None], observation: Observation) -> Decision:
    """There are figures of the process that runs, at the depths that are wanted, under this driver and kernel."""
    wanted, service = wishes.settings.benchmark, observation[SERVICE]
    try:
        stamp = wanted_unit(wishes, observation).stamp
    except CannotBuild as error:
        return Decision(observation, refusal=str(error))
    if not wanted.benchmark_depths or stopped_by_hand(service):
        return Decision(observation)
    if not service.active or service.running_stamp != stamp:
        return Decision(observation, refusal=NOT_WHAT_IS_WANTED)
    planned = _planned(wishes, stamp, observation)
    why = _why(observation[BENCHMARK].last, planned)
    if why is None:
        return Decision(observation)
    wire = {
        "unit": UNIT,
        "url": url(wishes.settings.service),
        "history": HISTORY,
        "key_file": key_file(wishes.settings.service, observation[HOST]),
        "depths": wanted.benchmark_depths,
        **planned.model_dump(include={"stamp", "config", "tokens", "driver", "kernel"}),
    }
    script = Script(PROGRAM, (json.dumps(wire),), seconds=limit(wanted), python=True)
    told = " and ".join(str(depth) for depth in wanted.benchmark_depths)
    return Decision(
        observation.replace(BENCHMARK, last=planned),
        reasons=(f"measure at {told} tokens of context: {why}",),
        steps=(Step("measure llama-server", script, report=report),),
    )


def limit(wanted: Benchmark) -> int:
    """Seconds for a whole run. The program on the host gives each figure its share by the same rule."""
    return 300 + sum(600 + depth // SLOWEST_READING for depth in wanted.benchmark_depths)


def _planned(wishes: Wishes, stamp: str, observation: Observation) -> Result:
    """The result to come, without its figures."""
    wanted = wishes.settings.benchmark
    return Result(
        time="",
        stamp=stamp,
        config=configuration(wishes.settings, needed_plan(wishes, observation)),
        tokens=wanted.benchmark_tokens,
        driver=classify(observation[GPU]).driver,
        kernel=observation[MACHINE].kernel,
        rows=tuple(Row(n_depth=depth, pp=None, tg=0) for depth in wanted.benchmark_depths),
        peak_vram_mib=None,
        peak_ram_bytes=0,
    )


def _why(last: Result | None, planned: Result) -> str | None:
    """What the last figures are not of; None where they will do."""
    if last is None:
        return "nothing measured yet"
    if last.stamp != planned.stamp:
        return "what is served changed"
    if last.depths != planned.depths:
        return "other depths"
    if last.tokens != planned.tokens:
        return "another number of tokens"
    for name in ("driver", "kernel"):
        old, new = getattr(last, name), getattr(planned, name)
        if old != new:
            return f"{name} {old or 'none'} -> {new or 'none'}"
    return None
