"""Whether the service that runs is the one that is wanted, and how to make it so."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from roles import job
from roles.host import AWAY, HOST, HostSeen, no_root
from roles.llama_cpp.cuda import CannotBuild
from roles.llama_cpp.observe import LLAMA_CPP
from roles.machine import MACHINE
from roles.model.decide import holds
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.operation import WAITED_FOR, Decision, Step
from roles.remote import Script
from roles.service import candidate, reasons, sandbox
from roles.service import scope as scopes
from roles.service.command import BENCHMARK, UNIT, watchdog_texts
from roles.service.directives import held
from roles.service.gate import PROGRAM
from roles.service.observe import SERVICE, Guard, Process
from roles.service.scope import Scope
from roles.service.unit import Unit, wanted_unit
from roles.wishes import Wishes

AWAKE = (
    "from boot on it holds its memory and keeps the card awake, on battery too; sleep_idle_seconds=600 gives both back"
    " while nobody asks, service_autostart=False leaves starting it to you"
)
INSTALL, LINGER, PLACE, SWITCH, GIVE_WAY = (
    (Path(__file__).parent / f"{name}.sh").read_text("utf-8")
    for name in ("install", "linger", "place", "switch", "give_way")
)
PLACE_SECONDS = 3600  # models may have to move to another disk


def lingering(has_password: bool, observation: Observation) -> Decision:
    """The user's services start at boot and outlive the login, and so do builds and downloads."""
    host = observation[HOST]
    if host.lingers and host.user_manager:
        return Decision(observation)
    if not host.can_be_root(has_password):
        what = f"{host.user} does not linger, so the service stops at logout and does not start at boot"
        return Decision(observation, left_out=no_root(host, what))
    step = Step("enable lingering", Script(LINGER, (host.user, str(host.uid), host.record), root=True), optional=True)
    after = observation.replace(HOST, lingers=True, user_manager=True, memory_capped=True)
    return Decision(after, (f"{host.user} does not linger",), (step,))


def placed(wishes: Wishes, has_password: bool, observation: Observation) -> Decision:
    """Releases and models are where the service's manager may use them: for the system's, not below a home. They come
    home later: a service of the system's runs from there until the user's takes over."""
    host, out = observation[HOST], scopes.of(wishes.settings.service) is scopes.SYSTEM
    if bool(host.data) == out and not host.stranded:
        return Decision(observation)
    if not host.can_be_root(has_password):
        return Decision(observation, refusal=no_root(host, f"service_scope={wishes.settings.service.service_scope!r}"))
    return _move(out, observation) if out or host.stranded else Decision(observation)


def brought_home(wishes: Wishes, observation: Observation) -> Decision:
    """The same for a user's service, once all that it needs is there, and nothing else stands in its way."""
    host = observation[HOST]
    if not host.data or scopes.of(wishes.settings.service) is scopes.SYSTEM:
        return Decision(observation)
    decision = _move(False, observation)
    then = running(wishes, decision.after)
    if then.refusal or (then.left_out and not then.steps):
        return Decision(observation)  # which is told next
    return decision


def _move(out: bool, observation: Observation) -> Decision:
    host = observation[HOST]
    arguments = (host.user, host.own_data, AWAY, "out" if out else "home")
    step = Step(
        "move releases and models", Script(PLACE, arguments, root=True, seconds=PLACE_SECONDS), goes_on=WAITED_FOR
    )
    why = f"releases and models move to {AWAY if out else host.own_data}"
    return Decision(observation.replace(HOST, data=AWAY if out else "", stranded=False), (why,), (step,))


def guarded(wishes: Wishes, observation: Observation) -> Decision:
    """paddock-switch and the watchdog, which the unit and the next decision count on, are on the host."""
    host, seen, scope = observation[HOST], observation[SERVICE].guard, scopes.of(wishes.settings.service)
    wanted = guard(host, scope)
    if not host.user_manager or seen == wanted or (seen and seen.masked(wanted)):
        return Decision(observation)
    why = "another paddock-switch or watchdog" if seen and seen.program else "paddock-switch is not there yet"
    state, units = (place.replace("~", host.home, 1) for place in (scope.state, scope.units))
    arguments = (PROGRAM, wanted.service or "", wanted.timer or "", state, units, scope.manager)
    step = Step("install paddock-switch", Script(INSTALL, arguments, root=scope is scopes.SYSTEM))
    return Decision(observation.replace(SERVICE, guard=wanted), (why,), (step,))


def guard(host: HostSeen, scope: Scope) -> Guard:
    """What shall be on the host to look after the service."""
    service, timer = watchdog_texts(scope.program(host), scope)
    return Guard(program=hashlib.sha256(PROGRAM.encode()).hexdigest(), service=service, timer=timer)


def running(wishes: Wishes, observation: Observation) -> Decision:
    """The unit is written, enabled, capped, and its process is the one that is wanted and has answered."""
    seen, wanted = observation[SERVICE], wishes.settings.service
    try:
        unit = wanted_unit(wishes, observation)
    except CannotBuild as error:
        return Decision(observation, refusal=str(error))
    if refusal := refused(wishes, unit, observation):
        return Decision(observation, refusal=refusal)
    if reasons.stopped_by_hand(seen):
        if seen.measuring:
            return Decision(observation, left_out=f"{UNIT} is left alone: {BENCHMARK} measures, and starts it again")
        who = "somebody stopped" if unit.autostart else "service_autostart is False, nobody has started"
        return Decision(
            observation,
            left_out=f"{who} {UNIT}, and it stays so; `{scopes.of(wanted).words} start {UNIT}` brings it back"
            " (unmask it first if it is masked)",
        )
    if told := reasons.taken_back(unit, seen, wishes.settings.benchmark):
        return Decision(
            observation,
            left_out=f"{UNIT} stays as it was before: {told}; benchmark_on_regression='warn' takes it all the same",
        )
    why = reasons.reasons(unit, seen)
    if not why:
        by_hand = unit.autostart and reasons.disabled_by_hand(seen)
        told = f"somebody disabled {UNIT}, so it does not start at boot" if by_hand else None
        return Decision(observation, left_out=told)
    if seen.unit is None and observation[MACHINE].battery and unit.autostart and not wanted.sleep_idle_seconds:
        why.append(AWAKE)
    steps = switching(wishes, unit, observation)
    if seen.measuring:
        why.append(f"the benchmark under way there, {BENCHMARK}, is of the former one: it is stopped, without figures")
        steps = (Step("stop the benchmark", Script('systemctl --user stop "$1"', (BENCHMARK,))), *steps)
    told = sandbox.smaller(wishes, unit.release, observation)  # when it comes to be, and not at every run
    return Decision(_after(unit, observation), tuple(why), steps, left_out=told)


def switching(wishes: Wishes, unit: Unit, observation: Observation) -> tuple[Step, ...]:
    """The steps to the wanted service; one of the other manager's gives way to it. A user's comes back where the
    system's fails; not the other way round, as releases and models are in the home by then."""
    scope, host, seen = scopes.of(wishes.settings.service), observation[HOST], observation[SERVICE]
    record, program = candidate.record(wishes, unit, observation), scope.program(host)
    switch = candidate.job(record, program)
    diff = (f"{scope.units}/{UNIT}", seen.unit or "", unit.text)
    if scope is scopes.SYSTEM:
        arguments = (program, json.dumps(record), str(switch.seconds), str(switch.memory), host.user, str(host.uid))
        script = Script(SWITCH, arguments, root=True, seconds=switch.seconds + 120)
        return (Step("start llama-server", script, diff, WAITED_FOR),)
    start = Step("start llama-server", job.follow(switch), diff, job.goes_on(switch))
    if not seen.elsewhere:
        return (start,)
    stop, remove = (Script(GIVE_WAY, (word,), root=True) for word in ("stop", "remove"))
    return (Step("stop the system's service", stop), start, Step("remove the system's service", remove))


def refused(wishes: Wishes, unit: Unit, observation: Observation) -> str | None:
    """What stands in the way. A unit that works is never replaced by one that cannot start."""
    host, seen, wanted = observation[HOST], observation[SERVICE], wishes.settings.service
    if not host.user_manager:
        return f"the systemd manager of {host.user} does not run, so no unit of theirs can"
    if unit.release not in observation[LLAMA_CPP].releases:
        return f"release {unit.release} of llama.cpp is not on this host; run the llama_cpp role too"
    model = observation[MODEL]
    if wishes.model and not holds(wishes.model, model):
        return f"{wishes.model.file} is not on this host, or not verified; run the model role too"
    if not wishes.model and not model.is_gguf:
        return f"model_path={model.path!r} is not a GGUF on this host"
    return reasons.unfit_model(wanted, model) or reasons.refused(wanted, seen, host)


def _after(unit: Unit, observation: Observation) -> Observation:
    properties = {
        "ActiveState": "active",
        "UnitFileState": "enabled" if unit.autostart else "disabled",
        "NeedDaemonReload": "no",
        "MainPID": "1",
        **held(unit.text),
    }
    before = observation[SERVICE]
    worked = (
        before.unit if before.unit and before.proved and f"PADDOCK_STAMP={before.proved}\n" in before.unit else None
    )
    return observation.replace(
        SERVICE,
        last_good=worked or before.last_good,
        unit=unit.text,
        running_stamp=unit.stamp,
        elsewhere=False,
        proved=unit.stamp,
        switch=None,
        measuring=False,
        watchdog=None,
        port_taken=True,
        port_holder=Process(pid=1, name="llama-server"),
        properties=properties,
    )
