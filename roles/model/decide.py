"""Whether the model is there, whole and verified; if not, how to get it."""

from __future__ import annotations

from pathlib import Path

from roles import job
from roles.host import HOST
from roles.job import Job
from roles.model.observe import MODEL, File, ModelSeen, Sidecar
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.settings import seconds
from roles.wishes import ModelPin, Wishes

DOWNLOAD_MEMORY = 512 << 20  # bytes; curl and sha256sum need a few MB, the rest is page cache

DOWNLOAD = (Path(__file__).parent / "download.sh").read_text("utf-8")


def present(wishes: Wishes, token: str | None, observation: Observation) -> Decision:
    """The model's file is on the host and is the one that was pinned. `token`: for the Hub, where it wants one."""
    seen = observation[MODEL]
    if wishes.model is None:
        return Decision(observation, refusal=unfit_path(seen))
    if seen.verified == wishes.model.sha256:
        return Decision(observation)
    if not observation[HOST].commands.get("curl"):
        return Decision(observation, refusal="no curl to download the model with; run the packages role first")
    limit = seconds(wishes.settings.model.download_time_max)
    return _download(wishes.model, token, limit, observation)


def lacking(pin: ModelPin, seen: ModelSeen) -> int:
    """Bytes still to come. A file of the right size may be the right one, and is looked at first."""
    if seen.verified == pin.sha256 or (seen.file and seen.file.size == pin.size):
        return 0
    return max(pin.size - seen.part_size, 0)


def _download(pin: ModelPin, token: str | None, limit: int, observation: Observation) -> Decision:
    seen, file_name = observation[MODEL], pin.file.rsplit("/", 1)[-1]
    download = Job(
        name="download",
        title=file_name,
        text=DOWNLOAD,
        args=(seen.path, pin.url, str(pin.size), pin.sha256),
        seconds=limit,
        memory=DOWNLOAD_MEMORY,
        watch=seen.path + ".part",
        total=pin.size,
        secret=f'header = "Authorization: Bearer {token}"' if token else "",
    )
    why = "it is not what was pinned" if seen.file else "it is not on the host"
    resumed = f", {_gb(lacking(pin, seen))} of it still to come" if seen.part_size else ""
    file = File(kind="file", mode=0o644, uid=observation[HOST].uid, size=pin.size, mtime_ns=0)
    after = observation.replace(
        MODEL, file=file, is_gguf=True, sidecar=Sidecar(sha256=pin.sha256, size=pin.size, mtime_ns=0), part_size=0
    )
    return Decision(
        after,
        reasons=(f"download {pin.file} from {pin.repo} ({_gb(pin.size)}{resumed}): {why}",),
        steps=(Step(f"download {pin.file}", job.follow(download), goes_on=job.goes_on(download)),),
    )


def unfit_path(seen: ModelSeen) -> str | None:
    """What is wrong with a file that the inventory says is there."""
    if seen.file is None:
        return f"model_path={seen.path!r} does not exist on the host"
    if seen.file.kind != "file":
        return f"model_path={seen.path!r} is not a file"
    if not seen.is_gguf:
        return f"model_path={seen.path!r} is not a GGUF, or cannot be read"
    return None


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
