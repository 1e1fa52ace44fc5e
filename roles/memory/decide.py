"""Whether the memory that the model takes has been planned, whether it fits, and how to plan it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roles import programs
from roles.gpu import smi
from roles.llama_cpp.cuda import CannotBuild
from roles.llama_cpp.observe import LLAMA_CPP
from roles.llama_cpp.release import wanted_release
from roles.memory import bound, question, report, wanted
from roles.memory.fitting_program import ALL_LAYERS, REMEDY
from roles.memory.observe import MEMORY
from roles.memory.overhead import DEFAULT
from roles.memory.plan import Plan, Share
from roles.memory.words import own_spread, uncounted
from roles.model.decide import holds, unfit_path
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.operation import WAITED_FOR, Decision, Step
from roles.remote import Script
from roles.settings import Settings
from roles.wishes import ModelPin, Wishes

SECONDS = 1800  # a question takes about one, and one that hangs ends all of it
SMALLER_SECONDS = 900  # for three quantizations
HERE = Path(__file__).parent
PARTS = ("fitting", "oracle", "pause", "ram", "explore", "folder", "plan")
PAUSE = (HERE / "pause.sh").read_text("utf-8")
PROGRAM = programs.joined(Path(smi.__file__), *(HERE / f"{name}_program.py" for name in PARTS))


def planned(
    wishes: Wishes,
    headers: tuple[bytes, ...],
    tell: Callable[[list[str]], None] | None,
    observation: Observation,
    again: bool = False,
    gentle: bool = False,
) -> Decision:
    """llama.cpp itself has said what the model takes with these settings on these devices, and it fits. `headers`: of
    the model's files, where it is still to come; `tell` gets what the program printed. `again`: it is asked for, and
    never at rest. `gentle`: the service does not stop for it, and a plan that does not fit is no failure."""
    try:
        kind, release = wanted.backend(wishes, observation), wanted_release(wishes, observation)
        if not wanted.planned_by_us(wishes, kind):
            return Decision(
                observation, left_out="fit='on' leaves the split to llama.cpp: nothing is planned or checked"
            )
        plan = wanted.plan_of(wishes, observation)
    except CannotBuild as error:
        return Decision(observation, refusal=str(error))
    if plan is not None and not again:
        return judged(wishes, plan, observation)
    if release.key not in observation[LLAMA_CPP].releases:
        return Decision(
            observation, refusal=f"release {release.key} of llama.cpp is not on this host; run the llama_cpp role too"
        )
    there = holds(wishes.model, observation[MODEL]) if wishes.model else True
    if wishes.model is None and (problem := unfit_path(observation[MODEL])):
        return Decision(observation, refusal=problem)
    if not there and wishes.model and wishes.model.anatomy is None:
        return Decision(
            observation, left_out="the model's header is not known here, so the memory is planned after the download"
        )
    layers, moe_layers = wanted.anatomy(wishes, observation)
    if not layers and not wanted.own_numbers(wishes.settings, bool(moe_layers)) and kind != "cpu":
        return Decision(
            observation, refusal="the model's header does not tell how many layers it has; set gpu_layers as a number"
        )
    job = question.job(wishes, release, kind, () if there else headers, observation)
    job |= {"pause": False, "check": "warn"} if gentle else {}
    what = "" if there else ", by the header of the model"
    why = wanted.changes(job["inputs"], observation[MEMORY].plans.values()) or (
        "as asked" if plan else "nothing is planned yet"
    )
    pause = "; llama-server stops for it, as it leaves the card no room for a question" if job["pause"] else ""
    return Decision(
        _after(wishes, kind, bool(moe_layers), observation),
        reasons=(f"plan the memory with llama.cpp itself{what}: {why}{pause}",),
        left_out=_without_experts(wishes, observation) or None,
        steps=_steps(wishes, job, SECONDS, tell),
    )


def asked_on(
    wishes: Wishes,
    plan: dict[str, Any],
    others: Sequence[tuple[ModelPin, tuple[bytes, ...]]],
    advice: str,
    tell: Callable[[list[str]], None] | None,
    observation: Observation,
) -> Decision:
    """Nothing fits, and that is recorded with the one of the `others` that would: smaller quantizations and their
    headers, the nearest first. `plan` is as the program printed it; `advice` is said where none can be asked, and
    `tell` gets what is printed in the end. Raises CannotBuild."""
    kind, release = wanted.backend(wishes, observation), wanted_release(wishes, observation)
    smaller = [{"path": pin.file, "twin": question.twin(pin, headers)} for pin, headers in others]
    job = question.job(wishes, release, kind, (), observation)
    job |= {"ask_on": False, "asked": plan, "smaller": smaller, "advice": advice}
    names = ", ".join(f"{pin.file} ({pin.size / 1e9:.1f} GB)" for pin, _ in others)
    return Decision(
        observation,
        reasons=(f"no split of the model fits: ask about {names}" if names else "no split of the model fits",),
        steps=_steps(wishes, job, SMALLER_SECONDS, tell),
    )


def _steps(
    wishes: Wishes, job: dict[str, Any], seconds: int, tell: Callable[[list[str]], None] | None
) -> tuple[Step, ...]:
    """The program is run, without a service that fills the card."""
    script = Script(PROGRAM, (json.dumps(job),), seconds=seconds, python=True)
    step = Step("plan the memory", script, goes_on=WAITED_FOR, report=tell)
    if not job["pause"] or wishes.settings.service.service_scope == "user":
        return (step,)
    stop, start = (Script(PAUSE, (word,), root=True) for word in ("stop", "start"))  # which the user may not do
    script = replace(script, args=(json.dumps({**job, "pause": False}),))
    step = replace(step, script=script, undo=start)
    return Step("stop llama-server", stop), step, Step("start llama-server again", start)


def judged(wishes: Wishes, plan: Plan, observation: Observation) -> Decision:
    """A plan that does not fit stops the host, or is said; so is what others hold of the VRAM."""
    refuse = wishes.settings.memory.memory_check == "refuse"
    if plan.problem and refuse:
        return Decision(observation, refusal=plan.problem + REMEDY)
    idle = _meaningless(wishes.settings, plan) or _without_experts(wishes, observation)
    told = [plan.problem, idle, *report.warnings(plan, wanted.nvidia(observation))]
    if not plan.checked and plan.made:
        told.append("this release has no llama-fit-params --fit-print, so nobody has checked that the model fits")
    return Decision(observation, left_out="; ".join(filter(None, told)) or None)


def _meaningless(settings: Settings, plan: Plan) -> str:
    """Numbers of the inventory's that a host without a device has no use for."""
    service = settings.service
    given = {"n_cpu_moe": service.n_cpu_moe, "gpu_layers": service.gpu_layers}
    told = [f"{name}={value}" for name, value in given.items() if value != "auto"]
    verb = "mean" if len(told) > 1 else "means"
    return f"on the CPU alone {' and '.join(told)} {verb} nothing" if told and plan.backend == "cpu" else ""


def _without_experts(wishes: Wishes, observation: Observation) -> str:
    """A number of experts' layers for a model that has none."""
    (layers, moe_layers), number = wanted.anatomy(wishes, observation), wishes.settings.service.n_cpu_moe
    if not layers or moe_layers or number in ("auto", 0):
        return ""
    return f"this model has no experts, so n_cpu_moe={number} moves nothing; leave it out, gpu_layers is for this model"


def hopeless(wishes: Wishes, observation: Observation) -> str | None:
    """The sentence about what cannot be, before anything is built: by the recorded plan, or else by the header."""
    if wishes.settings.memory.memory_check == "warn" or wishes.settings.service.fit == "on":
        return None
    if problem := uncounted_refusal(wishes.settings):
        return problem
    try:
        plan = wanted.plan_of(wishes, observation)
    except CannotBuild:
        plan = None  # there is no compiler yet, say
    if plan is not None:
        return plan.problem + REMEDY if plan.problem else None
    return bound.hopeless(wishes, observation)


def uncounted_refusal(settings: Settings) -> str | None:
    """The sentence about memory that would be missing in the plan."""
    if settings.memory.memory_check == "warn" or not (found := uncounted(settings.service)):
        return None
    return (
        f"server_args: {found[0]} takes memory that llama-fit-params does not count; leave room for it with"
        " vram_margin_mib and set memory_check='warn', or leave it out"
    )


def exploring(
    wishes: Wishes, sizes: tuple[int, ...], headers: tuple[bytes, ...], observation: Observation
) -> dict[str, Any]:
    """What the program is told for a look at cards of other sizes (MiB): everything is free but the inventory's
    context and caches. Raises CannotBuild."""
    kind, release, pin = wanted.backend(wishes, observation), wanted_release(wishes, observation), wishes.model
    told = pin.anatomy if pin and pin.anatomy else None
    moe, cards = bool(wanted.anatomy(wishes, observation)[1]), wanted.cards(wishes, observation)
    known = question.job(wishes, release, kind, headers, observation)
    return {
        **known,
        "n_cpu_moe": None,
        "gpu_layers": None if moe or kind != "cpu" else ALL_LAYERS,
        "pause": False,
        # Whatever stands in for it here, a card is meant.
        "overhead": DEFAULT["cuda"] + wishes.settings.service.moe_cache_mib,
        "reserve": max((card["reserve"] for card in cards), default=known["reserve"]),
        "sizes": list(sizes),
        "trained": (told.trained_context if told else observation[MODEL].trained_context) or 0,
        "dense_bytes": told.dense_bytes if told else 0,
        "expert_bytes": list(told.expert_bytes) if told else [],
    }


def _after(wishes: Wishes, kind: str, moe: bool, observation: Observation) -> Observation:
    """The plan to come: its numbers are known where they are the inventory's own."""
    service = wishes.settings.service
    unknown = ["n_cpu_moe"] if moe and service.n_cpu_moe == "auto" else []
    if not moe and service.gpu_layers == "auto":
        unknown.append("gpu_layers")
    devices = {"cuda": wanted.nvidia(observation).gpus, "rpc": wishes.settings.llama_cpp.rpc_servers}
    if len(devices.get(kind, ())) > 1 and not own_spread(service):
        unknown.append("tensor_split")
    key = wanted.digest(wishes, observation)
    plan = Plan(
        digest=key,
        backend=kind,
        made=False,
        checked=False,
        gpu_layers=ALL_LAYERS if service.gpu_layers == "auto" else service.gpu_layers,
        n_cpu_moe=None if service.n_cpu_moe == "auto" else service.n_cpu_moe,
        to_come=tuple(unknown) if kind != "cpu" else (),
        layers=0,
        offloaded=0,
        devices=(),
        host=Share(device="Host", model=0, context=0, compute=0),
    )
    return observation.replace(MEMORY, plans={**observation[MEMORY].plans, key: plan})
