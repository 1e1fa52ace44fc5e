"""What stands in a host's way, judged before any role has changed anything."""

from __future__ import annotations

from collections.abc import Callable

from roles.gpu.classify import Nvidia, classify
from roles.gpu.observe import GPU
from roles.host import HOST
from roles.llama_cpp import cuda
from roles.llama_cpp.decide import TOOLKIT_DISK, disk_needed, toolkit_there
from roles.llama_cpp.observe import LLAMA_CPP
from roles.llama_cpp.release import wanted_release
from roles.machine import CACHE, DATA, MACHINE, MODELS
from roles.memory import decide as memory
from roles.memory import ram
from roles.model.decide import holds, known, lacking, unfit_path
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.operation import Decision
from roles.overview.record import RECORD, facts_of
from roles.overview.verdict import Verdict, judge
from roles.packages import decide as packages
from roles.service import reasons
from roles.service.command import arguments
from roles.service.observe import SERVICE
from roles.service.options import LacksOption
from roles.wishes import Wishes

DISK_MARGIN = 1 << 30  # bytes left free beside release and model
INODES = 20_000  # source and build of llama.cpp, with room


def gpu(seen: Observation) -> Nvidia:
    """What the driver is doing, with Secure Boot among the reasons."""
    return classify(seen[GPU], seen[MACHINE].secure_boot)


def uses_gpu(wishes: Wishes) -> bool:
    return wishes.settings.llama_cpp.backend in ("auto", "cuda")


def verdict(wishes: Wishes, seen: Observation) -> Verdict:
    """What the host needs, in one word."""
    nvidia = gpu(seen)
    if nvidia.state == "mismatch" and uses_gpu(wishes):
        return judge(None, None, nvidia, release_there=False)
    try:
        now = facts_of(wishes, seen)
    except cuda.CannotBuild as error:
        bare = not seen[LLAMA_CPP].releases
        if not bare and wishes.toolkit and seen[LLAMA_CPP].named_toolkit not in seen[LLAMA_CPP].toolkits:
            return Verdict("rebuild", f"with CUDA {wishes.toolkit.version} from NVIDIA's wheels")
        return Verdict("rebuild", "nothing is built on this host yet" if bare else str(error))
    return judge(seen[RECORD].facts, now, nvidia, now.release in seen[LLAMA_CPP].releases)


def preflight(wishes: Wishes, seen: Observation, has_password: bool = True) -> Decision:
    """Refuse the host, or say what will not be as one might think. Looks at what the roles of this run will need."""
    told, roles = verdict(wishes, seen), wishes.settings.runs
    checks: list[Callable[[Wishes, Observation], str | None]] = []
    if roles("llama_cpp") or roles("service"):
        checks += [_driver, _places, _build]
    if roles("model"):
        checks += [_model_place]
    if roles("llama_cpp") or roles("model"):
        checks += [_disk]
    if roles("memory"):
        checks += [memory.hopeless]
    if roles("service"):
        checks += [_memory, _model, _service]
    reboot = str(told) if told.kind == "reboot" and (roles("llama_cpp") or roles("service")) else None
    packaged = packages.installed(wishes.settings.llama_cpp, has_password, seen).refusal if roles("packages") else None
    refusal = reboot or _systemd(wishes, seen) or packaged
    refusal = refusal or next((why for check in checks if (why := check(wishes, seen))), None)
    nvidia = gpu(seen)
    notes = [nvidia.next_boot, *nvidia.warnings] if uses_gpu(wishes) else []
    if wishes.settings.llama_cpp.backend == "cuda" and nvidia.state == "none" and roles("llama_cpp"):
        notes.append("no NVIDIA GPU is here: a CUDA build will be refused at its end, as it sees none")
    notes += [f"{name} could not be looked at ({why})" for name, why in seen.unseen.items()]
    if seen[SERVICE].system_config and roles("service"):
        notes.append(
            "every llama.cpp on this host reads /etc/llama.cpp/config.ini: what the unit does not say comes from there"
        )
    if wishes.settings.service.memory_cap_required == "warn":
        notes.append(reasons.uncapped(wishes.settings.service, seen[HOST]) or "")
    return Decision(seen, refusal=refusal, left_out="; ".join(note for note in notes if note) or None)


def _systemd(wishes: Wishes, seen: Observation) -> str | None:
    if not seen[HOST].systemd:
        return "systemd does not run this host, and the service is a systemd unit"
    return None


def _driver(wishes: Wishes, seen: Observation) -> str | None:
    wanted, nvidia = wishes.settings.llama_cpp, gpu(seen)
    if not uses_gpu(wishes) or nvidia.state == "none":
        return None
    for_another = wanted.backend == "cuda" and wanted.cuda_architectures != "auto"
    if nvidia.state != "healthy" and not for_another:
        return f"{nvidia.why}. Mend it, or set backend='cpu'"
    return next((told for card in nvidia.gpus if (told := cuda.dropped(card, nvidia.driver))), None)


def _build(wishes: Wishes, seen: Observation) -> str | None:
    """Whether toolkit, card, driver and compiler go together once the packages are there."""
    try:
        wanted_release(wishes, prepared(wishes, seen))
    except cuda.CannotBuild as error:
        return str(error)
    return None


def prepared(wishes: Wishes, seen: Observation) -> Observation:
    """The host once packages and CUDA toolkit are installed, where this run will and may. Raises CannotBuild."""
    if wishes.settings.runs("packages"):
        seen = packages.installed(wishes.settings.llama_cpp, True, seen).after
    if wishes.settings.runs("llama_cpp"):
        decision = toolkit_there(wishes, seen)
        if decision.refusal:
            raise cuda.CannotBuild(decision.refusal)
        seen = decision.after
    return seen


def _places(wishes: Wishes, seen: Observation) -> str | None:
    """Where Paddock writes must be a disk on which programs may run."""
    for path in (DATA, CACHE):
        place = seen[MACHINE].places[path]
        if place.read_only or not place.writable:
            how = "is on a file system that is mounted read-only" if place.read_only else "cannot be written"
            return f"{path} {how} by {seen[HOST].user}"
        if place.noexec:
            return f"{path} is on a file system that is mounted noexec, and programs are run from there"
        if place.type in ("tmpfs", "ramfs"):
            return f"{path} is in memory ({place.type}), and would be gone after a reboot"
        if place.inodes_free is not None and place.inodes_free < INODES:
            return (
                f"{path} is on a file system with {place.inodes_free} free inodes; llama.cpp's source has 10,000 files"
            )
    return None


def _model_place(wishes: Wishes, seen: Observation) -> str | None:
    """Where a model that is still to come will be."""
    place = seen[MACHINE].places[MODELS]
    if wishes.model is None or holds(wishes.model, seen[MODEL]):
        return None
    if place.read_only or not place.writable:
        how = "is on a file system that is mounted read-only" if place.read_only else "cannot be written"
        return f"{MODELS} {how} by {seen[HOST].user}, and {wishes.model.file} is to be downloaded to it"
    if place.type in ("tmpfs", "ramfs"):
        return f"{MODELS} is in memory ({place.type}), and a model there would take the RAM that it is run with"
    return None


def _disk(wishes: Wishes, seen: Observation) -> str | None:
    """One sum for what is to come: release and model are on the same disk for most people."""
    places, needs = seen[MACHINE].places, {}
    try:
        ready = prepared(wishes, seen)
        release = wanted_release(wishes, ready)
        if release.key not in seen[LLAMA_CPP].releases and wishes.settings.runs("llama_cpp"):
            needs["the build"] = disk_needed(release)
        if len(ready[LLAMA_CPP].toolkits) > len(seen[LLAMA_CPP].toolkits) and wishes.toolkit:
            needs["the CUDA toolkit"] = TOOLKIT_DISK
    except cuda.CannotBuild:
        pass  # told by another check
    if wishes.model and (to_come := lacking(wishes.model, seen[MODEL])) and wishes.settings.runs("model"):
        needs["the model"] = to_come
    if places[CACHE].free < needs.get("the build", 0):
        return (
            f"{CACHE} has {places[CACHE].free / 1e9:.1f} GB free, and the build takes {needs['the build'] / 1e9:.1f} GB"
        )
    if places[DATA].device != places[MODELS].device and "the model" in needs:
        return _room(MODELS, seen, {"the model": needs.pop("the model")}) or _room(DATA, seen, needs)
    return _room(DATA, seen, needs)


def _room(path: str, seen: Observation, needs: dict[str, int]) -> str | None:
    """The sentence about a disk that cannot hold all of `needs` beside the models that stay."""
    model = seen[MODEL] if "the model" in needs else None
    bad = sum(one.bad_size for one in model.files) if model else 0  # the download removes it for want of room
    free = seen[MACHINE].places[path].free + bad
    if not needs or free >= sum(needs.values()) + DISK_MARGIN:
        return None
    told = " and ".join(f"{size / 1e9:.1f} GB for {what}" for what, size in needs.items())
    held = sum(one.size for one in model.stored) - bad if model else 0
    others = f". Models that are there hold {held / 1e9:.1f} GB, and the one that serves must stay" if held else ""
    there = f"{free / 1e9:.1f} GB free" + (", with the file that came wrong" if bad else "")
    return f"{path} has {there}; it takes {told}, and {DISK_MARGIN / 1e9:.1f} GB to spare{others}"


def _memory(wishes: Wishes, seen: Observation) -> str | None:
    wanted, memory, host = wishes.settings.service, wishes.settings.memory, seen[HOST]
    most = ram.available(memory, host.memory_total)
    if not most:
        return f"ram_reserve={memory.ram_reserve} is all of the {host.memory_total >> 20} MiB of RAM; set less"
    auto = wanted.service_memory_max == "auto"  # which may be all of that, once there is a plan
    cap = most if auto else ram.limits(wanted, memory, host.memory_total, False, None).maximum
    if cap > host.memory_total:
        return f"service_memory_max={wanted.service_memory_max} is more than the {host.memory_total >> 20} MiB of RAM"
    if cap <= wanted.cache_ram_mib << 20:
        return f"service_memory_max is {cap >> 20} MiB here, and cannot hold cache_ram_mib={wanted.cache_ram_mib}"
    return None


def _model(wishes: Wishes, seen: Observation) -> str | None:
    given = None if wishes.model else unfit_path(seen[MODEL])
    return given or reasons.unfit_model(wishes.settings.service, known(wishes.model, seen[MODEL]))


def _service(wishes: Wishes, seen: Observation) -> str | None:
    return reasons.refused(wishes.settings.service, seen[SERVICE], seen[HOST]) or _options(wishes, seen)


def _options(wishes: Wishes, seen: Observation) -> str | None:
    """Whether the release has all options that are asked for, where it is on the host already. The split is the plan's,
    which is still to come where another option is asked for."""
    build = wishes.settings.llama_cpp
    try:
        knows = seen[LLAMA_CPP].options.get(wanted_release(wishes, seen).key, ())
        arguments(wishes.settings.service, seen[MODEL].path, build.rpc_servers, False, knows=knows)
    except LacksOption as error:
        return str(error)
    except cuda.CannotBuild:
        pass  # told by another check
    return None
