"""The download's own program, run as its unit runs it on a host: real curl, real files, the lab's Hub on loopback.

A test module takes the fixture by its name, with a `running` Hub: `running, host = pinning.running, downloading.host`.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roles.job import Job
from roles.model import decide
from tests.lab.hub import Hub
from tests.lab.hub.repo import File
from tests.lab.hub.sample import MODEL, WEIGHTS


@dataclass
class Host:
    """A home with a model to come, and how impatient the program is there."""

    home: Path
    hub: Hub
    pauses: tuple[float, ...] = (0.05, 0.05, 0.05)
    stall: int = 1
    rate: int = 0
    token: str = ""
    repo: str = MODEL
    files: tuple[str, ...] = (WEIGHTS,)
    changes: dict[str, Any] = field(default_factory=dict)

    def path(self, name: str = WEIGHTS) -> Path:
        return self.home / "models" / name

    def pinned(self, name: str = WEIGHTS) -> File:
        """The file as it is at the commit that is asked for."""
        repo = self.hub.repo(self.repo)
        return repo.commits[repo.branches["main"]][name]

    def script(self, again: bool = False) -> str:
        commit = self.hub.repo(self.repo).branches["main"]
        files = [
            {"path": str(self.path(name)), "size": self.pinned(name).size, "sha256": self.pinned(name).sha256}
            for name in self.files
        ]
        job = {
            "files": files,
            "revision": commit,
            "source": self.repo,
            "rate": self.rate,
            "again": again,
            "stall": self.stall,
            "pauses": self.pauses,
            **self.changes,
        }
        urls = [f"{self.hub.url}/{self.repo}/resolve/{commit}/{name.replace(' ', '%20')}" for name in self.files]
        (self.home / "paddock-download.secret").write_text(json.dumps({"token": self.token, "urls": urls}))
        wanted = Job("download", "model", decide.DOWNLOAD, (json.dumps(job),), 60, 1 << 30)
        return wanted.script

    def start(self, again: bool = False) -> subprocess.Popen[str]:
        script = self.home / "download.sh"
        script.write_text(self.script(again))
        env = {**os.environ, "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.home)}
        return subprocess.Popen(
            ["sh", str(script)], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, again: bool = False) -> tuple[int, list[str]]:
        """Its exit code and what it said."""
        process = self.start(again)
        said, _ = process.communicate(timeout=60)
        return process.returncode, said.splitlines()

    def sent(self) -> int:
        """Bytes of bodies that the Hub's CDN has sent."""
        return sum(self.hub.counters()["cdn"]["bytes"].values())


@pytest.fixture
def host(running: Hub, tmp_path: Path) -> Host:
    running.reset()
    return Host(tmp_path, running)


def content(host: Host, name: str = WEIGHTS) -> bytes:
    with host.pinned(name).open() as file:
        return file.read()


def good(host: Host, name: str = WEIGHTS) -> None:
    """The file has its name and its bytes, its sidecar says so, and nothing else is left."""
    path, pinned = host.path(name), host.pinned(name)
    assert path.read_bytes() == content(host, name)
    sidecar = json.loads(Path(f"{path}.json").read_text())
    assert (sidecar["sha256"], sidecar["size"]) == (pinned.sha256, pinned.size)
    assert sidecar["mtime_ns"] == path.stat().st_mtime_ns
    assert sidecar["revision"] == host.hub.repo(host.repo).branches["main"]
    assert sorted(one.name for one in path.parent.iterdir() if one.is_file()) == [path.name, f"{path.name}.json"]
