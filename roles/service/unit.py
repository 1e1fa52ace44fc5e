"""The unit that a host is wanted to have: its text, its limits, and where it answers."""

from __future__ import annotations

from dataclasses import dataclass

from roles.host import HOST, HostSeen
from roles.llama_cpp.observe import LLAMA_CPP
from roles.llama_cpp.release import wanted_release
from roles.machine import MACHINE
from roles.memory.cap import limits_of
from roles.memory.ram import Limits
from roles.memory.wanted import backend, needed_plan
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.service import command
from roles.service import scope as scopes
from roles.service.boot import boot_check, devices
from roles.service.observe import SERVICE
from roles.service.options import variables
from roles.service.sandbox import directives, root_helper
from roles.settings import Service
from roles.wishes import Wishes


@dataclass(frozen=True)
class Unit:
    """The wanted unit: its text, the release that it runs, its memory limits, and whether it starts at boot."""

    text: str
    release: str
    limits: Limits
    autostart: bool = True

    @property
    def stamp(self) -> str:
        return command.stamp_of(self.text)


def wanted_unit(wishes: Wishes, observation: Observation) -> Unit:
    """Raises CannotBuild, as what the unit runs is a release, NotPlanned and LacksOption."""
    host, model, wanted = observation[HOST], observation[MODEL], wishes.settings.service
    build = wishes.settings.llama_cpp
    release = wanted_release(wishes, observation)
    device = backend(wishes, observation) != "cpu"
    words = [f"{release.folder(host.data_dir)}/bin/llama-server"]
    knows = observation[LLAMA_CPP].options.get(release.key, ())
    keys, split, scope = key_file(wanted, host), needed_plan(wishes, observation), scopes.of(wanted)
    handed = keys if scope is scopes.SYSTEM else ""
    named = command.HANDED_OVER if handed else keys
    words += command.arguments(wanted, host.located(model.path), build.rpc_servers, device, named, knows, split)
    file = model.file
    # A file that was replaced under the same name is another one to the process, which has the old one open.
    identity = f"{wishes.model.sha256 if wishes.model else ''} {file.size} {file.mtime_ns}" if file else ""
    identity += "".join(f" {one.file.size} {one.file.mtime_ns}" for one in model.rest if one.file)
    if held := observation[SERVICE].key_file:  # read at the start alone: a new key is for a new process
        identity += f" {held.size} {held.mtime_ns}"
    limits = limits_of(wishes, observation)
    inside = directives(wishes, release.key, observation)
    frame = command.Frame(
        limits,
        observation[MACHINE].systemd_version or 0,
        variables(knows),
        inside,
        boot_check(scope.program(host), words[0], devices(wishes, observation)),
        scope,
        root_helper(wishes, observation),
        handed,
    )
    text = command.unit_text(words, model.path.rsplit("/", 1)[-1], frame, identity)
    return Unit(text, release.key, limits, wanted.service_autostart)


def key_file(wanted: Service, host: HostSeen) -> str:
    """The absolute path of the API keys; empty where there are none."""
    path = wanted.api_key_file or ""
    return host.home + path[1:] if path.startswith("~/") else path


def url(wanted: Service) -> str:
    """Where llama-server answers, seen from the host: an address that listens everywhere is asked on loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(wanted.host, wanted.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{wanted.port}"
