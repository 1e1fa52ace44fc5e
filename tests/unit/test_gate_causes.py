"""What a log tells of a start that failed, and whether another would help. The lines were printed by llama.cpp on a lab
host, by systemd 252, or are those of the public reports that the table is made from."""

from __future__ import annotations

import pytest

from roles.service.gate.causes import CAUSES, cause, explained
from roles.service.gate.devices import suspend_fix

LINES: dict[str, tuple[str, str, bool]] = {
    "error: invalid argument: --gone-option": ("--gone-option is no option of this release", "server_args", False),
    'error while handling argument "-c": stoi': ("the option -c was refused: stoi", "correct it", False),
    "error while handling argument \"--api-key-file\": error: failed to open file '/root/x'": (
        "/root/x cannot be read",
        "with mode 0600",
        False,
    ),
    "0.00.014.080 E gguf_init_from_file: failed to open GGUF file '/m.gguf' (No such file or directory)": (
        "/m.gguf is not there, or cannot be read",
        "run the deploy again",
        False,
    ),
    "0.00.020.021 E gguf_init_from_file: failed to open GGUF file '/tmp/no.gguf' (Permission denied)": (
        "/tmp/no.gguf is not there, or cannot be read",
        "run the deploy again",
        False,
    ),
    "0.00.069.501 E llama_model_load: error loading model: tensor 'token_embd.weight' data is not within the file"
    " bounds, model is corrupted or incomplete": ("the model's file is damaged or not whole", "verify", False),
    "0.00.008.832 E gguf_init_from_reader: failed to read key-value pairs": (
        "the model's file is damaged or not whole",
        "verify",
        False,
    ),
    "0.00.004.736 E gguf_init_from_reader: invalid magic characters: 'hell', expected 'GGUF'": (
        "the model's file is damaged or not whole",
        "verify",
        False,
    ),
    "0.00.072.773 E llama_model_load: error loading model: unknown model architecture: 'qwen9moe'": (
        "this release does not know the model's architecture, qwen9moe",
        "newer build",
        False,
    ),
    "0.00.009.066 E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8091": (
        "port 8091 at 127.0.0.1 is taken, or not an address of this host",
        "set another port",
        True,
    ),
    "../llama.cpp/ggml/src/ggml-rpc/ggml-rpc.cpp:547: Failed to connect to 127.0.0.1:1": (
        "the RPC server 127.0.0.1:1 does not answer",
        "rpc_servers",
        True,
    ),
    "0.00.642.624 E alloc_tensor_range: failed to allocate CPU buffer of size 614989824": (
        "the host is out of memory",
        "lower context",
        True,
    ),
    "alloc_tensor_range: failed to allocate RPC0[127.0.0.1:50052] buffer of size 614989824": (
        "RPC0 is out of memory: a buffer of 614989824 bytes was asked for",
        "raise n_cpu_moe",
        True,
    ),
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 3240.00 MiB on device 0: cudaMalloc failed: out of"
    " memory": (
        "GPU 0 is out of memory: 3240.00 MiB more were asked for",
        "raise n_cpu_moe",
        True,
    ),
    "llama_model_load: error loading model: unable to allocate CUDA0 buffer": (
        "the device is out of memory",
        "raise n_cpu_moe",
        True,
    ),
    "CUDA error: out of memory": ("the device is out of memory", "raise n_cpu_moe", True),
    "CUDA error: the provided PTX was compiled with an unsupported toolchain.": (
        "the driver is older than the CUDA toolkit",
        "cuda_toolkit",
        False,
    ),
    "ggml_cuda_init: failed to initialize CUDA: CUDA driver version is insufficient for CUDA runtime version": (
        "the driver is older than the CUDA toolkit",
        "cuda_toolkit",
        False,
    ),
    "ggml_cuda_init: failed to initialize CUDA: system has unsupported display driver / cuda driver combination": (
        "the NVIDIA driver that runs and its libraries do not fit together",
        "reboot",
        False,
    ),
    "Failed to initialize NVML: Driver/library version mismatch": ("the NVIDIA driver that runs", "reboot", False),
    "NVRM: API mismatch: the client 'x' has the version 580.1, but this kernel module has the version 570.2": (
        "the NVIDIA driver that runs",
        "reboot",
        False,
    ),
    "ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected": (
        "CUDA does not work: no CUDA-capable device is detected",
        "nvidia-smi",
        True,
    ),
    "CUDA error: no kernel image is available for execution on the device": (
        "the release was built for another card",
        "cuda_architectures",
        False,
    ),
    "paddock-llama-server.service: Main process exited, code=dumped, status=4/ILL": (
        "an illegal instruction",
        "GGML_NATIVE=OFF",
        False,
    ),
    "paddock-llama-server.service: A process of this unit has been killed by the OOM killer.": (
        "it needed more RAM than its cap",
        "service_memory_max",
        True,
    ),
    "paddock-llama-server.service: Failed with result 'oom-kill'.": (
        "it needed more RAM than its cap",
        "service_memory_max",
        True,
    ),
    "llama-server: error while loading shared libraries: libcudart.so.13: cannot open shared object file": (
        "the release lacks libcudart.so.13",
        "built anew",
        False,
    ),
    "paddock-llama-server.service: Main process exited, code=exited, status=203/EXEC": (
        "the program could not be run",
        "deploy again",
        False,
    ),
    "paddock-llama-server.service: Main process exited, code=exited, status=226/NAMESPACE": (
        "systemd could not make the unit's sandbox",
        "left out",
        False,
    ),
}


@pytest.mark.parametrize(("line", "expected"), LINES.items(), ids=[line[:60] for line in LINES])
def test_a_line_is_explained_with_its_remedy(line: str, expected: tuple[str, str, bool]) -> None:
    why, remedy, helps = expected
    found = cause(["something before", line, "something after"])
    assert found is not None
    assert found["why"].startswith(why)
    assert remedy in found["do"]
    assert found["helps"] is helps
    assert explained([line]).startswith(f": {why}")


def test_every_cause_of_the_table_has_a_line_here() -> None:
    told = {found["do"] for line in LINES if (found := cause([line]))}
    assert told == {remedy for _, _, remedy, _ in CAUSES}


def test_the_gravest_cause_wins_over_what_follows_from_it() -> None:
    log = [
        "0.00.642.436 E ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 614989824",
        "0.00.642.624 E alloc_tensor_range: failed to allocate CPU buffer of size 614989824",
        "0.00.642.791 E llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv"
        " cache",
    ]
    assert explained(log) == ": the host is out of memory; lower context, or take a smaller model"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], ""),
        (["0.01 I all is well"], ""),
        (
            ["0.01 I one", "0.02.003.004 E srv: a failure of a new kind", "error: later"],
            ": srv: a failure of a new kind",
        ),
        (["llama_model_loader: - kv  12: tokenizer.error u32 = 1"], ""),
        (["warning: no usable GPU found, an error is ahead"], ""),
        (["Failed with result 'exit-code'."], ""),
        (["paddock: the RPC server x:1 is away"], ": the RPC server x:1 is away"),
        (["error: " + "x" * 500], ": error: " + "x" * 293),
    ],
)
def test_what_is_not_known_is_told_by_its_first_line_of_trouble(lines: list[str], told: str) -> None:
    assert explained(lines) == told


@pytest.mark.parametrize(
    ("version", "told", "expected"),
    [
        ("570.124.06", "NVIDIA UNIX Open Kernel Module for x86_64", "NVreg_PreserveVideoMemoryAllocations=1"),
        ("590.10", "NVIDIA UNIX x86_64 Kernel Module", "NVreg_PreserveVideoMemoryAllocations=1"),
        ("595.80", "NVIDIA UNIX Open Kernel Module for x86_64", "NVreg_UseKernelSuspendNotifiers=1"),
        ("595.80", "NVIDIA UNIX x86_64 Kernel Module", "NVreg_PreserveVideoMemoryAllocations=1"),
        ("", "", "NVreg_PreserveVideoMemoryAllocations=1"),
    ],
)
def test_what_keeps_vram_over_a_suspend_depends_on_the_drivers_branch(
    monkeypatch: pytest.MonkeyPatch, version: str, told: str, expected: str
) -> None:
    files = {"/sys/module/nvidia/version": version + "\n", "/proc/driver/nvidia/version": f"NVRM version: {told}  x\n"}
    monkeypatch.setattr("roles.service.gate.devices.read", lambda path, most=0: files[path])
    assert suspend_fix().startswith(expected)
    assert version in suspend_fix()
    assert ("disabled" in suspend_fix()) == (expected == "NVreg_UseKernelSuspendNotifiers=1")
