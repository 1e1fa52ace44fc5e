"""Stand-ins for systemd-run and systemctl: units are background processes, their states are files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.unit import local

# Without the kernel's part: `refuse` holds the error of a unit that does not start, `kill` the result of one that is
# killed at once, before it could write its exit status. The pause spares the follower of a short job its own. Once
# somebody has asked for a unit's state, `looked` is there.
SYSTEMD_RUN = """
cd "$FAKE"
printf '%s\\n' "$@" >called
while test "$1" != --; do
    case $1 in
    --unit=*) unit=${1#--unit=}.service ;;
    StandardOutput=append:*) log=${1#StandardOutput=append:} ;;
    esac
    shift
done
shift
if test -e refuse; then cat refuse >&2; exit 1; fi
if test -e kill; then echo failed >"$unit"; exit 0; fi
echo active >"$unit"
("$@" >>"$log" 2>&1 && echo inactive >"$unit" || echo failed >"$unit") </dev/null >/dev/null 2>&1 &
sleep 0.1
"""
SYSTEMCTL = """
cd "$FAKE"
test "$1" = --user || exit 9
shift
for unit in "$@"; do :; done
case $* in
is-active*) cat "$unit" 2>/dev/null || echo inactive ;;
*ActiveState*) cat "$unit" 2>/dev/null || echo inactive; : >looked ;;
*Result*) cat kill ;;
*MainPID*) cat main_pid 2>/dev/null || echo 0 ;;
start* | stop*) echo "$*" >>asked ;;
reset-failed*) rm -f "$unit" ;;
esac
"""


@dataclass(frozen=True)
class FakeSystemd:
    """A home with its own systemd. `env` makes programs see it."""

    home: Path

    @property
    def env(self) -> dict[str, str]:
        path = f"{self.home / 'bin'}:{os.environ['PATH']}"
        return {"HOME": str(self.home), "FAKE": str(self.home), "XDG_RUNTIME_DIR": str(self.run), "PATH": path}

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def jobs(self) -> Path:
        return self.home / ".local/share/paddock/jobs"

    def called(self) -> list[str]:
        """The arguments of the last systemd-run."""
        return (self.home / "called").read_text("utf-8").splitlines()


def install(home: Path) -> FakeSystemd:
    local.tool(home / "bin", "systemd-run", SYSTEMD_RUN)
    local.tool(home / "bin", "systemctl", SYSTEMCTL)
    (home / "run").mkdir()
    return FakeSystemd(home)
