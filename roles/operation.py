"""What every Paddock operation is made of: a pure decision, its reasons, and one way to act on it.

A decision function takes an observation and returns a `Decision`. `converge` turns it into pyinfra's commands: none
where the host is as wanted. In prepare the decision's `after` becomes the next operation's observation, so that a dry
run on a bare host is complete; in execute the observation is dropped before the first command and read again.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, State
from pyinfra.api.command import PyinfraCommand

from roles import claim, observation, preview, remote, trouble
from roles.observation import Observation, Unreadable
from roles.remote import Script

WAITED_FOR = "it goes on there, and the same command waits for it"  # what a step by root may say


@dataclass(frozen=True)
class Step:
    """One thing to do on the host. `what` names it in an error; `diff` is (path, old text, new text); `goes_on` says
    what becomes of it when this run is interrupted; an `optional` one is left out for a user who may not be root;
    the failure of a `minor` one is told, and the run goes on; `undo` is run where it fails."""

    what: str
    script: Script
    diff: tuple[str, str, str] | None = None
    goes_on: str = ""
    optional: bool = False
    minor: bool = False
    undo: Script | None = None
    report: Callable[[list[str]], None] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"<{self.what}>"


@dataclass(frozen=True)
class Decision:
    """What a role wants done, and why.

    `after` is the host once the steps have run. `refusal` takes the host out of the run, `left_out` is said and the
    run goes on, `reasons` are why there are steps.
    """

    after: Observation
    reasons: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    refusal: str | None = None
    left_out: str | None = None


def converge(decide: Callable[[Observation], Decision]) -> Iterator[PyinfraCommand]:
    """The body of every operation: decide on what is observed now, and act where the decision says so."""
    state, host = observation.context()
    if not state.is_executing and host in state.failed_hosts:
        return
    try:
        decision = decide(observation.read())
    except Unreadable as error:
        yield from _refuse(state, host, str(error))
        return
    except Exception as error:  # in a generator it would end the run for every host
        logger.debug("decision failed", exc_info=True)
        yield from _refuse(state, host, f"a mistake of Paddock's own, please report it: {error!r}")
        return
    if decision.refusal is not None:
        yield from _refuse(state, host, decision.refusal)
        return
    if decision.left_out:
        trouble.left_out(host, decision.left_out)
    if not decision.steps:
        host.noop("as wanted")
        return
    # Before the first yield: in prepare nothing after it runs, and in execute a failing step ends the generator.
    if state.is_executing:
        for reason in decision.reasons:
            host.log(reason)
        observation.forget()
    else:
        preview.note(host, host.current_deploy_name or "Paddock", decision.reasons)
        observation.predict(decision.after)
    for step in decision.steps:
        yield FunctionCommand(act, (step,), {})


def act(state: State, host: Host, step: Step) -> bool:
    """Run one step. False fails this host alone; the reason goes to the screen and to the last lines of the run."""
    if step.diff and state.config.DIFF:
        _show_diff(host, *step.diff)
    goes_on = ""
    try:
        claim.take(state, host)
        goes_on = step.goes_on
        trouble.under_way(host, step.what + (f"; {goes_on}" if goes_on else ""))
        lines = remote.run(state, host, replace(step.script, claim=claim.holder()))
    except remote.Failed as error:
        if (step.optional and error.may_not) or (step.minor and claim.held(host)):
            trouble.left_out(host, f"{step.what}: {error}")
            return True
        then = f"; unless the host is down, {goes_on}" if error.lost and goes_on else ""
        trouble.failed(host, f"{step.what}: {error}{then}")
        if step.undo:
            with contextlib.suppress(remote.Failed):
                remote.run(state, host, replace(step.undo, claim=claim.holder()))
        claim.give_back(state, host)
        return False
    finally:
        trouble.under_way(host, None)
    if step.report:
        step.report(lines)
    return True


def _refuse(state: State, host: Host, why: str) -> Iterator[PyinfraCommand]:
    if state.is_executing:
        yield FunctionCommand(_fail, (why,), {})
    else:
        trouble.out(state, host, why)
        preview.show(host, trouble.verdict_of(host))


def _fail(state: State, host: Host, why: str) -> bool:
    trouble.failed(host, why)
    claim.give_back(state, host)
    return False


def _show_diff(host: Host, path: str, old: str, new: str) -> None:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"{path} (now)", f"{path} (wanted)", lineterm="")
    for line in lines:
        host.log(line, log_func=logger.info)
