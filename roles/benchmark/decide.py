"""Whether what is served has been measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from roles.benchmark.observe import BENCHMARK, HISTORY, Result, Row
from roles.llama_cpp import cmake
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.remote import Script
from roles.service.command import UNIT, fitted
from roles.service.decide import url, wanted_unit
from roles.settings import Settings
from roles.wishes import Wishes

ON_HOST = (Path(__file__).parent / "on_host.py").read_text("utf-8")
SECONDS = 1800


def configuration(settings: Settings) -> str:
    """What the seed calls the config of a row: model, experts on the CPU, KV cache."""
    wanted = settings.service
    model = (settings.model.model_file or settings.model.model_path or "").rsplit("/", 1)[-1].removesuffix(".gguf")
    split = "fit" if fitted(wanted) else f"n{0 if wanted.n_cpu_moe == 'auto' else wanted.n_cpu_moe}"
    kinds = dict.fromkeys((wanted.cache_type_k, wanted.cache_type_v))
    return f"{model}, {split}, KV {'/'.join(kinds)}"


def measured(wishes: Wishes, report: Callable[[list[str]], None], observation: Observation) -> Decision:
    """There are figures of the process that runs, at the depths that are wanted."""
    wanted, last = wishes.settings.benchmark, observation[BENCHMARK].last
    try:
        stamp = wanted_unit(wishes, observation).stamp
    except cmake.CannotBuild as error:
        return Decision(observation, refusal=str(error))
    depths = wanted.benchmark_depths
    if not depths or (last and (last.stamp, last.depths, last.tokens) == (stamp, depths, wanted.benchmark_tokens)):
        return Decision(observation)
    if last is None:
        why = "nothing measured yet"
    elif last.stamp != stamp:
        why = "what is served changed"
    else:
        why = "other depths" if last.depths != depths else "another number of tokens"
    wire = {
        "unit": UNIT,
        "url": url(wishes.settings.service),
        "stamp": stamp,
        "config": configuration(wishes.settings),
        "depths": depths,
        "tokens": wanted.benchmark_tokens,
        "history": HISTORY,
    }
    rows = tuple(Row(n_depth=depth, pp=None, tg=0) for depth in depths)
    planned = Result(
        time="", stamp=stamp, config="", tokens=wanted.benchmark_tokens, rows=rows, peak_vram_mib=None, peak_ram_bytes=0
    )
    script = Script(ON_HOST, (json.dumps(wire),), seconds=SECONDS, python=True)
    return Decision(
        observation.replace(BENCHMARK, last=planned),
        reasons=(f"measure at {' and '.join(str(depth) for depth in depths)} tokens of context: {why}",),
        steps=(Step("measure llama-server", script, report=report),),
    )
