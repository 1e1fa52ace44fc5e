"""What the probe tells of the service: one that was never there, and one that runs as it is wanted."""

from __future__ import annotations

from typing import Any

from roles.host import HOST
from roles.observation import Observation
from roles.service import scope
from roles.service.decide import guard
from roles.service.directives import held
from roles.service.unit import wanted_unit
from roles.wishes import Wishes

KEY: dict[str, Any] = {"kind": "file", "mode": 0o600, "uid": 1000, "size": 20, "mtime_ns": 5, "keys": 1}


def absent() -> dict[str, Any]:
    """A host on which there is neither a unit nor anything else of ours, and the port is free."""
    return {
        "unit": None,
        "guard": None,
        "switch": None,
        "watchdog": None,
        "masked": False,
        "properties": {"ActiveState": "inactive", "MainPID": "0", "NeedDaemonReload": "no"},
        "running_stamp": None,
        "outgrew": None,
        "last_good": None,
        "rejected": {},
        "proved": None,
        "key_file": None,
        "first_port": 1024,
        "port_taken": False,
        "port_holder": None,
        "port_owner": None,
        "system_config": False,
        "elsewhere": False,
        "measuring": False,
    }


def running(wanted: Wishes, seen: Observation) -> dict[str, Any]:
    """systemd's answers about the wanted unit, up since long ago."""
    unit = wanted_unit(wanted, seen)
    return {
        **absent(),
        "unit": unit.text,
        "guard": guard(seen[HOST], scope.of(wanted.settings.service)).model_dump(),
        "properties": {
            "ActiveState": "active",
            "UnitFileState": "enabled" if unit.autostart else "disabled",
            "MainPID": "4711",
            "NeedDaemonReload": "no",
            **held(unit.text),
        },
        "running_stamp": unit.stamp,
        "proved": unit.stamp,
        "port_taken": True,
        "port_holder": {"pid": 4711, "name": "llama-server"},
        "port_owner": "dev",
    }
