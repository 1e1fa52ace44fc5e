"""A host as a removal must leave it: files, enabled units, users, packages, firewall; and kills of the controller."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.common import Lab
from tests.lab.deploying import Run, deploy, start, target, write_inventory
from tests.lab.host import LabHost
from tests.lab.test_main_job import UNIT, complete

# Not looked at: what no disk holds, logs, and what apt and dpkg know of packages.
LEFT_OUT = "proc sys run tmp dev var/log var/cache var/tmp var/lib/apt var/lib/dpkg".split()  # noqa: SIM905
UNITS = {
    "user": f"/home/dev/.config/systemd/user/{UNIT}.service",
    "system": f"/etc/systemd/system/{UNIT}.service",
}
FILES = f"""
find / -xdev \\( {" -o ".join(f"-path /{path}" for path in LEFT_OUT)} \\) -prune -o -printf '%y %m %u %p %l\\n' | sort
"""
LOOKS = {
    "files": FILES,
    "units": "systemctl list-unit-files --state=enabled --no-legend; ls /var/lib/systemd/linger 2>/dev/null; true",
    "users": "getent passwd; getent group",
    # Names alone: a package that was installed may want its base in its own version, and it stays so.
    "packages": "dpkg-query -W -f '${binary:Package} ${db:Status-Status}\\n' | grep ' installed$'",
    "firewall": "nft list ruleset 2>/dev/null; cat /proc/net/ip_tables_names 2>/dev/null; true",
}


def state(host: LabHost) -> dict[str, list[str]]:
    """By what was looked at, line by line."""
    return {name: host.sh(script, timeout=120).stdout.splitlines() for name, script in LOOKS.items()}


def changed(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """What came and what went."""
    came = [f"+ {line}" for name in before for line in sorted(set(after[name]) - set(before[name]))]
    return came + [f"- {line}" for name in before for line in sorted(set(before[name]) - set(after[name]))]


@dataclass
class Campaign:
    """Kills of the controller at random moments of a first deploy, an update and a removal, each followed by the same
    command once more, unhurt. `takes`: seconds that each is thought to take; `outcomes`: a line for each moment."""

    lab: Lab
    host: LabHost
    folder: Path
    chance: random.Random
    takes: dict[str, float] = field(default_factory=lambda: {"first": 90.0, "update": 20.0, "removal": 6.0})
    outcomes: list[str] = field(default_factory=list)
    context: int = 4096
    scope: str = "user"

    def inventory(self) -> Path:
        changes = {"context": self.context, "service_scope": self.scope, "benchmark_depths": []}
        return write_inventory(self.folder, [target(self.host.name, **changes)])

    def whole(self, kind: str, *words: str) -> Run:
        """Run it to its end, and see that it has come there."""
        to = "roles.remove" if kind == "removal" else "deploy.py"
        run = deploy(self.lab, self.inventory(), "-y", *words, seconds=900, to=to)
        assert run.code == 0, run.text
        if kind == "removal":
            left = self.host.sh("ls -A /home/dev/.local /home/dev/.cache /home/dev/.config 2>/dev/null", check=False)
            assert left.stdout.strip() == ""
        else:
            assert complete(self.host)["tokens_predicted"] == 8
            unit = self.host.sh(f"cat {UNITS[self.scope]}").stdout
            assert f" -c {self.context} " in unit
        return run

    def killed(self, kind: str) -> bool:
        """Kill it somewhere between its beginning and its likely end; then run it again. False where it came first."""
        if kind == "update":
            self.context = 9216 - self.context  # 4096 or 5120
        after, began = self.chance.uniform(0.3, self.takes[kind]), time.monotonic()
        process = start(self.lab, self.inventory(), "-y", to="roles.remove" if kind == "removal" else "deploy.py")
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        _, said = process.communicate()
        operations = [line.strip(" ->") for line in said.splitlines() if "Starting operation" in line]
        ended = "killed" if process.returncode < 0 else "had ended by itself"
        at = operations[-1] if operations else "before the first operation"
        self.outcomes.append(f"{kind}, after {after:.1f} s of about {self.takes[kind]:.0f}, {ended}: {at}")
        self.whole(kind)
        self.outcomes[-1] += "; converged"
        self.takes[kind] = time.monotonic() - began if ended == "killed" else after
        return ended == "killed"
