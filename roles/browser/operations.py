"""Operations of the browser role."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from weakref import WeakKeyDictionary

from pyinfra.api import Host, operation
from pyinfra.api.command import PyinfraCommand

from roles import claim, observation, preview, remote, trouble
from roles.browser import decide, freed, others, report
from roles.browser.observe_models import MODELS, Profile
from roles.host import HOST
from roles.observation import Observation
from roles.operation import Decision, Step, converge
from roles.settings import Browser

_before: WeakKeyDictionary[Host, Observation] = WeakKeyDictionary()  # each host before its policy changes
_theirs: WeakKeyDictionary[Host, tuple[bool, tuple[Profile, ...]]] = WeakKeyDictionary()  # and in which phase seen
_now: WeakKeyDictionary[Host, str] = WeakKeyDictionary()  # where each host stands while its plan is made


@operation()
def policy_set(wanted: Browser, alone: bool = False) -> Generator[PyinfraCommand]:
    """The managed policy that keeps a browser's local AI model away is in force.

    `alone`: nobody has asked for a sudo password yet; every user's models are told, where root can be had.
    """
    state, host = observation.context()

    def decided(seen: Observation) -> Decision:
        if alone and seen[HOST].root == "password" and decide.policy_set(wanted, True, seen).steps:
            remote.ask_password()
        if alone and seen[HOST].can_be_root(remote.has_password()):
            seen = with_others(seen)
        if not state.is_executing:
            _now.setdefault(host, report.summary(wanted, seen))
        decision = decide.policy_set(wanted, remote.has_password(), seen)
        if decision.steps:
            _before[host] = seen
        return decision

    yield from converge(decided)


@operation()
def models_freed(wanted: Browser, alone: bool = False) -> Generator[PyinfraCommand]:
    """What browsers kept of their models is told, and deleted where that is wished; what was freed is recorded.

    `alone`: every user's, where root can be had.
    """
    state, host = observation.context()

    def decided(seen: Observation) -> Decision:
        before = _before.pop(host, None)
        if alone and seen[HOST].can_be_root(remote.has_password()):
            seen = with_others(seen, again=before is not None and state.is_executing)
        if not state.is_executing:  # nothing has been freed yet, and nothing can be said of what will stay
            decision = freed.models_freed(wanted, before, seen)
            return decision if before is None else replace(decision, left_out=None)
        for line in freed.outcome(before, seen) if before is not None else []:
            host.log(line)
        return freed.models_freed(wanted, before, seen)

    yield from converge(decided)


@operation()
def summed_up(wanted: Browser) -> Generator[PyinfraCommand]:
    """The role alone: others may change the host again, and the last line says what is in force."""
    state, host = observation.context()

    def decided(seen: Observation) -> Decision:
        if state.is_executing:
            trouble.last_word(host, report.summary(wanted, seen, brief=True))
        else:
            preview.show(host, f"now: {_now.pop(host, '')}")
        held = (Step("give the host back", claim.end_of_run()),) if claim.held(host) else ()
        return Decision(seen, steps=held)

    yield from converge(decided)


def with_others(seen: Observation, again: bool = True) -> Observation:
    """The host with its other users' models. Where sudo refuses, it is said, and the run goes on with this user's.

    `again`: something may have changed them since this phase of the run looked.
    """
    state, host = observation.context()
    phase, found = _theirs.get(host, (None, ()))
    if again or phase != state.is_executing:
        try:
            new, failed = others.look(state, host, seen[HOST].user)
            if failed:
                trouble.left_out(host, f"the models of {' and '.join(failed)} could not be looked for")
            # What is not seen now is not gone.
            found = (*new, *(profile for profile in found if profile.owner in failed))
        except (remote.Failed, ValueError) as error:
            trouble.left_out(host, f"other users' models were not looked for: {error}")
        _theirs[host] = (state.is_executing, found)  # after a failure too: wrong passwords lock accounts
    own = [one for one in seen[MODELS].profiles if not one.owner]
    return seen.replace(MODELS, profiles=(*own, *found))
