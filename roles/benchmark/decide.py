"""Whether what is served has been measured, and how to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from roles import job
from roles.benchmark import runner
from roles.benchmark.observe import BENCHMARK, HISTORY
from roles.benchmark.record import SCHEMA, Kind, Result
from roles.benchmark.told import about, configuration
from roles.gpu.classify import classify
from roles.gpu.observe import GPU
from roles.host import HOST
from roles.job import Job
from roles.llama_cpp.cuda import CannotBuild
from roles.machine import MACHINE
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.remote import Script
from roles.service import scope as scopes
from roles.service.command import UNIT
from roles.service.observe import SERVICE
from roles.service.reasons import options, stopped_by_hand, taken_back
from roles.service.unit import Unit, key_file, url, wanted_unit
from roles.settings import Settings
from roles.wishes import Wishes

NOT_WHAT_IS_WANTED = (
    "what runs is not what the inventory wants, and figures are for that; deploy it first:"
    " `pyinfra -y INVENTORY deploy.py`"
)
ROOTS = "a service of the system's is root's to stop, and the benchmark is the user's"
SMOKE_DEPTHS = (0, 2048)
FULL_DEPTHS = (0, 32 << 10, 100 << 10, 118 << 10)  # the seed's
BESIDE = 320  # tokens of the context that the next turn takes
# The newest line, for the table: the runner's own output is progress.
READ = """tail -n 1 "$HOME/${1#??}\""""

Report = Callable[[list[str]], None]


def measured(wishes: Wishes, report: Report, observation: Observation) -> Decision:
    """There are figures of the process that runs, at the depths that are wanted, under this driver and kernel."""
    found = _measurable(wishes, observation)
    if isinstance(found, Decision):
        return found
    planned = _planned(wishes, found, "smoke", observation)
    why = _why(observation[BENCHMARK].last, planned)
    return Decision(observation) if why is None else _measure(wishes, found, planned, why, report, observation)


def measured_in_full(wishes: Wishes, report: Report, observation: Observation) -> Decision:
    """The whole table is measured. Never at rest: it is asked for."""
    found = _measurable(wishes, observation)
    if isinstance(found, Decision):
        if found.refusal:
            return found
        why = "benchmark_depths is empty, somebody stopped the service, or what is wanted was taken back as too slow"
        return Decision(observation, refusal=f"nothing to measure: {why}")
    return _measure(wishes, found, _planned(wishes, found, "full", observation), "as asked", report, observation)


def depths(settings: Settings, kind: Kind) -> tuple[int, ...]:
    """The depths of a run. Those of `auto` are cut to the context; a smoke run's own clock cuts what takes too long."""
    wanted = settings.benchmark.benchmark_depths
    if wanted != "auto":
        return wanted
    room = max(settings.service.context - settings.benchmark.benchmark_tokens - BESIDE, 0) // 256 * 256
    return tuple(dict.fromkeys(min(depth, room) for depth in (SMOKE_DEPTHS if kind == "smoke" else FULL_DEPTHS)))


def _measurable(wishes: Wishes, observation: Observation) -> Unit | Decision:
    """The unit whose process can be measured, or why there is nothing to do."""
    service = observation[SERVICE]
    try:
        unit = wanted_unit(wishes, observation)
    except CannotBuild as error:
        return Decision(observation, refusal=str(error))
    if not wishes.settings.benchmark.benchmark_depths or stopped_by_hand(service):
        return Decision(observation)
    if taken_back(unit, service, wishes.settings.benchmark):
        return Decision(observation)
    if not service.active or service.running_stamp != unit.stamp:
        return Decision(observation, refusal=NOT_WHAT_IS_WANTED)
    return unit


def _measure(
    wishes: Wishes, unit: Unit, planned: Result, why: str, report: Report, observation: Observation
) -> Decision:
    settings, host = wishes.settings, observation[HOST]
    told = wire(settings, planned.kind, about(wishes, unit, observation), key_file(settings.service, host))
    asked = settings.benchmark.benchmark_llama_bench and planned.kind == "full"
    bench = asked and scopes.of(settings.service) is scopes.USER
    if bench:
        folder = f"{host.data_dir}/releases/{unit.release}"
        told |= {"bench": runner.llama_bench(options(unit.text), folder, told), "bench_seconds": runner.limit(told)}
    work = runner.job(told, unit.limits.maximum if bench else 0)
    more = f"; llama-bench too, {UNIT} stops for it and starts again" if bench else ""
    return Decision(
        observation.replace(BENCHMARK, last=planned),
        reasons=(f"measure at {_in_words(planned.depths)} tokens of context: {why}{more}",),
        steps=(
            Step("measure llama-server", job.follow(work), goes_on=job.goes_on(work)),
            Step("read the figures", Script(READ, (HISTORY,)), report=report),
        ),
        left_out=f"benchmark_llama_bench: {ROOTS}" if asked and not bench else None,
    )


def alternately(wishes: Wishes, told: dict[str, Any], observation: Observation) -> Job:
    """As a smoke run, of whichever service runs by then; `told` is what is known of it."""
    settings = wishes.settings
    return runner.job(wire(settings, "ab", told, key_file(settings.service, observation[HOST])), 0)


def wire(settings: Settings, kind: Kind, told: dict[str, Any], keys: str) -> dict[str, Any]:
    """What the runner is told. `told`: its record's part that no measuring brings; `keys`: the path of the key file, or
    nothing."""
    return {
        "unit": UNIT,
        "manager": scopes.of(settings.service).manager,
        "url": url(settings.service),
        "history": HISTORY,
        "schema": SCHEMA,
        "key_file": keys,
        "kind": kind,
        "depths": depths(settings, "full" if kind == "full" else "smoke"),
        "tokens": settings.benchmark.benchmark_tokens,
        "repetitions": settings.benchmark.benchmark_repetitions,
        "seconds": 0 if kind == "full" else runner.SMOKE_SECONDS,
        "about": told,
        "bench": [],
        "bench_seconds": 0,
    }


def _in_words(depths: Sequence[int]) -> str:
    return " and ".join(filter(None, [", ".join(map(str, depths[:-1])), str(depths[-1])]))


def _planned(wishes: Wishes, unit: Unit, kind: Kind, observation: Observation) -> Result:
    """The result to come, without its figures."""
    wanted = wishes.settings.benchmark
    return Result(
        kind=kind,
        run="",
        test_time="",
        config=configuration(options(unit.text)),
        stamp=unit.stamp,
        release=unit.release,
        driver=classify(observation[GPU]).driver,
        kernel=observation[MACHINE].kernel,
        depths=depths(wishes.settings, kind),
        tokens=wanted.benchmark_tokens,
        repetitions=wanted.benchmark_repetitions,
        rows=(),
    )


def _why(last: Result | None, planned: Result) -> str | None:
    """What the last figures are not of; None where they will do. A full run's will, at whichever depths."""
    if last is None:
        return "nothing measured yet"
    if last.stamp != planned.stamp:
        return "what is served changed"
    if last.kind == "smoke" and last.depths != planned.depths:
        return "other depths"
    if last.kind == "smoke" and last.tokens != planned.tokens:
        return "another number of tokens"
    for name in ("driver", "kernel"):
        old, new = getattr(last, name), getattr(planned, name)
        if old != new:
            return f"{name} {old or 'none'} -> {new or 'none'}"
    return None
