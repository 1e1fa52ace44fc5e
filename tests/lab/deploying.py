"""How a lab test deploys: the real pyinfra command line, an inventory file of its own, its output kept."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.common import Lab

ROOT = Path(__file__).parents[2]
PYINFRA = Path(sys.executable).parent / "pyinfra"


@dataclass(frozen=True)
class Run:
    """How a pyinfra run ended: both streams apart, as --json owns standard output."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err

    @property
    def last_words(self) -> list[str]:
        """The lines `paddock: HOST: REASON` at the end."""
        return [line for line in self.err.splitlines() if line.startswith("paddock: ")]


@dataclass(frozen=True)
class Target:
    """A lab host and a user on it; `changes` go over the lab's data, None takes a key out."""

    host: str
    user: str = "dev"
    changes: tuple[tuple[str, Any], ...] = ()

    def line(self) -> str:
        return f"_entry(_hosts()[{self.host!r}], {self.user!r}, **dict({self.changes!r}))"


def target(host: str, user: str = "dev", /, **changes: Any) -> Target:
    return Target(host, user, tuple(changes.items()))


def write_inventory(folder: Path, targets: list[Target], extra: str = "") -> Path:
    """An inventory file in `folder`; its lock lies beside it and stays between runs. `extra`: further host tuples."""
    path = folder / "inventory.py"
    lines = "".join(f"    {one.line()},\n" for one in targets)
    path.write_text(
        "from tests.lab.host import hosts as _hosts\nfrom tests.lab.inventory import entry as _entry\n\n"
        f"machines = [\n{lines}{extra}]\n"
    )
    return path


def environment(lab: Lab) -> dict[str, str]:
    """For a child process to find this lab, and for pyinfra to print plainly."""
    return {
        **os.environ,
        "PADDOCK_LAB_RUN": str(lab.run_dir),
        "PADDOCK_LAB_BRIDGE": lab.bridge,
        "PADDOCK_LAB_NET": lab.net,
        "PYINFRA_PROGRESS": "off",
        "XDG_CACHE_HOME": str(lab.run_dir / "cache"),  # no token and no header of this machine's own
    }


def start(
    lab: Lab, inventory: Path, *words: str, stdin: int = subprocess.DEVNULL, to: str = "deploy.py"
) -> subprocess.Popen[str]:
    """pyinfra in the background, without a terminal, in a process group of its own. `to`: what it runs."""
    return subprocess.Popen(
        [str(PYINFRA), *words, str(inventory), to],
        cwd=ROOT,
        env=environment(lab),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def deploy(lab: Lab, inventory: Path, *words: str, seconds: float = 300, to: str = "deploy.py") -> Run:
    """Run pyinfra to its end."""
    process = start(lab, inventory, *words, to=to)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"pyinfra took longer than {seconds} s:\n{out}\n{err}") from None
    return Run(process.returncode, out, err)
