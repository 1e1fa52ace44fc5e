"""Why a llama-server did not come up, by what it and systemd said: data, and the one function that reads it.

The strings are llama.cpp's (src, common, tools/server, ggml), the NVIDIA driver's and systemd's own.
"""

from __future__ import annotations

import re
from typing import Any

# Pattern; what it means, with the pattern's groups; what to do; whether another start may help without a change.
CAUSES: tuple[tuple[str, str, str, bool], ...] = (
    (
        r"API mismatch: the client|[Dd]river/library version mismatch|unsupported display driver / cuda driver",
        "the NVIDIA driver that runs and its libraries do not fit together",
        "reboot",
        False,
    ),
    (
        r"PTX was compiled with an unsupported toolchain|driver version is insufficient for CUDA runtime",
        "the driver is older than the CUDA toolkit that this release was built with",
        "update the driver, or set cuda_toolkit to a version that it knows, and deploy again",
        False,
    ),
    (
        r"no kernel image is available for execution",
        "the release was built for another card",
        "set cuda_architectures to 'auto' and deploy again",
        False,
    ),
    (
        r"status=4/ILL|Illegal instruction",
        "an illegal instruction: the release was built for another CPU than this one can be",
        "name the instruction set, as in llama_cmake_args=['GGML_NATIVE=OFF', 'GGML_AVX2=ON', 'GGML_FMA=ON']",
        False,
    ),
    (
        r"killed by the OOM killer|result 'oom-kill'",
        "it needed more RAM than its cap, and the kernel killed it",
        "raise service_memory_max, or lower cache_ram_mib or context",
        True,
    ),
    (
        r"allocating ([\d.]+) MiB on device (\d+): cudaMalloc failed: out of memory",
        "GPU {2} is out of memory: {1} MiB more were asked for",
        "raise n_cpu_moe, lower context or ubatch, or free VRAM that others hold",
        True,
    ),
    (
        r"failed to allocate (?!CPU)(\w+)\S* buffer of size (\d+)",
        "{1} is out of memory: a buffer of {2} bytes was asked for",
        "raise n_cpu_moe, lower context or ubatch, or free memory that others hold there",
        True,
    ),
    (
        r"unable to allocate CPU\S* buffer|failed to allocate CPU\S* buffer|std::bad_alloc",
        "the host is out of memory",
        "lower context, or take a smaller model",
        True,
    ),
    (
        r"CUDA error: out of memory|unable to allocate (?:CUDA|RPC)\S* buffer|failed to allocate buffer for kv cache"
        r"|failed to allocate compute pp buffers",
        "the device is out of memory",
        "raise n_cpu_moe, lower context or ubatch, or free memory that others hold there",
        True,
    ),
    (
        r"invalid argument: (\S+)",
        "{1} is no option of this release",
        "take it out of server_args, or set llama_ref to a build that has it",
        False,
    ),
    (
        r"failed to open file '([^']+)'",
        "{1} cannot be read",
        "give it to the user that the service runs as, with mode 0600",
        False,
    ),
    (
        r'error while handling argument "([^"]+)": (.*)',
        "the option {1} was refused: {2}",
        "correct it in the inventory",
        False,
    ),
    (
        r"unknown model architecture: '([^']+)'",
        "this release does not know the model's architecture, {1}",
        "set llama_ref to a newer build",
        False,
    ),
    (
        r"failed to open GGUF file '([^']+)'",
        "{1} is not there, or cannot be read",
        "run the deploy again",
        False,
    ),
    (
        r"model is corrupted or incomplete|invalid magic characters|failed to read magic|failed to read key-value"
        r"|failed to read tensor|data is not within the file bounds|gguf_init_from_\w+: (?:failed|invalid|unknown)",
        "the model's file is damaged or not whole",
        "`pyinfra -y INVENTORY roles.model.verify` reads all of it again and repairs it",
        False,
    ),
    (
        r"couldn't bind HTTP server socket, hostname: (\S+), port: (\d+)",
        "port {2} at {1} is taken, or not an address of this host",
        "stop what listens there, or set another port",
        True,
    ),
    (
        r"Failed to connect to (\S+)|RPC handshake failed for (\S+)|RPC server version mismatch",
        "the RPC server {1} does not answer, or is of another version",
        "start it, or correct rpc_servers",
        True,
    ),
    (
        r"failed to initialize CUDA: (.*)|CUDA error: (unknown error|no CUDA-capable device.*|.*device.*unavailable.*)"
        r"|no CUDA-capable device is detected",
        "CUDA does not work: {1}",
        "`nvidia-smi` may tell more; what the watchdog says of a suspend may mend it",
        True,
    ),
    (
        r"error while loading shared libraries: (\S+):",
        "the release lacks {1}, which was there when it was built",
        "deploy again: it is built anew",
        False,
    ),
    (
        r"status=203/EXEC",
        "the program could not be run: it is gone, or on a file system that is mounted noexec",
        "deploy again",
        False,
    ),
    (
        r"status=226/NAMESPACE",
        "systemd could not make the unit's sandbox, which needs user namespaces here",
        "deploy again: what this host cannot do is left out of the unit",
        False,
    ),
)  # fmt: skip

# What a line of trouble looks like where no cause is known. What llama.cpp prints of a model's metadata is none.
SAID = re.compile(r"\berror\b|\bfail|unable|invalid|what\(\)|abort|^paddock: ", re.I)
NOT_SAID = re.compile(r"^Failed with result|llama_model_loader: - kv|Failed to start|warn(?:ing)?:", re.I)


def cause(lines: list[str]) -> dict[str, Any] | None:
    """The cause that a log tells: `why`, `do`, and whether another start may `help`. The first of the table, as the
    gravest stands first there. None where no line is known."""
    for pattern, why, remedy, helps in CAUSES:
        for line in lines:
            found = re.search(pattern, line)
            if found:
                words = [found.group(0), *[word for word in found.groups() if word]]
                words += ["" for _ in range(3 - len(words))]
                return {"why": why.format(*words).rstrip(": "), "do": remedy, "helps": helps}
    return None


def explained(lines: list[str]) -> str:
    """What a log tells, as the end of a sentence: cause and remedy, or its first line of trouble. Nothing where there
    is none."""
    known = cause(lines)
    if known:
        return f": {known['why']}; {known['do']}"
    told = [line.strip() for line in lines if SAID.search(line) and not NOT_SAID.search(line)]
    return ": " + re.sub(r"^(?:[\d.]+ [A-Z] |paddock: )", "", told[0])[:300] if told else ""
