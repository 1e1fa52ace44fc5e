"""Which release of llama.cpp the host needs, and whether it must be built."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from roles import job
from roles.gpu.classify import classify
from roles.gpu.observe import GPU
from roles.host import HOST
from roles.job import Job
from roles.llama_cpp import cmake, cuda
from roles.llama_cpp.observe import LLAMA_CPP
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.settings import seconds
from roles.wishes import Wishes

RECIPE = 1  # raise it when the build script changes what it produces
DISK_NEEDED = {"cuda": 6 << 30}  # bytes: source, build and release
DISK_NEEDED_ELSE = 3 << 30
# Minutes of one core: measured on two cores with gcc 12, the CUDA backend for one architecture.
CPU_MINUTES, CUDA_MINUTES = 14, 54
UNKNOWN = "known after packages"
BUILD = (Path(__file__).parent / "build.sh").read_text("utf-8")
# What ggml's kernels are chosen by. The others (pti, md_clear, ...) come and go with kernels and microcode.
INSTRUCTIONS = re.compile(r"s?sse\w*|avx\w*|fma|f16c|bmi[12]|amx_\w+|asimd\w*|sve\w*|i8mm|s[mv]e\w*|bf16")


@dataclass(frozen=True)
class Release:
    """A build of llama.cpp. The key is made of everything that changes the binary; it names the folder."""

    key: str
    stamp: dict[str, object]
    arguments: tuple[str, ...]

    def folder(self, data_dir: str) -> str:
        return f"{data_dir}/releases/{self.key}"


def wanted_release(wishes: Wishes, observation: Observation) -> Release:
    """Raises CannotBuild. Before compiler and toolkit are installed the key is UNKNOWN."""
    wanted, seen, nvidia = wishes.settings.llama_cpp, observation[LLAMA_CPP], classify(observation[GPU])
    if seen.compiler is None:
        raise cuda.CannotBuild("no g++ to build llama.cpp with; run the packages role first")
    arguments = cmake.arguments(wishes.settings, wishes.commit, observation)
    version = seen.compilers[seen.compiler]
    stamp: dict[str, object] = {
        "commit": wishes.commit,
        "arguments": list(arguments),
        "targets": list(cmake.targets(wanted)),
        "backend": cmake.backend(wanted, nvidia),
        "compiler": version.split(".")[0],
        "libc": seen.libc,
        "recipe": RECIPE,
    }
    if stamp["backend"] == "cuda":
        stamp["toolkit"] = cuda.toolkit(wanted.cuda_toolkit, nvidia, seen).version
    # A native build is for this processor; where the inventory turned that off, the processor does not matter.
    if "GGML_NATIVE=OFF" not in arguments:
        flags = [flag for flag in seen.cpu_flags if INSTRUCTIONS.fullmatch(flag)]
        stamp["cpu"] = hashlib.sha256(" ".join(flags).encode()).hexdigest()[:12]
    if cuda.NOT_YET in (version, stamp.get("toolkit")):
        return Release(UNKNOWN, stamp, arguments)
    digest = hashlib.sha256(json.dumps(stamp, sort_keys=True).encode()).hexdigest()
    return Release(f"{wishes.commit[:9]}-{digest[:8]}", stamp, arguments)


def built(wishes: Wishes, observation: Observation) -> Decision:
    """The wanted release stands on the host."""
    host, seen, wanted = observation[HOST], observation[LLAMA_CPP], wishes.settings.llama_cpp
    try:
        release = wanted_release(wishes, observation)
    except cuda.CannotBuild as error:
        return Decision(observation, refusal=str(error))
    if release.key in seen.releases:
        return Decision(observation)
    limit = seconds(wanted.build_time_max)
    build = Job(
        name="build",
        title="llama.cpp",
        text=BUILD,
        args=(
            wanted.llama_repo,
            wishes.commit,
            release.key,
            json.dumps(release.stamp),
            " ".join(cmake.targets(wanted)),
            *(f"-D{argument}" for argument in release.arguments),
        ),
        seconds=limit,
        memory=host.memory_total * 8 // 10,
    )
    after = observation.replace(LLAMA_CPP, releases={**seen.releases, release.key: release.stamp})
    return Decision(
        after,
        reasons=(f"{_why(wishes, release, seen.releases)}; about {minutes(release, host.cpus)} min",),
        steps=(Step(f"build llama.cpp {wishes.commit[:9]}", job.follow(build), goes_on=job.goes_on(build)),),
    )


def disk_needed(release: Release) -> int:
    """Bytes that building it takes, until the build folder is gone."""
    return DISK_NEEDED.get(str(release.stamp["backend"]), DISK_NEEDED_ELSE)


def minutes(release: Release, cpus: int) -> int:
    """How long a build takes on that many cores without a warm compiler cache: the order of size."""
    cuda_too = CUDA_MINUTES if release.stamp["backend"] == "cuda" else 0
    return max(1, (CPU_MINUTES + cuda_too) // max(cpus, 1))


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
    for name, value in release.stamp.items():
        if nearest.get(name) != value:
            short = isinstance(value, str) and len(value) <= 20 and name != "cpu"  # a digest
            told.append(f"{name} {nearest.get(name, 'none')} -> {value}" if short else f"other {name}")
    return f"{what}: {', '.join(told)}"
