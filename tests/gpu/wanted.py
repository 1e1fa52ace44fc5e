"""What a run on the GPU machine wants, as an inventory would say it, and what the roles decide about it. Runs there.

python3 -m tests.gpu.wanted probe           prints the probe, a Python program
python3 -m tests.gpu.wanted decide ANSWER   judges the probe's answer; writes the build's script
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from roles import observation, settings
from roles.gpu.classify import Nvidia, classify
from roles.gpu.observe import GPU
from roles.host import HOST
from roles.llama_cpp import decide
from roles.llama_cpp.cuda import CannotBuild
from roles.llama_cpp.observe import LLAMA_CPP
from roles.llama_cpp.release import Release, wanted_release
from roles.machine import MACHINE
from roles.memory.observe import MEMORY
from roles.model.observe import MODEL
from roles.observation import Fragment, Observation
from roles.wishes import Wishes
from tests.gpu.results import WORK, fail, record

FRAGMENTS: tuple[Fragment[Any], ...] = (HOST, MACHINE, GPU, LLAMA_CPP, MODEL, MEMORY)
BACKEND = os.environ.get("PADDOCK_GPU_BACKEND", "cuda")
# A native build dies of an illegal instruction on virtual machines that advertise AMX, so the instruction set is named.
CMAKE = ["GGML_NATIVE=OFF", "GGML_AVX2=ON", "GGML_FMA=ON", "GGML_F16C=ON", "GGML_BMI2=ON"]


def data() -> dict[str, Any]:
    """The entry of this machine in an inventory."""
    told: dict[str, Any] = {
        "backend": BACKEND,
        "llama_repo": f"file://{WORK}/upstream",
        "llama_ref": (WORK / "commit").read_text("utf-8").strip(),
        "llama_cmake_args": CMAKE,
        "web_ui": "off",
        "cuda_toolkit": os.environ.get("PADDOCK_GPU_TOOLKIT", "auto"),
        "model_path": f"{WORK}/model.gguf",
        "context": 32768,
        "n_cpu_moe": 4,
        "gpu_layers": 99,
        "ubatch": 512,
        "cache_type_k": "q4_0",
        "cache_type_v": "q4_0",
        "flash_attention": "on",
        "cache_ram_mib": 256,
        "port": int(os.environ.get("PADDOCK_GPU_PORT", "8093")),
        "benchmark_depths": [0, 2048, 16384],
        "memory_cap_required": "warn",
    }
    if folder := os.environ.get("PADDOCK_GPU_DRIVER"):
        told["llama_cmake_args"] = [*CMAKE, f"CMAKE_INSTALL_RPATH=$ORIGIN/../lib;{folder}"]
    if BACKEND == "rpc":
        told["rpc_servers"] = [f"127.0.0.1:{os.environ.get('PADDOCK_GPU_RPC_PORT', '50093')}"]
        told |= {"benchmark_depths": [0, 256], "benchmark_tokens": 16}  # the figures of a stand-in tell nothing
    return told


def wishes(**changes: Any) -> Wishes:
    """The same, checked; with `changes` another one."""
    wanted = settings.of({**data(), **changes})
    return Wishes(settings=wanted, commit=wanted.llama_cpp.llama_ref, model=None)


def seen(answer: str) -> Observation:
    """The probe's answer. The home is this run's own: the real one is left alone."""
    return observation.parse(answer, FRAGMENTS).replace(HOST, home=os.environ["HOME"])


def release() -> Release:
    """The release that the build's step decided on."""
    return wanted_release(wishes(), seen((WORK / "probe.json").read_text("utf-8")))


def build_script(found: Observation) -> str:
    """What the role would run on a host without a release; where there is one, it says so at once."""
    decision = decide.built(wishes(), found.replace(LLAMA_CPP, releases={}))
    return str(json.loads(decision.steps[0].script.args[0])["script"])


def judge(answer: Path) -> None:
    """Decide on the build, write its script, say what was decided."""
    found = seen(answer.read_text("utf-8"))
    nvidia = classify(found[GPU])
    if BACKEND == "cuda" and nvidia.state != "healthy":
        fail(f"no GPU to build for: {nvidia.why or 'there is no NVIDIA card'}")
    decision = decide.built(wishes(), found)
    if decision.refusal:
        fail(decision.refusal)
    try:
        wanted = wanted_release(wishes(), found)
    except CannotBuild as error:
        fail(str(error))
    (WORK / "build.sh").write_text(build_script(found), "utf-8")
    (WORK / "release").write_text(wanted.key, "utf-8")
    record(
        "probe",
        cards=_cards(nvidia),
        driver=nvidia.driver,
        release=wanted.key,
        cmake=wanted.arguments,
        toolkits={path: one.version for path, one in found[LLAMA_CPP].toolkits.items()},
        compilers=found[LLAMA_CPP].compilers,
        cpus=found[HOST].cpus,
        os=found[HOST].os_name,
    )
    cards = ", ".join(f"{card['name']} ({card['compute_cap']}, {card['memory_total']} MiB)" for card in _cards(nvidia))
    print(f"{cards or 'no GPU'}; {'; '.join(decision.reasons) or 'built already'}")


def _cards(nvidia: Nvidia) -> list[dict[str, Any]]:
    return [{"name": gpu.name, "compute_cap": gpu.compute_cap, "memory_total": gpu.memory_total} for gpu in nvidia.gpus]


if __name__ == "__main__":
    if sys.argv[1] == "probe":
        print(observation.program(FRAGMENTS, wishes()))
    else:
        judge(Path(sys.argv[2]))
