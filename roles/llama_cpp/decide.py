"""Whether a host's toolkit and release of llama.cpp must be made, and which old releases go."""

from __future__ import annotations

import base64
import contextlib
import json
import shlex
from pathlib import Path

from roles import job
from roles.gpu.classify import classify
from roles.gpu.observe import GPU
from roles.host import HOST
from roles.job import Job
from roles.llama_cpp import cmake, cuda
from roles.llama_cpp.observe import LLAMA_CPP, Shelved, ToolkitSeen
from roles.llama_cpp.release import Release, wanted_release
from roles.llama_cpp.source import without_page
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.remote import Script
from roles.settings import seconds, size_in_bytes
from roles.wishes import ToolkitPin, Wishes

DISK_NEEDED = {"cuda": 6 << 30}  # bytes: source, build and release
DISK_NEEDED_ELSE = 3 << 30
TOOLKIT_DISK = 2 << 30  # the wheels, and what is in them
# Minutes of one core: measured on two cores with gcc 12, the CUDA backend for one architecture.
CPU_MINUTES, CUDA_MINUTES, ALL_QUANTS_MINUTES = 14, 54, 150
TOOLKIT_SECONDS, TOOLKIT_MEMORY = 3600, 2 << 30
HERE = Path(__file__).parent
BUILD = "".join((HERE / f"{name}.sh").read_text("utf-8") for name in ("source", "compile", "accept", "build"))
TOOLKIT = (HERE / "toolkit.sh").read_text("utf-8")
COLLECT = (HERE / "collect.sh").read_text("utf-8")
TINY_MODEL = HERE / "acceptance.gguf.gz"
ACCEPTANCE = base64.b64encode(TINY_MODEL.read_bytes()).decode()


def variables(**values: str) -> str:
    """The values that a script wants, as assignments ahead of it."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def toolkit_there(wishes: Wishes, observation: Observation) -> Decision:
    """NVIDIA's wheels are unpacked on the host, where the inventory asks for them and a CUDA build is wanted."""
    host, seen, nvidia, pin = observation[HOST], observation[LLAMA_CPP], classify(observation[GPU]), wishes.toolkit
    try:
        needed = pin is not None and cmake.backend(wishes.settings.llama_cpp, nvidia) == "cuda"
    except cuda.CannotBuild as error:
        return Decision(observation, refusal=str(error))
    if pin is None or not needed or seen.named_toolkit in seen.toolkits:
        return Decision(observation)
    if problem := cuda.unfit_wheels(pin, nvidia, seen, host):
        return Decision(observation, refusal=problem)
    if seen.compiler is None or not host.commands.get("curl"):
        return Decision(
            observation, refusal="no g++ or no curl to put NVIDIA's toolkit together; run the packages role"
        )
    install = _toolkit_job(pin, host.home, seen.compiler)
    nvcc = seen.named_toolkit or ""
    return Decision(
        observation.replace(LLAMA_CPP, toolkits={**seen.toolkits, nvcc: ToolkitSeen(version=cuda.NOT_YET)}),
        reasons=(
            f"install NVIDIA's CUDA toolkit {pin.version} from its wheels, for this user alone (about 0.6 GB to come)",
        ),
        steps=(Step(f"install CUDA {pin.version}", job.follow(install), goes_on=job.goes_on(install)),),
    )


def _toolkit_job(pin: ToolkitPin, home: str, compiler: str) -> Job:
    wheels = "\n".join(f"{wheel.name} {wheel.version} {wheel.sha256} {wheel.url}" for wheel in pin.wheels)
    given = variables(folder=pin.folder.replace("~", home, 1), compiler=f"{compiler[:-3]}gcc", wheels=wheels)
    return Job("toolkit", f"CUDA {pin.version}", given + TOOLKIT, (), TOOLKIT_SECONDS, TOOLKIT_MEMORY)


def built(wishes: Wishes, observation: Observation) -> Decision:
    """The wanted release stands on the host."""
    host, seen, wanted = observation[HOST], observation[LLAMA_CPP], wishes.settings.llama_cpp
    try:
        release = wanted_release(wishes, observation)
    except cuda.CannotBuild as error:
        return Decision(observation, refusal=str(error))
    if release.key in seen.releases:
        return Decision(observation)
    build = Job(
        name="build",
        title="llama.cpp",
        text=_given(wishes, release, observation) + BUILD,
        args=tuple(f"-D{argument}" for argument in release.arguments),
        seconds=seconds(wanted.build_time_max),
        memory=host.memory_total * 8 // 10,
    )
    newest = max((one.built_ns for one in seen.shelf.values()), default=0) + 1
    after = observation.replace(
        LLAMA_CPP,
        releases={**seen.releases, release.key: release.stamp},
        shelf={**seen.shelf, release.key: Shelved(size=0, built_ns=newest)},
    )
    why = [_why(wishes, release, seen.releases)]
    if release.argument("GGML_CUDA_FA_ALL_QUANTS") == "ON":
        why.append("most of it for the FlashAttention kernels that this pair of cache types needs")
    if told := without_page(wishes.settings, wishes.ui):
        why.append(told)
    why.append(f"about {minutes(release, host.cpus)} min")
    return Decision(
        after,
        reasons=("; ".join(why),),
        steps=(Step(f"build llama.cpp {wishes.commit[:9]}", job.follow(build), goes_on=job.goes_on(build)),),
    )


def _given(wishes: Wishes, release: Release, observation: Observation) -> str:
    """The variables of the build script."""
    service, build, gpus = wishes.settings.service, wishes.settings.llama_cpp, classify(observation[GPU]).gpus
    patches = [
        f"{'_'.join(patch.name.split())} {base64.b64encode(patch.text.encode()).decode()}\n" for patch in wishes.patches
    ]
    return variables(
        repository=build.llama_repo,
        commit=wishes.commit,
        patches="".join(patches),
        page_url=wishes.ui.url if wishes.ui else "",
        page_sha256=wishes.ui.sha256 if wishes.ui else "",
        web_ui=build.web_ui,
        key=release.key,
        stamp=json.dumps(release.stamp),
        targets=" ".join(cmake.targets(build)),
        backend=str(release.stamp["backend"]),
        devices=str(max(len(gpus), 1)),
        type_k=service.cache_type_k,
        type_v=service.cache_type_v,
        flash=service.flash_attention,
        model=ACCEPTANCE,
        nvcc=release.argument("CMAKE_CUDA_COMPILER"),
        cuda_root=release.argument("CUDAToolkit_ROOT"),
        host_compiler=release.argument("CMAKE_CUDA_HOST_COMPILER"),
        architectures=release.argument("CMAKE_CUDA_ARCHITECTURES"),
    )


def disk_needed(release: Release) -> int:
    """Bytes that building it takes, until the build folder is gone."""
    return DISK_NEEDED.get(str(release.stamp["backend"]), DISK_NEEDED_ELSE)


def minutes(release: Release, cpus: int) -> int:
    """How long a build takes on that many cores without a warm compiler cache: the order of size."""
    total = CPU_MINUTES + (CUDA_MINUTES if release.stamp["backend"] == "cuda" else 0)
    if release.argument("GGML_CUDA_FA_ALL_QUANTS") == "ON":
        total += ALL_QUANTS_MINUTES
    return max(1, total // max(cpus, 1))


def _why(wishes: Wishes, release: Release, releases: dict[str, dict[str, object]]) -> str:
    """What differs from the release that is nearest to the wanted one."""
    ref = wishes.settings.llama_cpp.llama_ref[:12]
    what = f"build llama.cpp {wishes.commit[:9]} ({ref}) for {release.stamp['backend']}"
    if not releases:
        return f"{what}: no release on this host yet"
    nearest = max(
        releases.values(), key=lambda old: sum(old.get(name) == value for name, value in release.stamp.items())
    )
    told = []
    for name in {**release.stamp, **nearest}:
        old, value = nearest.get(name, "none"), release.stamp.get(name, "none")
        if old != value:
            # Digests and lists are named, not shown.
            short = all(isinstance(one, str) and len(one) <= 20 for one in (old, value)) and name != "cpu"
            to_come = value == cuda.NOT_YET
            told.append(f"{name} {old} -> {'one to come' if to_come else value}" if short else f"other {name}")
    return f"{what}: {', '.join(told)}"


def collected(wishes: Wishes, observation: Observation) -> Decision:
    """Old releases beyond `keep_releases` and `releases_disk_max` are gone; what is in use or wanted stays, whatever it
    takes."""
    seen, wanted, stays = observation[LLAMA_CPP], wishes.settings.llama_cpp, set(observation[LLAMA_CPP].in_use)
    with contextlib.suppress(cuda.CannotBuild):
        stays.add(wanted_release(wishes, observation).key)  # built, and perhaps not served yet
    kept, size, gone = 0, 0, []
    newest_first = sorted(seen.shelf, key=lambda key: (key in stays, seen.shelf[key].built_ns), reverse=True)
    for key in newest_first:
        size += seen.shelf[key].size
        kept += 1
        if key not in stays and (kept > wanted.keep_releases or size > size_in_bytes(wanted.releases_disk_max)):
            gone.append(key)
            kept, size = kept - 1, size - seen.shelf[key].size
    if not gone:
        return Decision(observation)
    many = f"{len(gone)} old releases" if len(gone) > 1 else "an old release"
    freed = sum(seen.shelf[key].size for key in gone)
    left = {key: seen.shelf[key] for key in seen.shelf if key not in gone}
    releases = {key: stamp for key, stamp in seen.releases.items() if key not in gone}
    return Decision(
        observation.replace(LLAMA_CPP, shelf=left, releases=releases),
        reasons=(f"remove {many} of llama.cpp ({freed / 1e6:.0f} MB): {', '.join(gone)}",),
        steps=(Step("remove old releases", Script(COLLECT, tuple(gone))),),
    )
