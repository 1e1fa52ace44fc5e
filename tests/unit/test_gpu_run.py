"""The run on a machine with a GPU, as far as it goes without one: what it decides, reads and refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import gate, planned, results, server, wanted
from tests.unit import hosts

HERE = Path(__file__).parents[1] / "gpu"
NVCC = "/usr/local/cuda-13.0/bin/nvcc"
# Words and widths as llama.cpp logs them at level 4; the figures are made up.
LOG = """0.03.1 I load_tensors: offloaded 13/13 layers to GPU
0.03.1 I load_tensors:        CUDA0 model buffer size =   267.69 MiB
0.03.1 I load_tensors:   CPU_Mapped model buffer size =   131.01 MiB
0.03.1 I load_tensors:   CPU_REPACK model buffer size =    72.00 MiB
0.03.2 I llama_kv_cache:      CUDA0 KV buffer size =   100.00 MiB
0.03.2 I llama_kv_cache:      CUDA0 KV buffer size =     8.00 MiB
0.03.3 I llama_context:  CUDA_Host  output buffer size =     0.58 MiB
0.03.3 I sched_reserve:      CUDA0 compute buffer size =    60.00 MiB
0.03.3 I sched_reserve:      CUDA0 compute buffer size =    48.17 MiB
0.03.3 I sched_reserve:  CUDA_Host compute buffer size =    36.04 MiB
0.09.9 I common_memory_breakdown_print: | memory breakdown [MiB] | total    free    self   model   context   compute |
0.09.9 I common_memory_breakdown_print: |   - CUDA0 (H200) | 143167 = 142136 + ( 423 =   267 +     108 +      48) +         607 |
0.09.9 I common_memory_breakdown_print: |   - Host         |                   239 =   203 +       0 +      36                |
"""  # noqa: E501


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run, with the commit that it builds."""
    (tmp_path / "commit").write_text(hosts.COMMIT + "\n")
    for module, name in ((wanted, "WORK"), (results, "OUT")):
        monkeypatch.setattr(module, name, tmp_path)
    monkeypatch.setenv("HOME", f"{tmp_path}/home")
    return tmp_path


def answer(work: Path, **changes: dict[str, Any]) -> Path:
    """What the probe says on a machine with one H200 and CUDA 13.0."""
    seen: dict[str, dict[str, Any]] = {
        "gpu": hosts.nvidia(("NVIDIA H200", "9.0"), driver="580.159.04"),
        "llama_cpp": {
            "compilers": {"/usr/bin/g++": "13.3.0"},
            "toolkits": {NVCC: {"version": "13.0", "gcc_max": 15}},
            "libc": "glibc 2.39",
        },
        **changes,
    }
    path = work / "probe.json"
    path.write_text(json.dumps(hosts.bare_answers(**seen)))
    return path


def test_the_decision_is_the_roles_own_for_the_card_that_is_there(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted.judge(answer(work))
    figures = json.loads((work / "result.json").read_text())["probe"]
    assert {"GGML_CUDA=ON", "CMAKE_CUDA_ARCHITECTURES=90-real", f"CMAKE_CUDA_COMPILER={NVCC}"} <= set(figures["cmake"])
    assert figures["cards"] == [{"name": "NVIDIA H200", "compute_cap": "9.0", "memory_total": 6144}]
    script = (work / "build.sh").read_text()
    assert f"repository=file://{work}/upstream" in script
    assert "backend=cuda" in script
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    assert capsys.readouterr().out.startswith("NVIDIA H200 (9.0, 6144 MiB); build llama.cpp 012345678")


def test_a_driver_that_the_loader_does_not_find_is_named_in_the_build(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_GPU_DRIVER", "/usr/local/nvidia/lib64")
    wanted.judge(answer(work))
    assert "'-DCMAKE_INSTALL_RPATH=$ORIGIN/../lib;/usr/local/nvidia/lib64'" in (work / "build.sh").read_text()


def test_no_card_is_a_sentence_and_no_build_for_the_cpu(work: Path) -> None:
    with pytest.raises(SystemExit, match=r"^paddock: no GPU to build for: there is no NVIDIA card$"):
        wanted.judge(answer(work, gpu=hosts.nvidia()))
    assert not (work / "build.sh").exists()


def test_a_toolkit_that_does_not_fit_is_the_roles_own_sentence(work: Path) -> None:
    old = {"toolkits": {NVCC: {"version": "11.4", "gcc_max": 11}}, "compilers": {"/usr/bin/g++": "11.4.0"}}
    with pytest.raises(SystemExit, match=r"^paddock: no CUDA toolkit on this host fits: CUDA 11\.4 does not know"):
        wanted.judge(answer(work, llama_cpp=old))


def test_the_log_is_summed_by_device_and_by_host() -> None:
    found = server.buffers(LOG)
    assert server.total(found, on_device=True) == [267.69, 108.0, 48.17]
    assert server.total(found, on_device=False) == [203.01, 0.0, 36.04]
    assert planned.unaccounted(LOG) == [607]


@pytest.mark.parametrize(
    ("logged", "sentence"),
    [
        ([267.69, 108.0, 300.0], None),
        ([400.0, 108.0, 48.0], "the device holds 400.0 MiB of model, and 267 were planned"),
        ([267.0, 204.0, 48.0], "the device holds 204.0 MiB of KV, and 108 were planned"),
    ],
)
def test_model_and_cache_must_be_as_planned(logged: list[float], sentence: str | None) -> None:
    assert gate.differs([267.0, 108.0, 48.0], logged) == sentence


def test_what_a_step_found_stays_beside_what_others_did(work: Path) -> None:
    results.record("build", seconds=7)
    results.record("gate", layers="13/13")
    results.record("build", seconds=9, cached=True)
    expected = {"build": {"seconds": 9, "cached": True}, "gate": {"layers": "13/13"}}
    assert json.loads((work / "result.json").read_text()) == expected


def run_there(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """run.sh as it is, beside a pack that holds only its description."""
    here = folder / "tests/gpu"
    here.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "run.sh", here)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(folder), "TMPDIR": str(folder), **env}
    return subprocess.run(["sh", here / "run.sh"], env=env, capture_output=True, text=True, timeout=60, check=False)


def test_without_a_pack_it_says_how_to_make_one(tmp_path: Path) -> None:
    done = run_there(tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"paddock: {tmp_path}/build/gpu is not there; make it where there is a network, with:"
        " python -m tests.gpu.pack\n"
    )


@pytest.mark.parametrize(
    ("python", "env", "sentence"),
    [
        ("3.12", {"PADDOCK_GPU_BACKEND": "vulkan"}, "PADDOCK_GPU_BACKEND=vulkan: it is cuda, or rpc for a machine"),
        ("2.7", {}, "and this was packed for 2.7; pack again, with --python 3."),
    ],
)
def test_a_run_that_cannot_be_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, python: str, env: dict[str, str], sentence: str
) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not here, and that is told first")
    (tmp_path / "pack.json").write_text(json.dumps({"python": python, "twin_bytes": 1}))
    done = run_there(tmp_path, **env)
    assert done.returncode == 1
    assert done.stderr.startswith("paddock: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.glob("gpu.*")) == []
