"""NVIDIA's CUDA toolkit as wheels: which ones, resolved once by pip on this machine, kept in the lock with hashes.

The host gets them with curl and unpacks them itself: it needs no pip, and nobody's root.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile

from pydantic import BaseModel, ValidationError

from roles.lock import CannotPin, Lock
from roles.settings import LlamaCpp
from roles.wishes import ToolkitPin, Wheel

SECONDS = 300
# What ggml's CUDA backend is compiled and linked with; the metapackage names the versions that belong together.
PARTS = "nvcc,cudart,cccl,cublas,crt,nvvm"
PLATFORMS = [
    *(f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)),
    "manylinux2014_x86_64",
    "manylinux1_x86_64",
]


class _Wheel(BaseModel):
    name: str
    version: str
    sha256: str
    url: str


def toolkit(wanted: LlamaCpp, lock: Lock) -> ToolkitPin | None:
    """None where the inventory asks for no wheels. Asks the package index only for what the lock lacks.

    Raises CannotPin.
    """
    version = wanted.cuda_toolkit.removeprefix("wheel:")
    if version == wanted.cuda_toolkit or wanted.backend not in ("auto", "cuda"):
        return None
    known = lock.get("cuda_toolkit", wanted.cuda_toolkit, list[_Wheel])
    if known is None:
        known = _resolve(version)
        lock.put("cuda_toolkit", wanted.cuda_toolkit, [wheel.model_dump() for wheel in known])
    return ToolkitPin(version, tuple(Wheel(**wheel.model_dump()) for wheel in known))


def _resolve(version: str) -> list[_Wheel]:
    """By pip, with the index that this machine's pip is set to. It downloads no more than metadata."""
    with tempfile.TemporaryDirectory() as nowhere:
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--no-input"]
        command += ["--report", "-", "--only-binary=:all:", "--target", nowhere, "--python-version", "3.12"]
        command += [word for platform in PLATFORMS for word in ("--platform", platform)]
        try:
            done = subprocess.run(
                [*command, f"cuda-toolkit[{PARTS}]=={version}.*"], capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            raise CannotPin(f"cuda_toolkit='wheel:{version}': pip got no answer within {SECONDS} s") from None
    if done.returncode != 0:
        told = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        why = (told or done.stderr.splitlines() or ["pip said nothing"])[0].removeprefix("ERROR: ")
        why = re.sub(r" \(from versions: .*", "", why)
        raise CannotPin(f"cuda_toolkit='wheel:{version}' cannot be resolved: {why[:300]}; take a version that PyPI has")
    try:
        return [
            _wheel(item) for item in json.loads(done.stdout)["install"] if item["metadata"]["name"] != "cuda-toolkit"
        ]
    except (ValueError, KeyError, ValidationError) as error:
        raise CannotPin(f"cuda_toolkit='wheel:{version}': pip's report cannot be read: {error!r}") from None


def _wheel(item: dict[str, dict[str, object]]) -> _Wheel:
    """One entry of pip's report; its URL comes without the user's password for the index."""
    info, metadata = item["download_info"], item["metadata"]
    return _Wheel.model_validate(
        {
            "name": metadata["name"],
            "version": metadata["version"],
            "sha256": info["archive_info"]["hashes"]["sha256"],  # type: ignore[index]
            "url": info["url"],
        }
    )
