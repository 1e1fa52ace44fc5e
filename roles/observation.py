"""The one look at a host: every role's fragment in one remote command, parsed, shared, dropped after a change.

A role owns a `Fragment`: a function that runs on the host (`look`), what to tell it (`ask`), and the record that
its answer is parsed into (`seen`). The record of records is the `Observation`. It is valid for one phase of pyinfra
and until an operation on that host has run a command; nobody patches it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, ValidationError
from pyinfra.api import FactBase, Host, State, StringCommand
from pyinfra.api.facts import get_fact
from pyinfra.context import ctx_host, ctx_state

from roles import probe_tools

PROBE_SECONDS = 60


class Seen(BaseModel):
    """Base of every role's record of what was seen. The host may be newer than Paddock: unknown fields are ignored."""

    model_config = ConfigDict(frozen=True)


def or_none(value: Any, read: Callable[[Any], Any]) -> Any:
    """For pydantic's WrapValidator: what another version wrote, or nobody can read, is as good as nothing."""
    try:
        return read(value)
    except ValidationError:
        return None


S = TypeVar("S", bound=Seen)


@dataclass(frozen=True)
class Fragment(Generic[S]):
    """One role's part of the probe. `look` gets what `ask` made of the host's wishes; both sides speak JSON.

    `unknown` stands in where the look failed, so that one odd file does not hide a whole host. A fragment without one
    is needed: nothing can be decided without it. `helpers` are further functions that `look` calls, sent beside it.
    """

    name: str
    look: Callable[[dict[str, Any]], dict[str, Any]]
    ask: Callable[[Any], dict[str, Any]]
    seen: type[S]
    unknown: S | None = None
    helpers: tuple[Callable[..., Any], ...] = ()


class Observation:
    """What one probe saw, by fragment. Immutable: `replace` makes another one. `unseen`: looks that failed, and how."""

    def __init__(self, records: Mapping[str, Seen], unseen: Mapping[str, str] | None = None) -> None:
        self._records = dict(records)
        self.unseen = dict(unseen or {})

    def __getitem__(self, fragment: Fragment[S]) -> S:
        record = self._records[fragment.name]
        if not isinstance(record, fragment.seen):
            raise TypeError(f"{fragment.name} holds a {type(record).__name__}")
        return record

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Observation) and self._records == other._records

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._records)))

    def replace(self, fragment: Fragment[S], **changes: Any) -> Observation:
        """The same observation with some fields of one record changed."""
        return Observation({**self._records, fragment.name: self[fragment].model_copy(update=changes)}, self.unseen)


def program(fragments: Sequence[Fragment[Any]], wishes: Any) -> str:
    """The probe as Python source: prelude, fragments, and a main that answers JSON and never fails whole."""
    parts = [Path(probe_tools.__file__).read_text("utf-8"), "import json"]
    calls = []
    for fragment in fragments:
        parts += map(inspect.getsource, (*fragment.helpers, fragment.look))
        ask = json.dumps(fragment.ask(wishes))
        calls.append(f"    {fragment.name!r}: ({fragment.look.__name__}, json.loads({ask!r})),")
    parts.append("answers = {}\nfor name, (look, ask) in {\n" + "\n".join(calls) + "\n}.items():")
    parts.append(
        "    try:\n        answers[name] = look(ask)\n    except Exception as error:\n"
        "        answers[name] = {'error': repr(error)}\nprint(json.dumps(answers))\n"
    )
    return "\n\n".join(parts)


def parse(text: str, fragments: Sequence[Fragment[Any]]) -> Observation:
    """The probe's answer as an observation. Raises ValueError where a needed part of it is missing."""
    answers: Any = json.loads(text)
    if not isinstance(answers, dict):
        raise ValueError("the answer is not a record")
    records: dict[str, Seen] = {}
    unseen: dict[str, str] = {}
    for fragment in fragments:
        try:
            records[fragment.name] = _record(fragment, answers.get(fragment.name))
        except ValueError as error:
            if fragment.unknown is None:
                raise
            records[fragment.name] = fragment.unknown
            unseen[fragment.name] = str(error)
    return Observation(records, unseen)


def _record(fragment: Fragment[S], answer: Any) -> S:
    if isinstance(answer, dict) and "error" in answer:
        raise ValueError(f"{fragment.name}: {answer['error']}")
    try:
        return fragment.seen.model_validate(answer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, (fragment.name, *first["loc"])))
        raise ValueError(f"{where}: {first['msg']}") from None


class Unreadable(Exception):
    """The host could not be observed; the text says why and what to do."""


class HostObservation(FactBase[Observation | Unreadable]):
    """The fact behind the observation: the probe is on stdin, so a login shell has nothing to mangle."""

    fragments: Sequence[Fragment[Any]] = ()

    def command(self) -> StringCommand:
        probe = f"LC_ALL=C timeout -k 5 {PROBE_SECONDS} python3 -ISB -"
        return StringCommand("if command -v python3 >/dev/null; then", probe, "; else echo no python3; fi")

    def process(self, output: list[str]) -> Observation | Unreadable:
        if output[-1] == "no python3":
            return Unreadable("python3 is not installed, and Paddock looks at a host with it; install it and run again")
        try:
            return parse(output[-1], self.fragments)
        except ValueError as error:
            return Unreadable(f"the probe's answer cannot be read: {error}")


class Stdin:
    """Text for a remote command's standard input: readable again on a retry, and bland in debug output."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "<stdin>"

    def __iter__(self) -> Iterator[str]:
        return iter(self.readlines())

    def readlines(self) -> list[str]:
        return [self._text]


@dataclass
class _Slot:
    key: tuple[bool, int]
    observation: Observation


_slots: WeakKeyDictionary[Host, _Slot] = WeakKeyDictionary()
_probes: WeakKeyDictionary[Host, tuple[type[HostObservation], Stdin]] = WeakKeyDictionary()

# An operation's own global arguments leak into every fact it reads: pin them all, or the shared observation would
# depend on which operation happened to ask first.
PLAIN: dict[str, Any] = {
    "_sudo": False, "_sudo_user": None, "_su_user": None, "_doas": False, "_dzdo": False, "_chdir": None, "_env": {},
    "_get_pty": False, "_success_exit_codes": [0], "_timeout": PROBE_SECONDS + 10, "_shell_executable": "sh",
    "_use_sudo_login": False, "_preserve_sudo_env": False,
}  # fmt: skip


def context() -> tuple[State, Host]:
    """pyinfra's state and host themselves, not its proxies: they are keys of dictionaries here."""
    return ctx_state.get(), ctx_host.get()  # type: ignore[no-untyped-call]


def require(fragments: Sequence[Fragment[Any]], wishes: Any) -> None:
    """Say once per host, before its first operation, what the probe reads and what the roles wish for."""
    _, host = context()
    fact = type("HostObservation", (HostObservation,), {"fragments": tuple(fragments)})
    _probes[host] = (fact, Stdin(program(fragments, wishes)))
    _slots.pop(host, None)


def read() -> Observation:
    """The current host's observation: at most one remote command until something changes. Raises Unreadable."""
    state, host = context()
    slot = _slots.get(host)
    if slot is not None and slot.key == _key(state, host):
        return slot.observation
    fact, stdin = _probes[host]
    seen: Observation | Unreadable | None = get_fact(
        state, host, fact, kwargs={**PLAIN, "_stdin": stdin}, apply_failed_hosts=False
    )
    if not isinstance(seen, Observation):
        raise seen or Unreadable("the probe ended without an answer; what it printed stands above")
    _slots[host] = _Slot(_key(state, host), seen)
    return seen


def predict(observation: Observation) -> None:
    """Prepare only: what the host will look like once the operation that is being planned has run."""
    state, host = context()
    _slots[host] = _Slot(_key(state, host), observation)


def forget() -> None:
    """An operation is about to change the host: the next one reads it again."""
    _slots.pop(context()[1], None)


def last(host: Host) -> Observation | None:
    """The newest observation of a host, for a summary; it may be a prediction."""
    slot = _slots.get(host)
    return slot.observation if slot else None


def _key(state: State, host: Host) -> tuple[bool, int]:
    """Changes with the phase, and with every operation on this host that ran a command."""
    ran = sum(data.operation_meta.executed for data in state.ops[host].values())
    return state.is_executing, ran
