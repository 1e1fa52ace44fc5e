"""Whose systemd manager runs the service, and where all of it is then. One place for the paths of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roles.host import HostSeen
from roles.settings import Service

ACCOUNT = "paddock"
CREDENTIAL = "api-keys"


@dataclass(frozen=True)
class Scope:
    """`units`: the folder of its unit files; `state`: where paddock-switch is and what it keeps, which is root's for a
    service of the system's; `words`: systemctl's; `target`: what starts it at boot."""

    manager: Literal["user", "system"]
    units: str
    state: str
    words: str
    target: str

    def program(self, host: HostSeen) -> str:
        """The path of paddock-switch."""
        return f"{host.data_dir if self.manager == 'user' else self.state}/bin/paddock-switch"


USER = Scope("user", "~/.config/systemd/user", "~/.local/share/paddock", "systemctl --user", "default.target")
SYSTEM = Scope("system", "/etc/systemd/system", "/var/lib/paddock", "sudo systemctl", "multi-user.target")


def of(wanted: Service) -> Scope:
    return SYSTEM if wanted.service_scope == "system" else USER


def other(scope: Scope) -> Scope:
    return USER if scope is SYSTEM else SYSTEM
