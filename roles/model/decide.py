"""Whether the model is there, whole and verified; if not, how to get it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from roles import job, programs
from roles.host import HOST
from roles.job import Job
from roles.model.observe import MODEL, File, ModelSeen, Sidecar
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.settings import Model, seconds, size_in_bytes
from roles.wishes import ModelPin, Wishes

DOWNLOAD_MEMORY = 512 << 20  # bytes; curl and Python need 30 MB, the rest is page cache
STALL = 60  # seconds without a byte after which a connection is given up
PAUSES = (1, 2, 4, 8, 16, 30, 60, 60, 60)  # seconds between tries that bring nothing


HERE = Path(__file__).parent
PROGRAM = programs.joined(HERE / "transfer_program.py", HERE / "download_program.py")
DOWNLOAD = f"exec python3 -ISB - \"$@\" <<'END_OF_PROGRAM'\n{PROGRAM}\nEND_OF_PROGRAM"


def present(wishes: Wishes, token: str | None, observation: Observation) -> Decision:
    """The model's files are on the host and are those that were pinned. `token`: for the Hub, where it wants one."""
    seen = observation[MODEL]
    if wishes.model is None:
        return Decision(observation, refusal=unfit_path(seen))
    if holds(wishes.model, seen):
        return Decision(observation)
    return _download(wishes, wishes.model, token, observation)


def verified(wishes: Wishes, token: str | None, observation: Observation) -> Decision:
    """Every byte of the model is read again, and what is damaged is downloaded anew. Never at rest: it is asked for."""
    if wishes.model is None:
        return Decision(
            observation, left_out="model_path is a file of your own, and there is no sha256 to verify it with"
        )
    decision = _download(wishes, wishes.model, token, observation, again=True)
    if decision.refusal or not holds(wishes.model, observation[MODEL]):
        return decision
    why = f"read {wishes.model.file} again and compare it with its sha256 ({_gb(wishes.model.size)})"
    return replace(decision, reasons=(why,))


def holds(pin: ModelPin, seen: ModelSeen) -> bool:
    """Whether all the files of a pinned model are there and verified."""
    return [one.verified for one in seen.files] == [one.sha256 for one in pin.files]


def lacking(pin: ModelPin, seen: ModelSeen) -> int:
    """Bytes still to come. A file of the right size may be the right one, and is looked at first."""
    total = 0
    for wanted, there in zip(pin.files, seen.files, strict=True):
        right = there.verified == wanted.sha256 or (there.file and there.file.size == wanted.size)
        total += 0 if right else max(wanted.size - there.part_size, 0)
    return total


def known(pin: ModelPin | None, seen: ModelSeen) -> ModelSeen:
    """What is known of the model: from the file that stands there, or from the header of the one that is to come."""
    if pin is None or pin.anatomy is None or holds(pin, seen):
        return seen
    told = pin.anatomy
    return seen.model_copy(
        update={
            "architecture": told.architecture,
            "layers": told.layers or None,
            "experts": told.experts or None,
            "trained_context": told.trained_context or None,
            "mla": told.mla,
        }
    )


def _download(
    wishes: Wishes, pin: ModelPin, token: str | None, observation: Observation, again: bool = False
) -> Decision:
    seen = observation[MODEL]
    if not observation[HOST].commands.get("curl"):
        return Decision(observation, refusal="no curl to download the model with; run the packages role first")
    download = _job(wishes.settings.model, pin, token, seen, again)
    why = "it is not what was pinned" if all(one.file for one in seen.files) else "it is not on the host"
    started = any(one.part_size for one in seen.files) or any(one.verified for one in seen.files)
    resumed = f", {_gb(lacking(pin, seen))} of it still to come" if started else ""
    parts = f" and {len(pin.files) - 1} more" if len(pin.files) > 1 else ""
    reasons = [f"download {pin.file}{parts} from {pin.source} ({_gb(pin.size)}{resumed}): {why}"]
    if pin.anatomy:
        reasons.append(f"its header says: {pin.anatomy}")
    return Decision(
        _after(pin, observation),
        reasons=tuple(reasons),
        steps=(Step(f"download {pin.file}", job.follow(download), goes_on=job.goes_on(download)),),
    )


def _job(wanted: Model, pin: ModelPin, token: str | None, seen: ModelSeen, again: bool) -> Job:
    told = {
        "files": [
            {"path": there.path, "size": one.size, "sha256": one.sha256}
            for one, there in zip(pin.files, seen.files, strict=True)
        ],
        "revision": pin.commit,
        "source": pin.source,
        "rate": size_in_bytes(wanted.download_rate_max) if wanted.download_rate_max else 0,
        "again": again,
        "stall": STALL,
        "pauses": PAUSES,
    }
    return Job(
        name="download",
        title=pin.file.rsplit("/", 1)[-1],
        text=DOWNLOAD,
        args=(json.dumps(told),),
        seconds=seconds(wanted.download_time_max),
        memory=DOWNLOAD_MEMORY,
        watch=tuple(one.path for one in seen.files),
        total=pin.size,
        secret=json.dumps({"token": token or "", "urls": [one.url for one in pin.files]}),
    )


def _after(pin: ModelPin, observation: Observation) -> Observation:
    """All files verified, and what the header says of them."""
    seen = known(pin, observation[MODEL])

    def got(at: int) -> dict[str, object]:
        size, sha256 = pin.files[at].size, pin.files[at].sha256
        file = File(kind="file", mode=0o644, uid=observation[HOST].uid, size=size, mtime_ns=0)
        return {"file": file, "sidecar": Sidecar(sha256=sha256, size=size, mtime_ns=0), "part_size": 0, "bad_size": 0}

    rest = tuple(one.model_copy(update=got(at)) for at, one in enumerate(seen.rest, 1))
    fields = {name: getattr(seen, name) for name in ("architecture", "layers", "experts", "trained_context", "mla")}
    return observation.replace(MODEL, **fields, **got(0), rest=rest, is_gguf=True)


def unfit_path(seen: ModelSeen) -> str | None:
    """What is wrong with a file that the inventory says is there."""
    if seen.file is None:
        return f"model_path={seen.path!r} does not exist on the host"
    if seen.file.kind != "file":
        return f"model_path={seen.path!r} is not a file"
    if not seen.is_gguf:
        return f"model_path={seen.path!r} is not a GGUF, or cannot be read"
    if seen.missing:
        return f"model_path={seen.path!r} is the first of several parts, and {seen.missing[0]} is not beside it"
    return None


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
