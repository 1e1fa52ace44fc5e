"""What travels to a machine with a GPU: enough of the source, models that are what they say, code that is whole."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import gguf
import pytest

from tests.gpu import gate, models, pack, source

SMALL = models.Shape("small", 2, 256, 4, 2, 64, 4, 2, 256, 400)
STEPS = ("wanted", "gate", "planned", "results")


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("CMakeLists.txt", True),
        ("ggml/CMakeLists.txt", True),
        ("ggml/src/ggml-cuda/template-instances/mmq-instance-q4_k.cu", True),
        ("ggml/src/ggml-cpu/ggml-cpu.c", True),
        ("ggml/src/ggml-rpc/ggml-rpc.cpp", True),
        ("ggml/src/ggml-backend-impl.h", True),
        ("ggml/src/ggml-vulkan/ggml-vulkan.cpp", False),
        ("ggml/include/ggml-vulkan.h", True),
        ("scripts/ui-assets.cmake", True),
        ("scripts/sync-ggml.sh", False),
        ("tools/ui/CMakeLists.txt", True),
        ("tools/ui/src/app.html", False),
        ("tools/mtmd/test-3.mp4", False),
        ("models/ggml-vocab-qwen2.gguf", False),
        ("docs/build.md", False),
    ],
)
def test_only_what_the_build_reads_goes_along(name: str, needed: bool) -> None:
    assert source.is_needed(name) is needed


def test_the_header_alone_knows_the_size_of_the_whole_model(tmp_path: Path) -> None:
    header, whole = tmp_path / "header.gguf", tmp_path / "whole.gguf"
    told = models.write(header, SMALL, with_weights=False)
    assert models.write(whole, SMALL, with_weights=True) == told == whole.stat().st_size
    assert whole.read_bytes().startswith(header.read_bytes())
    assert header.stat().st_size < told / 10


def test_the_gate_knows_how_many_layers_the_model_has_that_goes_along() -> None:
    assert models.SERVED.layers == gate.SERVED_LAYERS


def test_the_model_is_a_mixture_of_experts_that_packs_small(tmp_path: Path) -> None:
    packed = tmp_path / "model.gguf.gz"
    size = models.pack(packed, SMALL, with_weights=True)
    path = tmp_path / "model.gguf"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    reader = gguf.GGUFReader(path)
    kinds = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
    assert kinds["blk.1.ffn_gate_exps.weight"] == "Q4_K"
    assert kinds["blk.1.ffn_down_exps.weight"] == "Q6_K"
    assert len(reader.fields["tokenizer.ggml.tokens"].contents()) == SMALL.tokens
    assert packed.stat().st_size < size / 4
    again = tmp_path / "again.gz"
    models.pack(again, SMALL, with_weights=True)
    assert again.read_bytes() == packed.read_bytes()


def test_the_steps_need_no_more_than_what_is_carried(tmp_path: Path) -> None:
    """Imported in a folder of their own, they find their modules there, and packages that are among the wheels."""
    pack.code(tmp_path)
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import json, sys, pathlib\n"
            f"for step in {STEPS!r}: __import__('tests.gpu.' + step)\n"
            "files = {name: getattr(module, '__file__', None) or '' for name, module in sys.modules.items()}\n"
            "print(json.dumps(files))",
        ],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    files = json.loads(told.stdout)
    assert all(Path(files[name]).is_relative_to(tmp_path) for name in files if name.split(".")[0] in ("roles", "tests"))
    packages = importlib.metadata.packages_distributions()
    used = {name.split(".")[0] for name, file in files.items() if "site-packages" in file} - {"_distutils_hack"}
    carried = {name.lower().replace("_", "-") for name in pack.WHEELS}
    assert {packages[name][0].lower().replace("_", "-") for name in used if name in packages} <= carried
    assert {"pydantic", "pyinfra"} <= used


def test_every_wheel_is_pinned() -> None:
    pinned = (pack.CHECKOUT / "constraints.txt").read_text("utf-8")
    assert [name for name in pack.WHEELS if f"\n{name}==" not in f"\n{pinned}"] == []


@pytest.mark.parametrize("python", ["3.10", "3", "2.7", "3.12.1", "../3.12"])
def test_a_python_that_the_roles_cannot_run_on_is_refused(python: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        pack.main(["--python", python])
    assert f"--python {python}: the roles need Python 3.11 or newer, written as 3.12" in capsys.readouterr().err


def test_a_folder_of_somebody_elses_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("dear to me")
    with pytest.raises(
        SystemExit, match=r"^paddock: .* holds something else, and would be emptied; name a new folder$"
    ):
        pack.make(tmp_path, "3.12")
    assert (tmp_path / "mine").read_text() == "dear to me"
