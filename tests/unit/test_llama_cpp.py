"""Whether a release must be built, why, and what the build is given."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from roles.llama_cpp import decide
from roles.llama_cpp.observe import LLAMA_CPP
from roles.operation import Decision
from roles.wishes import Wishes
from tests.unit import hosts, machines, seed
from tests.unit.deciding import Decide, acting, reasons, refusal, resting

NO_RELEASE: dict[str, Any] = {"releases": {}}


def built(commit: str = hosts.COMMIT, **data: Any) -> Decide:
    return partial(decide.built, Wishes(hosts.wishes(**data).settings, commit, None))


def gcc(version: str) -> dict[str, Any]:
    return {"compilers": {"/usr/bin/g++": version}}


def job(decision: Decision) -> dict[str, Any]:
    """What the host is given: the job on the wire."""
    (step,) = decision.steps
    assert step.script.python
    assert not step.script.root
    (wire,) = step.script.args
    found: dict[str, Any] = json.loads(wire)
    return found


def test_the_release_that_is_there_is_enough() -> None:
    resting(built(), hosts.converged())


def test_others_beside_it_do_not_matter() -> None:
    others = {"other": {"commit": "e" * 40}, **hosts.converged_answers()["llama_cpp"]["releases"]}
    resting(built(), hosts.converged(llama_cpp={"releases": others}))


def test_building_it_leaves_the_others() -> None:
    decision = acting(built("f" * 40), hosts.converged())
    assert len(decision.after[LLAMA_CPP].releases) == 2


@pytest.mark.parametrize(
    ("decide", "fields", "why"),
    [
        (built(), NO_RELEASE, "no release on this host yet"),
        (built("f" * 40), {}, "other commit, other arguments"),
        (built(llama_cmake_args=["GGML_LTO=ON"]), {}, "other arguments"),
        (built(), gcc("15.1.0"), "compiler 14 -> 15"),
        (built(), {"libc": "glibc 2.43"}, "libc glibc 2.41 -> glibc 2.43"),
        (built(), {"cpu_flags": ["avx512f"]}, "other cpu"),
        (built(), {**gcc("15.1.0"), "libc": "glibc 2.43"}, "compiler 14 -> 15, libc glibc 2.41 -> glibc 2.43"),
    ],
)
def test_what_differs_is_the_reason(decide: Decide, fields: dict[str, Any], why: str) -> None:
    assert reasons(decide, hosts.converged(llama_cpp=fields)).endswith(f" for cpu: {why}; about 1 min")


def test_the_reason_is_what_differs_from_the_nearest_release() -> None:
    near = next(iter(hosts.converged_answers()["llama_cpp"]["releases"].values()))
    far = {"commit": "e" * 40, "arguments": [], "backend": "cuda"}
    fields = {"releases": {"far": far, "near": near, "farther": {}}, "libc": "glibc 2.43"}
    assert ": libc glibc 2.41 -> glibc 2.43; " in reasons(built(), hosts.converged(llama_cpp=fields))


@pytest.mark.parametrize(("cpus", "minutes"), [(1, 14), (2, 7), (8, 1), (64, 1)])
def test_how_long_it_will_take_is_told(cpus: int, minutes: int) -> None:
    told = reasons(built(), hosts.converged(host={"cpus": cpus}, llama_cpp=NO_RELEASE))
    assert told.endswith(f"; about {minutes} min")


def test_cuda_takes_longer() -> None:
    seen = hosts.parsed(seed.laptop_answers(host={**hosts.converged_answers()["host"], "cpus": 12}))
    assert reasons(built(), seen).endswith(" for cuda: no release on this host yet; about 5 min")


def test_the_ref_is_told_beside_the_commit() -> None:
    assert "llama.cpp 012345678 (b12464) for cpu" in reasons(built(llama_ref="b12464"), hosts.converged())


@pytest.mark.parametrize(
    ("decide", "changes", "sentence"),
    [
        (built(), {"llama_cpp": {"compilers": {}}}, "no g++ to build llama.cpp with; run the packages role first"),
        (built(), {"gpu": {**machines.nvidia(seed.RTX_3050), "table": None}}, "nvidia-smi is not installed. Mend it"),
        (built(backend="cuda"), {}, "a CUDA toolkit is needed"),
    ],
)
def test_a_host_that_cannot_build_is_refused(decide: Decide, changes: dict[str, Any], sentence: str) -> None:
    fields = {**NO_RELEASE, **changes.get("llama_cpp", {})}
    assert sentence in refusal(decide, hosts.converged(**{**changes, "llama_cpp": fields}))


def test_the_build_is_capped_and_followed_by_its_log() -> None:
    wire = job(acting(built(), hosts.converged(llama_cpp=NO_RELEASE)))
    assert wire["name"] == "build"
    assert wire["memory"] == (32 << 30) * 8 // 10
    assert wire["seconds"] == 3 * 3600, "build_time_max"
    assert wire["watch"] == []


def test_the_build_is_given_repository_commit_targets_and_every_argument() -> None:
    seen = hosts.parsed(seed.laptop_answers(host=hosts.converged_answers()["host"]))
    script = job(acting(built(llama_repo="https://git.test/fork"), seen))["script"]
    assert f"repository=https://git.test/fork\ncommit={hosts.COMMIT}\n" in script
    assert "\nkey=012345678-" in script
    assert "\ntargets='llama-server llama-bench llama-fit-params'\n" in script
    assert "\nnvcc=/opt/cuda/bin/nvcc\ncuda_root=/opt/cuda\nhost_compiler=/usr/bin/g++\n" in script
    assert "\narchitectures=86-real\n" in script
    last = script.rpartition("\njob ")[2]
    assert "-DGGML_CUDA=ON" in last
    assert "'-DCMAKE_INSTALL_RPATH=$ORIGIN/../lib'" in last, "the shell must not put a variable there"


def test_the_stamp_that_the_build_writes_is_the_one_that_is_looked_for() -> None:
    decision = acting(built(), hosts.converged(llama_cpp=NO_RELEASE))
    ((key, stamp),) = decision.after[LLAMA_CPP].releases.items()
    read_back = hosts.converged(llama_cpp={"releases": {key: json.loads(json.dumps(stamp))}})
    resting(built(), read_back)
