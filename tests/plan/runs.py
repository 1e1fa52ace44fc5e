"""Whole runs of the real command line on pyinfra's @fake hosts: the probe's answer is scripted, nothing is touched."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.unit.hosts import DATA, Answers

ROOT = Path(__file__).parents[2]
PROBE = "python3 -ISB -"


@dataclass(frozen=True)
class Run:
    """How a run ended, and what it said."""

    code: int
    out: str
    err: str

    def said(self, host: str) -> list[str]:
        """pyinfra's lines about a host."""
        lines = (line.strip().partition("] ") for line in self.err.splitlines())
        return [said.strip() for begin, _, said in lines if begin == f"[@fake/{host}"]

    def last_lines(self) -> list[str]:
        """Paddock's last lines, and nothing after them."""
        lines = self.err.rstrip("\n").splitlines()
        first = next((at for at, line in enumerate(lines) if line.startswith("paddock: ")), len(lines))
        assert all(line.startswith("paddock: ") for line in lines[first:]), lines[first:]
        return lines[first:]

    def last_words(self, host: str) -> list[str]:
        """Those about one host."""
        begin = f"paddock: @fake/{host}: "
        return [line.removeprefix(begin) for line in self.last_lines() if line.startswith(begin)]

    def changes(self) -> dict[str, str]:
        """The table of detected changes: the operations with a host that would change, and all that stands there."""
        table = self.err.partition("--> Detected changes:")[2].partition("Detected changes may not")[0]
        rows = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in table.splitlines()]
        return {row[0]: " ".join(row[1:]) for row in rows if "@fake/" in " ".join(row)}


def host(answer: Answers | str, responses: Mapping[str, Any] | None = None, **data: Any) -> dict[str, Any]:
    """The data of a host whose probe answers this; further responses go by a part of the command."""
    line = answer if isinstance(answer, str) else json.dumps(answer)
    scripted = {**(responses or {}), PROBE: line}  # the first that fits is taken
    return {**DATA, "fake_responses": scripted, "fake_delay": 0, "fake_delay_jitter": 0, **data}


def run(folder: Path, hosts: Mapping[str, dict[str, Any]], *words: str, to: str = "deploy.py") -> Run:
    """`pyinfra FOLDER/laptops.py deploy.py WORDS` from the checkout, without a terminal. `to`: what it runs."""
    inventory = folder / "laptops.py"
    entries = [(f"@fake/{name}", data) for name, data in hosts.items()]
    inventory.write_text(f"machines = {entries!r}\n", "utf-8")
    process = warm()
    assert process.stdin
    assert process.stdout
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place, "out"), Path(place, "err")
        job = {"words": [str(inventory), to, *words], "out": str(out), "err": str(err)}
        print(json.dumps(job), file=process.stdin, flush=True)
        code = int(process.stdout.readline())
        return Run(code, out.read_text("utf-8"), err.read_text("utf-8"))


@functools.cache
def warm() -> subprocess.Popen[str]:
    """The command line, ready to run; it ends when its standard input does, with this process."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.plan.warm"],
        cwd=ROOT,
        env={**os.environ, "PYINFRA_PROGRESS": "off", "COLUMNS": "200", "PYTHONWARNINGS": "default"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
