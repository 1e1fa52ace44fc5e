"""What a new release must show before it may serve, and the trial of a CUDA toolkit: the scripts' own functions.

A GPU, its driver and nvcc cannot be here: what they print comes from public reports and from llama.cpp's source. The
release that answers for real is in the lab tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from roles.llama_cpp.decide import ACCEPTANCE, HERE, TINY_MODEL, variables
from roles.remote import Script
from tests.unit import local
from tests.unit.tiny_model import packed

ONE = "Available devices:\n  CUDA0: NVIDIA GeForce RTX 3050 6GB Laptop GPU (6144 MiB, {free} MiB free)\n"
TWO = ONE + "  CUDA1: NVIDIA GeForce RTX 5090 (32607 MiB, 31000 MiB free)\n"
NONE = "ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected\nAvailable devices:\n  (none)\n"
CPU_ONLY = "Available devices:\n  (none)\n"


def call(folder: Path, script: str, function: str, **values: str) -> tuple[int, str, str]:
    """Run one function of a script; exit status, output, the last sentence."""
    text = (HERE / f"{script}.sh").read_text("utf-8")
    given = variables(draft=str(folder), build=str(folder), **values)
    done = local.run(Script(f"{given}{text}\n{function}"), PATH=f"{folder}/tools:{folder}/bin:/usr/bin:/bin")
    return done.returncode, done.stdout, done.stderr.rpartition("paddock: ")[2].strip()


def server(folder: Path, devices: str) -> None:
    """A llama-server that tells these devices."""
    (folder / "devices").write_text(devices)
    (folder / "flags.txt").write_text("--n-cpu-moe\n")
    local.tool(folder / "bin", "llama-server", f"cat {folder}/devices\n")


def test_the_tiny_model_is_what_its_recipe_makes() -> None:
    assert TINY_MODEL.read_bytes() == packed()


@pytest.mark.parametrize(
    ("devices", "wanted", "where"),
    [
        (ONE.format(free=5800), "1", "-ngl 99 --n-cpu-moe 1"),
        (ONE.format(free=700), "1", "--device none"),
        (TWO.format(free=5800), "2", "-ngl 99 --n-cpu-moe 1"),
        (TWO.format(free=700), "2", "--device none"),
        (TWO.format(free=5800), "1", "-ngl 99 --n-cpu-moe 1"),
        ("  CUDA0: some card\n", "1", "--device none"),
    ],
)
def test_a_cuda_build_that_sees_its_cards_is_tried_on_them_where_there_is_room(
    tmp_path: Path, devices: str, wanted: str, where: str
) -> None:
    server(tmp_path, devices)
    assert call(tmp_path, "accept", 'finds_devices; echo "$where"', backend="cuda", devices=wanted) == (
        0,
        where + "\n",
        "",
    )


@pytest.mark.parametrize(
    ("devices", "wanted", "told"),
    [
        (NONE, "1", "sees 0 of 1 GPUs: ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected"),
        (CPU_ONLY, "1", "sees 0 of 1 GPUs: it says no more"),
        (ONE.format(free=5800), "2", "sees 1 of 2 GPUs"),
        ("Available devices:\n  Vulkan0: some card (1 MiB, 1 MiB free)\n", "1", "sees 0 of 1 GPUs"),
    ],
)
def test_a_cuda_build_that_only_sees_the_cpu_is_a_failure(tmp_path: Path, devices: str, wanted: str, told: str) -> None:
    server(tmp_path, devices)
    code, _, sentence = call(tmp_path, "accept", "finds_devices", backend="cuda", devices=wanted)
    assert code == 1
    assert f"the CUDA build of llama.cpp {told}" in sentence


@pytest.mark.parametrize(
    ("lacking", "told"),
    [
        ("libcuda.so.1", "cannot run here: libcuda.so.1 is missing, which NVIDIA's driver brings"),
        ("libgomp.so.1", "the new release lacks libraries on this host: libgomp.so.1"),
    ],
)
def test_a_library_that_is_missing_is_named(tmp_path: Path, lacking: str, told: str) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libggml.so").touch()
    server(tmp_path, CPU_ONLY)
    lines = f"libm.so.6 => /lib/libm.so.6 (0x1)\n{lacking} => not found\n{lacking} => not found\n"
    (tmp_path / "linked").write_text(lines)
    local.tool(tmp_path / "tools", "ldd", f"cat {tmp_path}/linked\n")
    code, _, sentence = call(tmp_path, "accept", "links")
    assert code == 1
    assert told in sentence


# As in llama.cpp#19100 and #17615, #22668, and nvcc's own words for a card that it does not know (#23118).
CLASH = (
    "/usr/include/bits/mathcalls.h(206): error: exception specification is incompatible with that of previous"
    ' function "rsqrt" (declared at line 629 of /opt/cuda/include/crt/math_functions.h)\n'
)
TOO_NEW = (
    "/usr/local/cuda/include/crt/host_config.h:136:2: error: #error -- unsupported GNU version! gcc versions later"
    " than 15 are not supported!\n"
)
UNKNOWN = "nvcc fatal   : Unsupported gpu architecture 'compute_120'\n"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            CLASH,
            "(llama.cpp#19100); take a newer toolkit, or cuda_toolkit='wheel:13.2'",
        ),
        (TOO_NEW, "this CUDA toolkit does not allow the compiler /usr/bin/g++-16"),
        (UNKNOWN, "this CUDA toolkit has no code for cuda_architectures=120-real;86-real"),
        ("cicc: error: Segmentation fault\n", "cannot compile three lines: cicc: error: Segmentation fault"),
    ],
)
def test_a_toolkit_that_cannot_compile_three_lines_is_explained_before_the_build(
    tmp_path: Path, said: str, told: str
) -> None:
    (tmp_path / "said").write_text(said)
    local.tool(tmp_path / "bin", "nvcc", f"cat {tmp_path}/said >&2; exit 1\n")
    nvcc = str(tmp_path / "bin/nvcc")
    values = {"nvcc": nvcc, "host_compiler": "/usr/bin/g++-16", "architectures": "120-real;86-real"}
    code, out, sentence = call(tmp_path, "compile", "try_cuda", **values)
    assert code == 1
    assert out.strip() == said.strip(), "what it said is in the log"
    assert sentence.startswith(f"{nvcc} cannot compile three lines: ")
    assert told in sentence


def test_the_trial_is_compiled_for_every_card_with_the_chosen_compiler(tmp_path: Path) -> None:
    local.tool(tmp_path / "bin", "nvcc", 'echo "$@"\n')
    values = {"nvcc": str(tmp_path / "bin/nvcc"), "host_compiler": "/usr/bin/g++-14", "architectures": "86-real;120"}
    code, out, _ = call(tmp_path, "compile", "set -x; try_cuda; echo done", **values)
    assert (code, out) == (0, "done\n")
    assert "#include <cmath>" in (tmp_path / "try.cu").read_text()
    assert call(tmp_path, "compile", 'try_cuda; echo "$said"', **values)[1].startswith(
        "-ccbin /usr/bin/g++-14 -gencode arch=compute_86,code=sm_86 -gencode arch=compute_120,code=sm_120 -c"
    )


def test_without_cuda_there_is_no_trial(tmp_path: Path) -> None:
    assert call(tmp_path, "compile", "try_cuda; echo none", nvcc="")[:2] == (0, "none\n")


@pytest.mark.parametrize(
    ("does", "told"),
    [
        ("kill -ILL $$", "does not start: an illegal instruction: it was built for another CPU"),
        (
            "echo 'loading'; echo 'error: unknown model'; exit 1",
            "does not start: error: unknown model",
        ),
        ("exit 3", "does not start: exit status 3"),
    ],
)
def test_a_server_that_dies_at_its_start_is_told_at_once_and_with_the_reason(
    tmp_path: Path, does: str, told: str
) -> None:
    local.tool(tmp_path / "bin", "llama-server", f"{does}\n")
    (tmp_path / "flags.txt").write_text("-fit\n")
    values = {"model": ACCEPTANCE, "type_k": "f16", "type_v": "f16", "flash": "auto", "where": ""}
    code, _, sentence = call(tmp_path, "accept", "place=$draft/place device=; mkdir $place; answers", **values)
    assert code == 1
    assert sentence.startswith(f"the new llama-server {told}")
