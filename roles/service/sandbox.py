"""What the service may not do: systemd's directives, and which of them a host can have without losing its GPU.

Sources: systemd.exec(5) and systemd.resource-control(5) of 252 and 257; which of them need a user namespace in a user's
manager is in systemd#3944 and #25233.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path

from roles.host import HOST
from roles.llama_cpp.cuda import CannotBuild
from roles.llama_cpp.observe import LLAMA_CPP
from roles.llama_cpp.release import wanted_release
from roles.machine import MACHINE
from roles.memory.wanted import backend
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.remote import Script
from roles.service import scope as scopes
from roles.service.observe_sandbox import NAME, SANDBOX, Trial
from roles.wishes import Wishes

PROGRAM = (Path(__file__).parent / "sandbox_program.py").read_text("utf-8")
TRIAL_SECONDS = 600
Groups = dict[str, tuple[str, ...]]

# Filters of system calls: no namespace is needed, and all of them imply NoNewPrivileges where the manager is a user's.
CALLS = (
    "NoNewPrivileges=yes",
    "LockPersonality=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "RestrictNamespaces=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallErrorNumber=EPERM",
)
# Namespaces of the process's own. Said with PrivateUsers=, as before 253 a user's manager ignores the rest without it.
FILES = (
    "PrivateUsers=yes",
    "PrivateTmp=yes",
    "ProtectSystem=strict",
    "ProtectHome=read-only",
    "ProtectControlGroups=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
)
# What only the system's manager can take from a process; and what would take its card.
SYSTEM = (
    "CapabilityBoundingSet=",
    "KeyringMode=private",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectProc=invisible",
    "RemoveIPC=yes",
)
NO_CARD = ("DevicePolicy=closed", "PrivateDevices=yes", "ProtectClock=yes")
# Code that is made at run time is CUDA's own way with PTX, and no business of a server on the CPU.
NO_JIT = "MemoryDenyWriteExecute=yes"
# Where CUDA keeps what it compiled from PTX: a folder of systemd's, as the rest cannot be written.
CUDA_CACHE = ("CacheDirectory=paddock/cuda", "Environment=CUDA_CACHE_PATH=%C/paddock/cuda")
NAMES = {line.partition("=")[0] for line in (*CALLS, *FILES, *SYSTEM, *NO_CARD, NO_JIT, *CUDA_CACHE)}
# Of systemd-run, for a unit like the service.
FLAGS = {"user": ["--user"], "system": [f"--property=User={scopes.ACCOUNT}", "--property=DynamicUser=yes"]}
# Options of llama-server that name what it writes.
WRITES = ("--slot-save-path", "--log-file")


def offered(wishes: Wishes, observation: Observation) -> tuple[Groups, str | None]:
    """The groups of directives that this host may have, and why some are left out."""
    seen, machine = observation[SANDBOX], observation[MACHINE]
    cuda = backend(wishes, observation) == "cuda"
    scope = scopes.of(wishes.settings.service)
    if scope is scopes.SYSTEM:
        return of_the_system(wishes, observation, cuda), None
    if cuda and seen.modprobe and not seen.uvm_at_boot:
        return {}, (
            f"the first start after a boot needs {seen.modprobe}, which becomes root and makes /dev/nvidia-uvm, and no"
            " sandbox of a user's service lets it; with nvidia-uvm in /etc/modules-load.d and a udev rule for it there"
            " is one"
        )
    groups: Groups = {"calls": CALLS if cuda else (*CALLS, NO_JIT)}
    if not machine.user_namespaces:
        return groups, "users may make no namespaces here"
    groups["files"] = (*FILES, *(CUDA_CACHE if cuda else ()), *written(wishes))
    return groups, None


def of_the_system(wishes: Wishes, observation: Observation, cuda: bool) -> Groups:
    """The groups for a service of the system's. Root makes the card's nodes before they hold."""
    at_home = observation[MODEL].path.startswith(("/home/", "/root/", "/var/home/"))
    at_home = at_home and observation[HOST].located(observation[MODEL].path) == observation[MODEL].path
    files = [line for line in FILES if line != "ProtectHome=read-only"]
    files += ["ProtectHome=read-only" if at_home else "ProtectHome=yes"]
    files += [*(CUDA_CACHE if cuda else ()), *written(wishes)]
    return {
        "calls": CALLS if cuda else (*CALLS, NO_JIT),
        "files": tuple(files),
        "system": SYSTEM if cuda else (*SYSTEM, *NO_CARD),
    }


def written(wishes: Wishes) -> list[str]:
    """What the inventory lets the server write."""
    args = wishes.settings.service.server_args
    return [f"ReadWritePaths={quoted(path)}" for word, path in itertools.pairwise(args) if word in WRITES]


def quoted(path: str) -> str:
    """A path in a list of them (systemd.syntax(7)): blanks part them, and % means something."""
    safe = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{safe}"' if any(c in safe for c in " \t'\"\\") else safe


def root_helper(wishes: Wishes, observation: Observation) -> str | None:
    """NVIDIA's helper that the system's manager runs as root before each start, where the card's nodes need it."""
    seen = observation[SANDBOX]
    if seen.uvm_at_boot or scopes.of(wishes.settings.service) is scopes.USER:
        return None
    return seen.modprobe if backend(wishes, observation) == "cuda" else None


def digest(groups: Groups, release: str, observation: Observation) -> str:
    """What a trial of the sandbox holds for: directives, release, systemd."""
    of = [groups, release, observation[MACHINE].systemd_version]
    return hashlib.sha256(json.dumps(of).encode()).hexdigest()[:16]


def directives(wishes: Wishes, release: str, observation: Observation) -> tuple[str, ...]:
    """The lines of the unit: of the groups that passed their trial here."""
    groups, _ = offered(wishes, observation)
    trial = observation[SANDBOX].trial
    names = trial.groups if trial and trial.digest == digest(groups, release, observation) else ()
    return tuple(line for name, lines in groups.items() if name in names for line in lines)


def sandboxed(wishes: Wishes, observation: Observation) -> Decision:
    """What the unit will say about the sandbox has been tried here, with the release that it will hold."""
    try:
        release = wanted_release(wishes, observation)
        groups, _ = offered(wishes, observation)
    except CannotBuild:
        return Decision(observation)  # told by what would build it
    host, trial = observation[HOST], observation[SANDBOX].trial
    wanted = digest(groups, release.key, observation)
    there = host.user_manager and release.key in observation[LLAMA_CPP].releases
    if not there or not groups or (trial and trial.digest == wanted):
        return Decision(observation)
    ask = {
        "server": f"{release.folder(host.data_dir)}/bin/llama-server",
        "groups": groups,
        "digest": wanted,
        "path": f"{host.data_dir}/{NAME}",
        "flags": FLAGS[scopes.of(wishes.settings.service).manager],
    }
    by_user = Script(PROGRAM, (json.dumps(ask),), seconds=TRIAL_SECONDS, python=True)
    script = by_root(json.dumps(ask)) if scopes.of(wishes.settings.service) is scopes.SYSTEM else by_user
    after = observation.replace(SANDBOX, trial=Trial(digest=wanted, groups=tuple(groups)))
    why = f"try the service's sandbox with this release: {sum(map(len, groups.values()))} directives"
    step = Step("try the sandbox", script, minor=True)
    return Decision(after, (why,), (step,))


def smaller(wishes: Wishes, release: str, observation: Observation) -> str | None:
    """The sentence about what this host or its trial left out of the sandbox."""
    groups, lacks = offered(wishes, observation)
    trial = observation[SANDBOX].trial
    failed = trial.why if trial and trial.digest == digest(groups, release, observation) else ""
    why = "; ".join(filter(None, [lacks, failed]))
    return f"the service's sandbox is smaller than it could be: {why}" if why else None


def by_root(argument: str) -> Script:
    """The trial, by root: what becomes root is sh alone."""
    text = f"python3 -ISB - \"$1\" <<'PADDOCK'\n{PROGRAM}\nPADDOCK\n"
    return Script(text, (argument,), root=True, seconds=TRIAL_SECONDS)


def told(unit: str) -> str:
    """The sandbox in a unit file, in words."""
    lines = unit.splitlines()
    firsts = {"system calls": CALLS[0], "files": FILES[1], "the system's": SYSTEM[1]}
    found = [name for name, first in firsts.items() if first in lines]
    return f"sandbox: {', '.join(found)}" if found else "sandbox: none"
