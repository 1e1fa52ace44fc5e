"""The run on a machine with a GPU, as far as it goes without one: what it decides, reads and refuses."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import ballast, gate, planned, results, server, tight, wanted
from tests.unit import hosts, machines

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
        "gpu": machines.nvidia(("NVIDIA H200", "9.0"), driver="580.159.04"),
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
        wanted.judge(answer(work, gpu=machines.nvidia()))
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


def environment(folder: Path, **env: str) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": f"{folder}",
        "TMPDIR": f"{folder}",
        **env,
    }


def run_there(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """run.sh as it is, beside what of a pack the test made."""
    here = folder / "tests/gpu"
    here.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "run.sh", here)
    command = ["sh", str(here / "run.sh")]
    return subprocess.run(
        command, env=environment(folder, **env), capture_output=True, text=True, timeout=60, check=False
    )


def small_pack(folder: Path, first_step: str) -> Path:
    """A pack that is whole to run.sh, and whose first step does what the test wants; nothing is built from it."""
    if missing := [tool for tool in ("cmake", "g++", "git", "curl") if shutil.which(tool) is None]:
        pytest.skip(f"run.sh wants {', '.join(missing)}, and says so first")
    code = folder / "tests/gpu"
    code.mkdir(parents=True)
    for name in ("run.sh", "results.py", "__init__.py"):
        shutil.copy(HERE / name, code)
    (code / "wanted.py").write_text(first_step)
    (folder / "tests/__init__.py").touch()
    (folder / "wheels").mkdir()
    with zipfile.ZipFile(folder / "wheels/some.whl", "w") as wheel:
        wheel.writestr("ninja-1.data/scripts/ninja", "")
    for name in ("model", "twin"):
        (folder / f"{name}.gguf.gz").write_bytes(gzip.compress(b"GGUF"))
    with tarfile.open(folder / "source.tar.gz", "w:gz") as tar:
        tar.add(HERE / "results.py", "llama.cpp/CMakeLists.txt")
    python = "{}.{}".format(*sys.version_info[:2])
    (folder / "pack.json").write_text(json.dumps({"python": python, "twin_bytes": 4}))
    return folder


def test_a_step_that_fails_is_told_and_kept(tmp_path: Path) -> None:
    small_pack(tmp_path, "import sys; sys.exit('paddock: the card is on fire')")
    done = run_there(tmp_path, PADDOCK_GPU_BACKEND="rpc")
    assert done.returncode == 1
    assert done.stderr.startswith("paddock: step 1, wishes, failed after ")
    assert done.stderr.endswith(f"s: the card is on fire (see {tmp_path}/out/failed.log)\n")
    failed = json.loads((tmp_path / "out/result.json").read_text())["failed"]
    assert (failed["step"], failed["why"]) == ("wishes", "the card is on fire")
    assert list(tmp_path.glob("gpu.*")) == []


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_run_ends_what_it_started(tmp_path: Path, sign: signal.Signals) -> None:
    child = "import pathlib, subprocess, time; child = subprocess.Popen(['sleep', '300']); "
    small_pack(tmp_path, child + f"pathlib.Path('{tmp_path}/pid').write_text(str(child.pid)); time.sleep(300)")
    # A shell cannot trap what is ignored when it starts, as SIGHUP is below nohup and SIGINT in the background.
    command = ["env", "--default-signal", "sh", f"{tmp_path}/tests/gpu/run.sh"]
    env = environment(tmp_path, PADDOCK_GPU_BACKEND="rpc")
    running = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pid = tmp_path / "pid"
    waited(lambda: pid.exists() and pid.read_text() != "")
    running.send_signal(sign)
    assert running.wait(20) == 130
    waited(lambda: not alive(int(pid.read_text())))
    assert list(tmp_path.glob("gpu.*")) == []


def waited(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end, "it did not happen within 30 s"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """A process that nobody has waited for yet is none."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


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


@pytest.mark.parametrize(
    ("complaint", "memory"),
    [
        ("ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory", True),
        ("E alloc_tensor_range: failed to allocate CUDA0 buffer of size 402653184", True),
        ("E ggml_gallocr_reserve_n_impl: failed to allocate RPC0[127.0.0.1:1] buffer of size 1", True),
        ("error loading model: unable to allocate CUDA0 buffer", True),
        ("CUDA error: an illegal memory access was encountered", False),
        ("error: invalid argument: --nonsense", False),
    ],
)
def test_a_want_of_memory_is_told_from_other_failures(complaint: str, memory: bool) -> None:
    assert bool(tight.WANT.search(complaint)) == memory


def test_a_card_that_cannot_be_filled_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["ballast", "100"])
    monkeypatch.setattr(ballast, "LIBRARY", "libcuda.so.none")
    with pytest.raises(SystemExit, match="paddock: the driver's library cannot be loaded"):
        ballast.main()
