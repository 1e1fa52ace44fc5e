"""Which release of llama.cpp the host needs, and whether it must be built."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from roles import job
from roles.host import HOST
from roles.job import Job
from roles.llama_cpp import cmake
from roles.llama_cpp.observe import LLAMA_CPP
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.settings import LlamaCpp

RECIPE = 1  # raise it when the build script changes what it produces
DISK_NEEDED = 6 << 30  # bytes: source, build and release of a CUDA build
BUILD_SECONDS = 3 * 3600
COMPILER_MEMORY = 2 << 30  # bytes for one compiler; nvcc is the hungry one
UNKNOWN = "known after packages"

BUILD = """
repo=$1 commit=$2 key=$3 jobs=$4 stamp=$5 targets=$6
shift 6
data=$HOME/.local/share/paddock source=$HOME/.cache/paddock/llama.cpp build=$HOME/.cache/paddock/build
export CCACHE_BASEDIR="$HOME" GIT_TERMINAL_PROMPT=0
test -d "$source/.git" || git init -q "$source"
cd "$source"
# Left by a git that was killed; nobody else works here, as the unit's name is the lock.
rm -f .git/*.lock
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
    echo "fetching $commit from $repo"
    timeout 1800 git fetch -q --depth 1 "$repo" "$commit" || fail "$repo does not give out commit $commit"
fi
git checkout -q -f --detach "$commit"
git clean -q -ffdx
# Another release's build is worth nothing to this one; the same one's goes on where it was killed.
test "$(cat "$build/.key" 2>/dev/null)" = "$key" || rm -rf "$build"
mkdir -p "$build"
echo "$key" >"$build/.key"
cmake -S "$source" -B "$build" -G Ninja "$@" || fail "cmake refused the configuration; its last words are in the log"
cmake --build "$build" -j "$jobs" --target $targets
draft=$data/releases/.$key
rm -rf "$draft"
mkdir -p "$draft/bin" "$draft/lib"
for target in $targets; do cp "$build/bin/$target" "$draft/bin/"; done
find "$build/bin" -name '*.so*' -exec cp -P {} "$draft/lib/" \\;
"$draft/bin/llama-server" --version || fail "the new llama-server does not start"
printf '%s\\n' "$stamp" >"$draft/stamp.json"
mv -T "$draft" "$data/releases/$key"
ln -sfn "releases/$key" "$data/current"
rm -rf "$build"
"""


@dataclass(frozen=True)
class Release:
    """A build of llama.cpp. The key is made of everything that changes the binary; it names the folder."""

    key: str
    stamp: dict[str, object]
    arguments: tuple[str, ...]

    def folder(self, data_dir: str) -> str:
        return f"{data_dir}/releases/{self.key}"


def wanted_release(wanted: LlamaCpp, commit: str, observation: Observation) -> Release:
    """Raises CannotBuild. Before compiler and toolkit are installed the key is UNKNOWN."""
    seen = observation[LLAMA_CPP]
    arguments = cmake.arguments(wanted, seen, commit)
    stamp: dict[str, object] = {
        "commit": commit,
        "arguments": list(arguments),
        "targets": list(cmake.targets(wanted)),
        "backend": cmake.backend(wanted, seen),
        "compiler": seen.compiler.split(".")[0],
        "libc": seen.libc,
        "recipe": RECIPE,
    }
    if stamp["backend"] == "cuda":
        stamp["toolkit"] = cmake.toolkit(wanted, seen).version
    # A native build is for this processor; where the inventory turned that off, the processor does not matter.
    if "GGML_NATIVE=OFF" not in arguments:
        stamp["cpu"] = hashlib.sha256(" ".join(seen.cpu_flags).encode()).hexdigest()[:12]
    if not seen.compiler or stamp.get("toolkit") == cmake.NOT_YET:
        return Release(UNKNOWN, stamp, arguments)
    digest = hashlib.sha256(json.dumps(stamp, sort_keys=True).encode()).hexdigest()
    return Release(f"{commit[:9]}-{digest[:8]}", stamp, arguments)


def built(wanted: LlamaCpp, commit: str, observation: Observation) -> Decision:
    """The wanted release stands on the host."""
    host, seen = observation[HOST], observation[LLAMA_CPP]
    try:
        release = wanted_release(wanted, commit, observation)
    except cmake.CannotBuild as error:
        return Decision(observation, refusal=str(error))
    if release.key in seen.releases:
        return Decision(observation)
    if not host.commands.get("g++"):
        return Decision(observation, refusal="no g++ to build llama.cpp with; run the packages role first")
    if host.disk_free < DISK_NEEDED:
        return Decision(
            observation,
            refusal=f"building llama.cpp needs {DISK_NEEDED >> 30} GiB in {host.home} and {host.disk_free >> 30} GiB"
            " are free",
        )
    jobs = max(1, min(host.cpus, host.memory_available // COMPILER_MEMORY))
    build = Job(
        name="build",
        title="llama.cpp",
        text=BUILD,
        args=(
            wanted.llama_repo,
            commit,
            release.key,
            str(jobs),
            json.dumps(release.stamp),
            " ".join(cmake.targets(wanted)),
            *(f"-D{argument}" for argument in release.arguments),
        ),
        seconds=BUILD_SECONDS,
        memory=host.memory_total * 8 // 10,
    )
    after = observation.replace(LLAMA_CPP, releases={**seen.releases, release.key: release.stamp})
    return Decision(
        after,
        reasons=(_why(wanted, commit, release, seen.releases),),
        steps=(Step(f"build llama.cpp {commit[:9]}", job.follow(build)),),
    )


def _why(wanted: LlamaCpp, commit: str, release: Release, releases: dict[str, dict[str, object]]) -> str:
    """What differs from the release that is nearest to the wanted one."""
    what = f"build llama.cpp {commit[:9]} ({wanted.llama_ref[:12]}) for {release.stamp['backend']}"
    if not releases:
        return f"{what}: no release on this host yet"
    nearest = max(
        releases.values(), key=lambda old: sum(old.get(name) == value for name, value in release.stamp.items())
    )
    changed = [name for name, value in release.stamp.items() if nearest.get(name) != value]
    return f"{what}: {', '.join(changed)} differ{'s' if len(changed) == 1 else ''} from the releases on this host"
