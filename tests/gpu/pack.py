"""Makes build/gpu: all that a machine with a GPU and without network needs for tests/gpu/run.sh, under 50 MB.

    python -m tests.gpu.pack [--python 3.12] [FOLDER]

`--python` is the Python of that machine: the roles decide there, with the packages that they are pinned to.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.gpu import models, source

CHECKOUT = Path(__file__).parents[2]
OUT = CHECKOUT / "build" / "gpu"
MARK = ".paddock-gpu-pack"
LIMIT = 50 << 20  # bytes
# What roles.llama_cpp, roles.service and roles.benchmark import, and what that imports; versions as in constraints.txt.
WHEELS = [
    "annotated-types", "bcrypt", "cffi", "click", "cryptography", "distro", "gevent", "greenlet", "invoke", "Jinja2",
    "MarkupSafe", "packaging", "paramiko", "pycparser", "pydantic", "pydantic_core", "pyinfra", "PyNaCl",
    "python-dateutil", "PyYAML", "six", "typeguard", "typing-inspection", "typing_extensions", "zope.event",
    "zope.interface",
]  # fmt: skip
NINJA = "ninja==1.13.0"  # the role builds with it, and it is the one tool that such a machine may well lack
GLIBCS = (34, 31, 28, 27, 26, 24, 17, 12, 5)  # what wheels name; pip matches the number exactly
ON_THE_MACHINE = (
    "run.sh",
    "toolkit.sh",
    "__init__.py",
    "wanted.py",
    "server.py",
    "gate.py",
    "planned.py",
    "tight.py",
    "ballast.py",
    "results.py",
)


def wheels(folder: Path, python: str) -> None:
    """Fetch the packages for x86_64 and that Python. Raises SystemExit with pip's own words."""
    pinned = dict(line.split("==") for line in (CHECKOUT / "constraints.txt").read_text("utf-8").split())
    platforms = [f"manylinux_2_{number}_x86_64" for number in GLIBCS]
    platforms += ["manylinux2014_x86_64", "manylinux1_x86_64", "any"]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
    for abi in ("cp" + python.replace(".", ""), "abi3", "none"):
        command += ["--abi", abi]
    for platform in platforms:
        command += ["--platform", platform]
    command += ["-d", str(folder), NINJA, *(f"{name}=={pinned[name]}" for name in WHEELS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        sys.exit(f"paddock: the packages for Python {python} cannot be fetched: {(told or [done.stderr])[-1].strip()}")


def code(out: Path) -> None:
    """The roles as they are, and the steps that run there."""
    unneeded = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("roles", "templates"):
        shutil.copytree(CHECKOUT / name, out / name, ignore=unneeded)
    here = out / "tests" / "gpu"
    here.mkdir(parents=True)
    (out / "tests" / "__init__.py").touch()
    for name in ON_THE_MACHINE:
        shutil.copy(CHECKOUT / "tests" / "gpu" / name, here / name)


def make(out: Path, python: str) -> int:
    """Make the folder anew; returns its size in bytes. Raises SystemExit where it holds anything but an older pack."""
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()) and not (out / MARK).exists():
        sys.exit(f"paddock: {out} holds something else, and would be emptied; name a new folder")
    (out / MARK).touch()
    for old in out.iterdir():
        if old.name in ("out", MARK):  # out: the figures of a run
            continue
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()
    code(out)
    source.pack(out / "source.tar.gz")
    models.pack(out / "model.gguf.gz", models.SERVED, with_weights=True)
    twin = models.pack(out / "twin.gguf.gz", models.PLANNED, with_weights=False)
    wheels(out / "wheels", python)
    (out / "pack.json").write_text(json.dumps({"python": python, "twin_bytes": twin}) + "\n", "utf-8")
    return sum(path.stat().st_size for path in out.rglob("*") if path.is_file())


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.pack", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", default="3.12", help="the Python of the GPU machine (default: %(default)s)")
    parser.add_argument("folder", nargs="?", type=Path, default=OUT, help="what to make (default: build/gpu)")
    told = parser.parse_args(words)
    python, out = told.python, told.folder
    if not re.fullmatch(r"3\.\d+", python) or python in ("3.8", "3.9", "3.10"):
        parser.error(f"--python {python}: the roles need Python 3.11 or newer, written as 3.12")
    size = make(out, python)
    if size > LIMIT:
        sys.exit(f"paddock: {out} takes {size >> 20} MB, and {LIMIT >> 20} MB is what may travel")
    print(f"{out}: {size / 1e6:.1f} MB for Python {python}; there: sh tests/gpu/run.sh")


if __name__ == "__main__":
    main(sys.argv[1:])
