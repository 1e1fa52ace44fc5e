"""What stands in a host's way, judged before any role has changed anything."""

from __future__ import annotations

from roles.browser import decide as browser
from roles.gpu.classify import Nvidia, classify
from roles.gpu.observe import GPU
from roles.host import HOST
from roles.llama_cpp import cuda
from roles.llama_cpp.decide import disk_needed, wanted_release
from roles.llama_cpp.observe import LLAMA_CPP
from roles.machine import CACHE, DATA, MACHINE
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.operation import Decision
from roles.overview.record import RECORD, facts_of
from roles.overview.verdict import Verdict, judge
from roles.packages import decide as packages
from roles.service import decide as service
from roles.service import reasons
from roles.service.observe import SERVICE
from roles.service.unit import memory_max
from roles.wishes import Wishes

DISK_MARGIN = 1 << 30  # bytes left free beside release and model


def verdict(wishes: Wishes, seen: Observation) -> Verdict:
    """What the host needs, in one word."""
    nvidia = gpu(seen)
    uses_gpu = wishes.settings.llama_cpp.backend in ("auto", "cuda")
    if nvidia.state == "mismatch" and uses_gpu:
        return judge(None, None, nvidia, release_there=False)
    try:
        now = facts_of(wishes, seen)
    except cuda.CannotBuild as error:
        bare = not seen[LLAMA_CPP].compilers
        return Verdict("rebuild", "nothing is built on this host yet" if bare else str(error))
    return judge(seen[RECORD].facts, now, nvidia, now.release in seen[LLAMA_CPP].releases)


def gpu(seen: Observation) -> Nvidia:
    """What the driver is doing, with Secure Boot among the reasons."""
    return classify(seen[GPU], seen[MACHINE].secure_boot)


def preflight(wishes: Wishes, seen: Observation) -> Decision:
    """Refuse the host, or say what will not be as one might think."""
    told = verdict(wishes, seen)
    refusal = str(told) if told.kind == "reboot" else None
    for check in (_systemd, _gpu, _places, _disk, _memory):
        refusal = refusal or check(wishes, seen)
    wanted, host = wishes.settings.service, seen[HOST]
    refusal = refusal or reasons.unfit_model(wanted, seen[MODEL])
    for look in (reasons.privileged_port, reasons.bad_key_file):
        refusal = refusal or look(wanted, seen[SERVICE], host)
    refusal = refusal or reasons.stolen_port(wanted, seen[SERVICE])
    nvidia = gpu(seen)
    notes = [nvidia.next_boot, *nvidia.warnings]
    notes += [f"{name} could not be looked at ({why})" for name, why in seen.unseen.items()]
    if uncapped := reasons.uncapped(host):
        if wanted.memory_cap_required is True:
            refusal = refusal or f"{uncapped}; boot with cgroup v2, or set memory_cap_required='warn'"
        elif wanted.memory_cap_required == "warn":
            notes.append(uncapped)
    return Decision(seen, refusal=refusal, left_out="; ".join(note for note in notes if note) or None)


def _systemd(wishes: Wishes, seen: Observation) -> str | None:
    if not seen[HOST].systemd:
        return "systemd does not run this host, and the service is a systemd unit"
    return None


def _gpu(wishes: Wishes, seen: Observation) -> str | None:
    wanted, nvidia = wishes.settings.llama_cpp, gpu(seen)
    if wanted.backend not in ("auto", "cuda") or nvidia.state == "none":
        return None
    if nvidia.state != "healthy" and not (wanted.backend == "cuda" and wanted.cuda_architectures != "auto"):
        return f"{nvidia.why}. Mend it, or set backend='cpu'"
    return next((told for gpu in nvidia.gpus if (told := cuda.dropped(gpu, nvidia.driver))), None)


def _places(wishes: Wishes, seen: Observation) -> str | None:
    """Where Paddock writes must be a disk on which programs may run."""
    for path in (DATA, CACHE):
        place = seen[MACHINE].places[path]
        if place.read_only or not place.writable:
            how = "is on a file system that is mounted read-only" if place.read_only else "cannot be written"
            return f"{path} {how} by {seen[HOST].user}"
        if place.noexec:
            return f"{path} is on a file system that is mounted noexec, and the server is run from there"
        if place.type in ("tmpfs", "ramfs"):
            return f"{path} is in memory ({place.type}), and would be gone after a reboot"
        if place.inodes_free is not None and place.inodes_free < 20_000:
            return (
                f"{path} is on a file system with {place.inodes_free} free inodes; llama.cpp's source has 10,000 files"
            )
    return None


def _disk(wishes: Wishes, seen: Observation) -> str | None:
    """One sum for what is missing: release and model are on the same disk for most people."""
    free, needs = seen[MACHINE].places[DATA].free, {}
    try:
        release = wanted_release(wishes, seen)
        if release.key not in seen[LLAMA_CPP].releases:
            needs["the build"] = disk_needed(release)
    except cuda.CannotBuild:
        needs["the build"] = 3 << 30
    if wishes.model and seen[MODEL].verified != wishes.model.sha256:
        needs["the model"] = max(wishes.model.size - seen[MODEL].part_size, 0)
    cache = seen[MACHINE].places[CACHE].free
    if "the build" in needs and cache < needs["the build"]:
        return f"{CACHE} has {cache / 1e9:.1f} GB free, and the build takes {needs['the build'] / 1e9:.1f} GB"
    if not needs or free >= sum(needs.values()) + DISK_MARGIN:
        return None
    told = " and ".join(f"{size / 1e9:.1f} GB for {what}" for what, size in needs.items())
    return f"{DATA} has {free / 1e9:.1f} GB free; it takes {told}, and {DISK_MARGIN / 1e9:.1f} GB to spare"


def _memory(wishes: Wishes, seen: Observation) -> str | None:
    wanted, host = wishes.settings.service, seen[HOST]
    cap = memory_max(wanted, host)
    if cap > host.memory_total:
        return f"service_memory_max={wanted.service_memory_max} is more than the {host.memory_total >> 20} MiB of RAM"
    if cap <= wanted.cache_ram_mib << 20:
        return f"service_memory_max is {cap >> 20} MiB here, and cannot hold cache_ram_mib={wanted.cache_ram_mib}"
    return None


def needs_root(wishes: Wishes, seen: Observation) -> bool:
    """Whether anything that is due needs root."""
    wanted = wishes.settings
    due = {
        "packages": packages.installed(wanted.llama_cpp, True, seen),
        "browser": browser.policy_set(wanted.browser, True, seen),
        "service": service.lingering(True, seen),
    }
    return any(step.script.root for role, decision in due.items() if wanted.runs(role) for step in decision.steps)
