"""A host for the gate's own tests: systemd, journal and llama-server stand in for real ones, which the lab has.

What a unit does when it is started is told by its stamp.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roles.service.gate import devices, proof, switch, watch
from roles.service.gate.host import Served, Server, Trouble

PID = str(os.getpid())
LOG = (
    "0.00.041.580 I llama_prepare_model_devices: using device RPC0 (127.0.0.1:50052) (unknown id) - 24105 MiB free",
    "0.00.096.927 I load_tensors: offloaded 7/7 layers to GPU",
    "0.00.096.934 I load_tensors:   CPU_Mapped model buffer size =    13.00 MiB",
    "0.00.096.936 I load_tensors: RPC0[127.0.0.1:50052] model buffer size =    11.04 MiB",
    "0.00.123.152 I llama_kv_cache: RPC0[127.0.0.1:50052] KV buffer size =     3.38 MiB",
    "0.00.127.124 I sched_reserve: RPC0[127.0.0.1:50052] compute buffer size =     8.07 MiB",
)
ON_CPU = (
    "0.00.096.934 I load_tensors:   CPU_Mapped model buffer size =    24.00 MiB",
    "0.00.123.152 I llama_kv_cache:        CPU KV buffer size =     3.38 MiB",
    "0.00.127.124 I sched_reserve:        CPU compute buffer size =     8.07 MiB",
)


def record(stamp: str = "new", **fields: Any) -> dict[str, Any]:
    """A service with its layers over RPC, as roles/service/candidate.py would make it."""
    return {
        "schema": 1,
        "manager": "user",
        "unit": "paddock-llama-server.service",
        "text": f"[Service]\nEnvironment=PADDOCK_STAMP={stamp}\nExecStart=/r/{stamp}/bin/llama-server -lv 4\n",
        "stamp": stamp,
        "release": f"release-{stamp}",
        "build": "012345678",
        "server": f"/r/{stamp}/bin/llama-server",
        "model": "/m/some.gguf",
        "load_bytes": 19_000_000,
        "context": 4096,
        "url": "http://127.0.0.1:8091",
        "key_file": "",
        "limits": {"MemoryMax": "2147483648", "MemorySwapMax": "0"},
        "autostart": True,
        "devices": ["127.0.0.1:50052"],
        "layers": 99,
        "plan": None,
        "seconds": 5,
        **fields,
    }


@dataclass
class Start:
    """What comes of a start; the fields are what differs from a service that passes."""

    log: tuple[str, ...] = LOG
    state: str = "active"
    restarts: str = "0"
    sub_state: str = "running"
    stamp: str = ""  # of the process, where it is another than the unit's
    limits: dict[str, str] = field(default_factory=lambda: {"MemoryMax": "2147483648", "MemorySwapMax": "0"})
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    refused: bool = False  # systemctl restart fails
    replaced: bool = False  # somebody writes the unit meanwhile
    lost: str | None = None
    strange: bool = False  # another program answers
    dies: bool = False  # by the time that it has been asked for everything


class World:
    """`starts`: by stamp, what comes of it; one that is not told of passes. `did`: what systemd was asked to do."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.home, self.data = home, str(home / "data")
        self.starts: dict[str, Start] = {}
        self.did: list[str] = []
        self.enabled, self.state, self.drop_ins, self.fails = "disabled", "inactive", "", ""
        (home / "data").mkdir()
        patch.setenv("HOME", str(home))
        patch.setattr("time.sleep", lambda seconds: None)
        world = self

        class FakeServed(Served):
            def ctl(self, *words: str, seconds: float = 60) -> str | None:
                return world.ctl(self, *words)

            def show(self, *names: str) -> dict[str, str]:
                return world.show(self)

            def journal(self, *words: str) -> list[str]:
                return list(world.start(self).log)

        class FakeServer(Server):
            def ask(self, path: str, body: Any = None, seconds: float = 30, keyed: bool = True) -> tuple[int, Any]:
                return world.ask(self, path, body, keyed)

        for module in (switch, proof, watch):
            patch.setattr(module, "Served", FakeServed)
            patch.setattr(module, "read", self.read, raising=False)
        for module in (proof, watch):
            patch.setattr(module, "Server", FakeServer)
        for module in (proof, watch):
            patch.setattr(module, "lost", lambda pid, wanted: self.running.lost)
        patch.setattr(proof, "listens", lambda pid, port: port == 8091 and not self.running.strange)
        self.turns = 0
        self.devices: str | None = None
        self.unfit: str | None = None
        patch.setattr(watch, "missing", lambda program, wanted: self.devices)
        patch.setattr(watch, "unfit_driver", lambda: self.unfit)
        patch.setattr(devices, "unfit_driver", lambda: self.unfit)
        patch.setattr(devices, "reachable", lambda address: self.devices is None)
        self.now = ""

    def text(self) -> str:
        path = self.home / ".config/systemd/user/paddock-llama-server.service"
        return path.read_text() if path.exists() else ""

    def start(self, served: Served) -> Start:
        return self.starts.get(served.record["stamp"], Start())

    @property
    def running(self) -> Start:
        return self.starts.get(self.now, Start())

    def ctl(self, served: Served, *words: str) -> str | None:
        self.did.append(words[0])
        self.turns = 0
        if words[0] == "restart":
            self.now = self.text().partition("PADDOCK_STAMP=")[2].partition("\n")[0]
            self.state = self.running.state
            if self.running.replaced:
                Path(served.path).write_text("[Service]\n")
            if self.running.refused:
                return None
        if words[0] == self.fails:
            return None
        if words[0] in ("enable", "disable"):
            self.enabled = words[0] + "d"
        if words[0] == "stop":
            self.state = "inactive"
        return ""

    def show(self, served: Served) -> dict[str, str]:
        start = self.running
        return {
            "ActiveState": self.state,
            "SubState": start.sub_state,
            "MainPID": "0" if start.dies and self.turns else PID,
            "NRestarts": start.restarts,
            "Result": "exit-code",
            "UnitFileState": self.enabled,
            "DropInPaths": self.drop_ins,
            "InactiveEnterTimestampMonotonic": "77",
            **start.limits,
        }

    def read(self, path: str, most: int = 0) -> str | None:
        if path.endswith("/environ"):
            return f"A=b\0PADDOCK_STAMP={self.running.stamp or self.now}\0"
        return None

    def ask(self, server: Server, path: str, body: Any, keyed: bool) -> tuple[int, Any]:
        if not keyed:
            return self.running.answers.get("unkeyed", (401, None))
        if path in self.running.answers:
            return self.running.answers[path]
        if path == "/props":
            settings = {"n_ctx": 4096}
            return 200, {
                "build_info": "b1000-012345678",
                "model_path": "/m/some.gguf",
                "default_generation_settings": settings,
            }
        if path == "/completion":
            second = proof.TURN in body["prompt"]
            self.turns += second
            if second and "turn" in self.running.answers:
                return self.running.answers["turn"]
            return 200, {"content": " it", "tokens_predicted": body["n_predict"], "timings": {"cache_n": 40 * second}}
        return 200, {"status": "ok"}


def kept(world: World, name: str) -> Any:
    path = world.home / "data" / name
    return json.loads(path.read_text()) if path.exists() else None


def failure(world: World, wanted: dict[str, Any]) -> str:
    """Why a switch to this service did not pass: one line, noted too, and nothing is left to be taken up."""
    with pytest.raises(Trouble) as told:
        switch.switch(world.data, wanted)
    assert kept(world, "switch.json")["why"] == str(told.value)
    assert kept(world, "candidate.json") is None
    assert "\n" not in str(told.value)
    return str(told.value)
