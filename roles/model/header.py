"""The header of a pinned model, read on this machine before anything is downloaded, and kept here by sha256."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from roles.lock import CannotPin
from roles.model import gguf_header, hub
from roles.model.decide import holds
from roles.model.gguf_header import Cut, Header, NoModel, Unknown
from roles.model.hub import Tell
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.settings import Model
from roles.wishes import Anatomy, ModelPin, PinnedFile, Wishes

FIRST, MOST = 1 << 20, 256 << 20  # bytes: of the first request, and of the longest header that is believed
PIECE = 1 << 16


class CannotRead(Exception):
    """The header could not be fetched now; the text says why. The download may all the same be possible."""


def folder() -> Path:
    """Where headers are kept on this machine."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paddock" / "headers"


def kept(pin: ModelPin) -> Anatomy | None:
    """What was read of this model before; None where it was not, or its headers are gone. Asks nobody."""
    if any(twin(file) is None for file in pin.files):
        return None
    try:
        told = json.loads((folder() / f"{pin.sha256}.json").read_text("utf-8"))
        lists = {name: tuple(told[name]) for name in ("expert_bytes", "cache_row")}
        return Anatomy(**{**told, **lists})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def anatomy(pin: ModelPin, wanted: Model, tell: Tell) -> Anatomy:
    """From what is kept, or from the Hub: the headers of all files, by Range. Raises CannotPin where the model is none
    or will not be given, CannotRead where nobody can be reached now."""
    if (known := kept(pin)) is not None:
        return known
    token = hub.token(wanted)
    headers = []
    for file in pin.files:
        try:
            headers.append(gguf_header.parsed(_bytes_of(file, wanted, token, tell), file.size))
        except NoModel as error:
            raise CannotPin(f"{file.path} in {pin.source} {error}") from None
    try:
        found = gguf_header.anatomy(headers)
    except NoModel as error:
        raise CannotPin(f"{pin.file} in {pin.source} {error}") from None
    except Unknown as error:
        raise CannotRead(f"the gguf package here cannot read the header of {pin.file} ({error})") from None
    except OSError as error:
        raise CannotRead(f"the header of {pin.file} cannot be read on this machine: {error}") from None
    _write(folder() / f"{pin.sha256}.json", lambda path: path.write_text(json.dumps(asdict(found)), "utf-8"))
    return found


def twin(file: PinnedFile) -> Path | None:
    """The header of one file, as it was fetched; None where it was not. With `truncate` to the file's size it is the
    file without its weights."""
    path = folder() / f"{file.sha256}.header"
    return path if path.exists() else None


def bytes_of(pin: ModelPin) -> tuple[bytes, ...]:
    """The headers of all files of a model that is kept here."""
    return tuple(path.read_bytes() for file in pin.files if (path := twin(file)) is not None)


def _bytes_of(file: PinnedFile, wanted: Model, token: str | None, tell: Tell) -> bytes:
    """The whole header and perhaps more. Raises NoModel, CannotPin and CannotRead."""
    if (path := twin(file)) is not None:
        return path.read_bytes()
    data, ask_for = b"", FIRST
    while True:
        data = _fetch(file, data, min(ask_for, file.size), wanted, token, tell)
        try:
            header: Header = gguf_header.parsed(data, file.size)
            break
        except Cut:
            if len(data) >= min(file.size, MOST):
                raise NoModel(f"is damaged: its header does not end within {len(data)} bytes") from None
            ask_for = len(data) * 4
    whole = data[: header.length]
    _write(folder() / f"{file.sha256}.header", lambda path: path.write_bytes(whole))
    return whole


def _fetch(file: PinnedFile, data: bytes, size: int, wanted: Model, token: str | None, tell: Tell) -> bytes:
    """The first `size` bytes, of which `data` are there already."""
    from requests import RequestException

    from roles import fetch

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    got = bytearray(data)  # outlives a connection that breaks off

    def ask() -> bytes:
        span = {"Range": f"bytes={len(got)}-{size - 1}"}
        with fetch.get(file.url, {**headers, **span}) as answer:
            if answer.status_code != 206:  # a server that ignores the range begins anew
                got.clear()
            for piece in answer.iter_content(PIECE):
                got.extend(piece)
                if len(got) >= size:  # what is too much is not read
                    break
            return bytes(got[:size])

    try:
        return hub.patiently(ask, tell)
    except RequestException as error:
        told = hub.sentence(error, wanted, token)
        status = hub.status_of(error)
        refused = status in (401, 403, 404, 416)
        raise (CannotPin(told) if refused else CannotRead(told)) from None
    except OSError as error:
        raise CannotRead(f"{file.path} cannot be read ahead: {error}") from None


def _write(path: Path, write: Callable[[Path], object]) -> None:
    """Whole or not at all; a cache that cannot be written is no trouble."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(draft)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)


def informed(wishes: Wishes, seen: Observation, tell: Tell | None) -> Wishes:
    """The wishes with what the model's header tells; with `tell` the Hub is asked for one that is not kept here, where
    the model is still to come. Raises CannotPin and CannotRead."""
    pin = wishes.model
    if pin is None or not (wishes.settings.runs("model") or wishes.settings.runs("memory")):
        return wishes
    found = anatomy(pin, wishes.settings.model, tell) if tell and not holds(pin, seen[MODEL]) else kept(pin)
    return replace(wishes, model=replace(pin, anatomy=found))
