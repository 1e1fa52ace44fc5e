"""CUDA on a host without a GPU and without root's help for it: NVIDIA's wheels, put together and used by the role.

The whole build takes an hour of CPU: `make test-cuda`. `make test` goes as far as the first kernels.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import services
from tests.lab.common import Lab
from tests.lab.deploying import Target, deploy, start, target, write_inventory
from tests.lab.host import LabHost, boot
from tests.lab.test_main_job import as_dev
from tests.lab.test_trouble import wait_until

WHOLE = os.environ.get("PADDOCK_CUDA") == "1"
pytestmark = pytest.mark.timeout(7200 if WHOLE else 1500)
NO_DRIVER = "cannot run here: libcuda.so.1 is missing, which NVIDIA's driver brings"


@pytest.fixture(scope="module")
def cuda_host(deploy_lab: Lab, one: LabHost, hub: object) -> Iterator[LabHost]:
    """A bare host. `one`: the bridge must exist first; `hub`: pins are resolved before anything else."""
    host = boot("cuda", lab=deploy_lab)
    services.start_upstream(deploy_lab)
    yield host
    host.power_off()


def wanted(only: str) -> Target:
    """A CUDA build for a card that is not there."""
    return target(
        "cuda",
        backend="cuda",
        rpc_servers=None,
        cuda_toolkit="wheel:13.2",
        cuda_architectures="86-real",
        only=only.split(),
    )


def test_the_toolkit_is_put_together_and_llama_cpp_is_configured_with_it(
    cuda_host: LabHost, deploy_lab: Lab, tmp_path: Path
) -> None:
    inventory = write_inventory(tmp_path, [wanted("packages llama_cpp")])
    process = start(deploy_lab, inventory, "-y")
    try:
        wait_until(cuda_host, "grep -q '^\\[.*ggml-cuda.dir' ~/.local/share/paddock/jobs/build.log", 900, process)
    finally:
        as_dev(cuda_host, "systemctl --user stop paddock-build")
        out, err = process.communicate(timeout=120)
    assert process.returncode == 1, out + err
    assert "install NVIDIA's CUDA toolkit 13.2 from its wheels, for this user alone" in err
    [toolkit] = as_dev(cuda_host, "ls -d ~/.local/share/paddock/toolkits/*").split()
    assert "release 13.2" in as_dev(cuda_host, f"{toolkit}/bin/nvcc --version")
    cache = as_dev(cuda_host, "cat ~/.cache/paddock/build/CMakeCache.txt")
    assert re.search(rf"^CMAKE_CUDA_COMPILER:\w+={toolkit}/bin/nvcc$", cache, re.M)
    assert re.search(r"^CMAKE_CUDA_ARCHITECTURES:\w+=86-real$", cache, re.M)
    assert re.search(r"^CMAKE_CUDA_HOST_COMPILER:\w+=/usr/bin/g\+\+(-12)?$", cache, re.M)
    assert re.search(rf"^CUDA_cublas_LIBRARY:\w+={toolkit}/lib", cache, re.M)
    symbols = as_dev(cuda_host, "nm ~/.cache/paddock/build/try.o")
    assert "root" in symbols, "the three lines were compiled"


def test_the_toolkit_is_installed_once(cuda_host: LabHost, deploy_lab: Lab, tmp_path: Path) -> None:
    run = deploy(deploy_lab, write_inventory(tmp_path, [wanted("packages llama_cpp")]), "--dry")
    assert run.code == 0, run.text
    assert "build llama.cpp f7cb80cb8 (b1000) for cuda" in run.err
    assert "install NVIDIA's CUDA toolkit" not in run.err


@pytest.mark.skipif(not WHOLE, reason="an hour of CPU: make test-cuda")
def test_the_whole_cuda_backend_is_compiled_and_never_served_without_a_gpu(
    cuda_host: LabHost, deploy_lab: Lab, tmp_path: Path
) -> None:
    inventory = write_inventory(tmp_path, [wanted("packages llama_cpp")])
    run = deploy(deploy_lab, inventory, "-y", seconds=7000)
    print(as_dev(cuda_host, "grep 'was compiled in' ~/.local/share/paddock/jobs/build.log"))
    assert run.code == 1
    assert NO_DRIVER in run.last_words[-1], run.text[-2000:]
    draft = as_dev(cuda_host, "ls -d ~/.local/share/paddock/releases/.[0-9a-f]*")
    carried = as_dev(cuda_host, f"ls {draft}/lib").split()
    assert {"libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13"} <= set(carried)
    assert "libcuda.so.1" not in carried, "that one is the driver's"
    linked = as_dev(cuda_host, f"ldd {draft}/lib/libggml-cuda.so")
    assert re.search(rf"libcublas\.so\.13 => {draft}/", linked), "its own, not the toolkit's"
    assert [line.split()[0] for line in linked.splitlines() if "not found" in line] == ["libcuda.so.1"]
    assert as_dev(cuda_host, "ls ~/.local/share/paddock/releases") == "", "what was not proved is no release"
