"""What llama-server's unit must say, and whether the one that runs is the one that is wanted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from roles.host import HOST, HostSeen, no_root
from roles.llama_cpp import cmake
from roles.llama_cpp.decide import wanted_release
from roles.llama_cpp.observe import LLAMA_CPP
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.remote import Script
from roles.service import command
from roles.service.observe import SERVICE, Process, ServiceSeen
from roles.settings import Service, size_in_bytes
from roles.wishes import Wishes

LOAD_SECONDS = 120  # to begin with; a big model on a slow disk gets more
SLOWEST_DISK = 50_000_000  # bytes a second

RUN = """
unit=$1 text=$2 url=$3 memory_max=$4 swap_max=$5 seconds=$6
folder=$HOME/.config/systemd/user
mkdir -p "$folder"
if test "$(cat "$folder/$unit" 2>/dev/null; echo .)" != "$text."; then
    umask 022
    printf '%s' "$text" >"$folder/.$unit.new"
    mv -fT "$folder/.$unit.new" "$folder/$unit"
fi
show() { systemctl --user show --property="$1" --value "$unit"; }
systemctl --user daemon-reload
systemctl --user enable --quiet "$unit"
systemctl --user reset-failed "$unit" 2>/dev/null || true
began=$(date '+%Y-%m-%d %H:%M:%S')
systemctl --user restart "$unit"
complain() {
    said=$(journalctl --user --unit "$unit" --since "$began" --output cat --no-pager 2>/dev/null |
        grep -iE 'error|fail|unable|invalid|what\\(\\)' | head -n 1 | cut -c 1-300)
    fail "$1${said:+: $said} (journalctl --user -u $unit)"
}
test "$(show MemoryMax)" = "$memory_max" || complain "systemd holds MemoryMax=$(show MemoryMax) and not $memory_max"
test "$(show MemorySwapMax)" = "$swap_max" ||
    complain "systemd holds MemorySwapMax=$(show MemorySwapMax) and not $swap_max"
deadline=$(($(date +%s) + seconds))
until curl --fail --silent --max-time 5 --output /dev/null "$url/health"; do
    case $(show ActiveState) in failed | inactive) complain "llama-server stopped ($(show Result))" ;; esac
    test "$(show NRestarts)" -lt 3 || complain "llama-server stops again and again"
    test "$(date +%s)" -lt $deadline || complain "llama-server did not answer within $seconds s"
    sleep 0.5
done
answer=$(curl --silent --show-error --max-time 300 --header 'Content-Type: application/json' \\
    --data '{"prompt": "Hello", "n_predict": 4, "temperature": 0}' "$url/completion") || complain "no completion"
case $answer in *'"tokens_predicted":'[1-9]*) ;; *) complain "the completion came back empty" ;; esac
"""


@dataclass(frozen=True)
class Unit:
    """The wanted unit: its text, and the memory limits as systemd prints them back, in bytes."""

    text: str
    memory_max: int
    swap_max: int

    @property
    def stamp(self) -> str:
        return command.stamp_of(self.text)


def memory_max(wanted: Service, host: HostSeen) -> int:
    """Bytes. The seed's ratio: 24G of 32. systemd rounds to pages, so `auto` is whole MiB."""
    if wanted.service_memory_max != "auto":
        return size_in_bytes(wanted.service_memory_max)
    return (host.memory_total * 3 // 4) >> 20 << 20


def wanted_unit(wishes: Wishes, observation: Observation) -> Unit:
    """Raises CannotBuild, as what the unit runs is a release."""
    host, model, wanted = observation[HOST], observation[MODEL], wishes.settings.service
    build = wishes.settings.llama_cpp
    release = wanted_release(build, wishes.commit, observation)
    device = cmake.backend(build, observation[LLAMA_CPP]) != "cpu"
    words = [f"{release.folder(host.data_dir)}/bin/llama-server"]
    words += command.arguments(wanted, model.path, build.rpc_servers, device)
    file = model.file
    # A file that the user replaces under the same name is another model: its size and time stand for it.
    identity = wishes.model.sha256 if wishes.model else f"{file.size} {file.mtime_ns}" if file else ""
    cap = memory_max(wanted, host)
    text = command.unit_text(wanted, words, model.path.rsplit("/", 1)[-1], cap, identity)
    return Unit(text, cap, size_in_bytes(wanted.service_memory_swap_max))


def url(wanted: Service) -> str:
    """Where llama-server answers, seen from the host."""
    return f"http://{'[::1]' if wanted.host == '::1' else wanted.host}:{wanted.port}"


def stolen_port(wanted: Service, seen: ServiceSeen) -> str | None:
    """The sentence about a port that is somebody else's."""
    if not seen.port_taken:
        return None
    holder: Process | None = seen.port_holder
    if holder and holder.pid == seen.main_pid:
        return None
    who = f"{holder.name} (pid {holder.pid})" if holder else "another user's process"
    return f"port={wanted.port} is taken by {who}; stop it, or set another port"


def lingering(has_password: bool, observation: Observation) -> Decision:
    """The user's services start at boot and outlive the login, and so do builds and downloads."""
    host = observation[HOST]
    if host.lingers and host.user_manager:
        return Decision(observation)
    if not host.can_be_root(has_password):
        what = f"{host.user} does not linger, so the service stops at logout and does not start at boot"
        return Decision(observation, left_out=no_root(host, what))
    text = """
loginctl enable-linger "$1"
for _ in $(seq 100); do
    test ! -S "/run/user/$2/systemd/private" || exit 0
    sleep 0.1
done
fail "the systemd manager of $1 does not come up; see journalctl -u user@$2.service"
"""
    step = Step("enable lingering", Script(text, (host.user, str(host.uid)), root=True))
    after = observation.replace(HOST, lingers=True, user_manager=True, memory_capped=True)
    return Decision(after, (f"{host.user} does not linger",), (step,))


def running(wishes: Wishes, observation: Observation) -> Decision:
    """The unit is written, enabled, capped, and its process is the one that is wanted."""
    host, seen, wanted = observation[HOST], observation[SERVICE], wishes.settings.service
    if not host.user_manager:
        return Decision(
            observation, refusal=f"the systemd manager of {host.user} does not run, so no unit of theirs can"
        )
    try:
        unit = wanted_unit(wishes, observation)
    except cmake.CannotBuild as error:
        return Decision(observation, refusal=str(error))
    if taken := stolen_port(wanted, seen):
        return Decision(observation, refusal=taken)
    reasons = _reasons(unit, seen)
    if not reasons:
        return Decision(observation)
    model = observation[MODEL]
    seconds = LOAD_SECONDS + (model.file.size // SLOWEST_DISK if model.file else 0)
    script = Script(
        RUN,
        (command.UNIT, unit.text, url(wanted), str(unit.memory_max), str(unit.swap_max), str(seconds)),
        seconds=seconds + 330,
    )
    path = f"~/.config/systemd/user/{command.UNIT}"
    after = observation.replace(
        SERVICE,
        unit=unit.text,
        running_stamp=unit.stamp,
        port_taken=True,
        port_holder=Process(pid=1, name="llama-server"),
        properties={
            "ActiveState": "active",
            "UnitFileState": "enabled",
            "NeedDaemonReload": "no",
            "MainPID": "1",
            "MemoryMax": str(unit.memory_max),
            "MemorySwapMax": str(unit.swap_max),
        },
    )
    return Decision(after, tuple(reasons), (Step("start llama-server", script, (path, seen.unit or "", unit.text)),))


def _reasons(unit: Unit, seen: ServiceSeen) -> list[str]:
    """Why the service must be (re)started; nothing where it is as wanted."""
    if seen.unit is None:
        return [f"start llama-server: {command.UNIT} is not on this host yet"]
    found = []
    if seen.unit != unit.text:
        changed = _changed_words(seen.unit, unit.text)
        found.append(f"restart llama-server: {changed}")
    if seen.shown("UnitFileState") != "enabled":
        found.append(f"{command.UNIT} is not enabled")
    if not seen.active:
        found.append(f"start llama-server: it is {seen.shown('ActiveState') or 'not loaded'}")
    elif seen.running_stamp != unit.stamp and seen.unit == unit.text:
        found.append("restart llama-server: what runs is older than the unit on disk")
    for name, value in {"MemoryMax": unit.memory_max, "MemorySwapMax": unit.swap_max}.items():
        if seen.shown(name) != str(value) and not found:
            found.append(f"{name} is {seen.shown(name)} and not {value}")
    if seen.shown("NeedDaemonReload") == "yes" and not found:
        found.append("systemd has not loaded the unit as it is on disk")
    return found


def _changed_words(old: str, new: str) -> str:
    """The options that differ, as `-c 65536 -> 122880`; the model's or the release's change where none does."""

    def options(text: str) -> dict[str, str]:
        start = next((line for line in text.splitlines() if line.startswith("ExecStart=")), "")
        words = start.split()
        pairs = {
            word: "set" if following.startswith("-") else following
            for word, following in zip(words, [*words[1:], ""], strict=True)
            if word.startswith("-")
        }
        limits = dict(line.split("=", 1) for line in text.splitlines() if line.startswith("Memory"))
        release = re.search(r"/releases/([^/]+)/bin/", start)
        return {**pairs, **limits, "release": release[1] if release else "another"}

    before, after = options(old), options(new)
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    told = [f"{name} {before.get(name, 'absent')} -> {after.get(name, 'absent')}" for name in changed]
    return ", ".join(told) or "another model file"
