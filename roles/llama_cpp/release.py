"""The release of llama.cpp that a host needs: all that changes the binary, as a stamp, and its digest as a key."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from roles.gpu.classify import classify
from roles.gpu.observe import GPU
from roles.host import HOST
from roles.llama_cpp import cmake, cuda
from roles.llama_cpp.observe import LLAMA_CPP
from roles.observation import Observation
from roles.wishes import Wishes

RECIPE = 2  # raise it when the build script changes what it produces
UNKNOWN = "known after packages"
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

    def argument(self, name: str) -> str:
        """The value of one of cmake's arguments; empty where it is not given."""
        values = [value for key, _, value in (one.partition("=") for one in self.arguments) if key == name]
        return values[-1] if values else ""


def wanted_release(wishes: Wishes, observation: Observation) -> Release:
    """Raises CannotBuild. Before compiler and toolkit are installed the key is UNKNOWN."""
    wanted, seen, nvidia = wishes.settings.llama_cpp, observation[LLAMA_CPP], classify(observation[GPU])
    if seen.compiler is None:
        raise cuda.CannotBuild("no g++ to build llama.cpp with; run the packages role first")
    arguments = cmake.arguments(wishes, observation)
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
    if wishes.patches:
        stamp["patches"] = [patch.sha256 for patch in wishes.patches]
    if wishes.ui:
        stamp["page"] = wishes.ui.sha256
    if stamp["backend"] == "cuda":
        stamp["toolkit"] = cuda.toolkit(wanted.cuda_toolkit, nvidia, seen, observation[HOST]).version
    # A native build is for this processor; where the inventory turned that off, the processor does not matter.
    if "GGML_NATIVE=OFF" not in arguments:
        flags = [flag for flag in seen.cpu_flags if INSTRUCTIONS.fullmatch(flag)]
        stamp["cpu"] = hashlib.sha256(" ".join(flags).encode()).hexdigest()[:12]
    if cuda.NOT_YET in (version, stamp.get("toolkit")):
        return Release(UNKNOWN, stamp, arguments)
    digest = hashlib.sha256(json.dumps(stamp, sort_keys=True).encode()).hexdigest()
    return Release(f"{wishes.commit[:9]}-{digest[:8]}", stamp, arguments)
