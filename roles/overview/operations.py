"""The first and the last operation of every run."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from functools import partial

from pyinfra import logger
from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from roles import claim, observation, preview, remote, trouble
from roles.host import HOST
from roles.lock import CannotPin
from roles.model import collect, header
from roles.model.hub import Tell
from roles.observation import Observation
from roles.operation import Decision, Step, converge
from roles.overview import memory, record, start
from roles.overview.forecast import forecast, needs_root, without_root
from roles.overview.preflight import preflight, verdict
from roles.overview.summary import MEASURING, summary
from roles.service.observe import SERVICE
from roles.service.reasons import stopped_by_hand
from roles.wishes import Wishes


@operation()
def checked(wishes: Wishes) -> Generator[PyinfraCommand]:
    """Nothing about the host stands in the way: judged before any role has changed anything."""
    state, host = observation.context()
    if state.is_executing:
        save_lock()

    def decide(seen: Observation) -> Decision:
        if seen[HOST].root == "password" and needs_root(wishes, seen):
            remote.ask_password()
        decision = ahead(wishes, seen, remote.has_password(), host.log)
        if decision.refusal is None:
            trouble.verdict(host, told(seen))
            if state.is_executing:
                host.log(trouble.verdict_of(host))
            elif seen[SERVICE].measuring:  # in what is foreseen it is over
                host.log(MEASURING)
        return decision

    def told(seen: Observation) -> str:
        """The verdict; with -y the rest too, as no plan has been shown that says it."""
        word = verdict(wishes, seen)
        todo = forecast(wishes, remote.has_password(), seen) if word.kind == "nothing" and state.is_executing else []
        return f"{word}; found to do at the start: {'; '.join(todo)}" if todo else str(word)

    yield from converge(decide)


@operation()
def ended(wishes: Wishes) -> Generator[PyinfraCommand]:
    """The host remembers what was found and left; others may change it again; the last line says what it serves."""
    state, host = observation.context()

    def decide(seen: Observation) -> Decision:
        unrecorded = bool(wishes.settings.only or stopped_by_hand(seen[SERVICE]))  # the record is of what serves
        if state.is_executing:
            trouble.last_word(host, summary(wishes, seen))
            if claim.held(host):  # what was judged at the start is no longer so
                trouble.verdict(host, str(verdict(wishes, seen)) if unrecorded else "")
        else:
            preview.show(host, trouble.verdict_of(host))
        memory.show(state, host, wishes, seen)
        if unrecorded:
            return _released(seen) if claim.held(host) else Decision(seen)
        decision = record.recorded(wishes, seen)
        return decision if decision.steps or not claim.held(host) else _released(seen)

    yield from converge(decide)


def ahead(wishes: Wishes, seen: Observation, has_password: bool, tell: Tell) -> Decision:
    """The preflight, with what the model's header tells. No header is no reason to stop: the host may reach what this
    machine does not."""
    note = ""
    try:
        wishes = header.informed(wishes, seen, tell)
    except CannotPin as error:
        return Decision(seen, refusal=str(error))
    except header.CannotRead as error:
        note = f"the model is not known before it is downloaded: {error}"
    decision = preflight(wishes, seen, has_password)
    refusal = decision.refusal or without_root(wishes, has_password, seen)
    notes = "; ".join(filter(None, [decision.left_out, note]))
    return replace(decision, refusal=refusal, left_out=notes or None)


@operation()
def collected(wishes: Wishes) -> Generator[PyinfraCommand]:
    """No more downloaded models than are kept, beside those that something refers to."""
    yield from converge(partial(collect.collected, wishes))


def _released(seen: Observation) -> Decision:
    """Nothing to remember, and the claim to give back."""
    return Decision(seen, steps=(Step("give the host back", claim.end_of_run()),))


def save_lock() -> None:
    """What was resolved, for the next run. A folder that cannot be written is no host's trouble."""
    lock = start.the_lock(observation.context()[0])
    try:
        lock.save()
    except OSError as error:
        logger.warning(f"paddock: {lock.path} cannot be written, so refs are resolved anew next time: {error.strerror}")
