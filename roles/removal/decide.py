"""What is taken back from a host, and in which order, so that a removal that was killed goes on where it was."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roles.distribution import manager
from roles.host import AWAY, HOST, HostSeen, no_root
from roles.machine import MODELS
from roles.model.collect import REMOVE
from roles.observation import Observation
from roles.operation import WAITED_FOR, Decision, Step
from roles.packages.decide import RECORD
from roles.remote import Script
from roles.removal.observe import MADE, MadeSeen
from roles.service.decide import GIVE_WAY, PLACE, PLACE_SECONDS

HERE = Path(__file__).parent
UNITS, ROOT, REST = ((HERE / f"{name}.sh").read_text("utf-8") for name in ("units", "root", "rest"))
STOP_SECONDS = 300
PACKAGE_SECONDS = 1800
# Where a package manager says what it has installed.
LOGS = {"apt": "/var/log/apt/history.log", "pacman": "/var/log/pacman.log", "dnf": "`dnf history`"}


@dataclass(frozen=True)
class Wanted:
    """What of it all may stay, or goes too."""

    keep_models: bool = False
    remove_packages: bool = False


def removed(wanted: Wanted, has_password: bool, observation: Observation) -> Decision:
    """Nothing is on the host that Paddock made, but for what is kept."""
    host, seen = observation[HOST], observation[MADE]
    models = seen.stored and not wanted.keep_models
    packages = wanted.remove_packages and bool(seen.packages or seen.unsettled)
    ours = [*seen.units, *seen.policies, *seen.data, *(["system"] if seen.system else [])]
    record = seen.recorded and not wanted.keep_models
    if not (ours or host.stranded or seen.linger or seen.cache or models or packages or record):
        return Decision(observation)
    needs = [f"the policy {path}" for path in seen.policies]
    needs += ["the system's service"] if seen.system or host.data or host.stranded else []
    needs += [f"lingering of {host.user}"] if seen.linger else []
    needs += [f"{len(seen.packages)} packages"] if packages else []
    may = host.can_be_root(has_password)
    if needs and not may:
        return Decision(observation, refusal=no_root(host, f"{', '.join(needs)} cannot be taken back"))
    steps = [Step("stop and remove the units", Script(UNITS, (), seconds=STOP_SECONDS))]
    if seen.system:
        steps.append(Step("remove the system's service", Script(GIVE_WAY, ("remove",), root=True)))
    if host.data or host.stranded:
        home = (host.user, host.own_data, AWAY, "home")
        script = Script(PLACE, home, root=True, seconds=PLACE_SECONDS)
        steps.append(Step("bring models and notes home", script, goes_on=WAITED_FOR))
    if needs or (may and any(not path.startswith(host.home + "/") for path in seen.paths)):
        goes_on = f"{WAITED_FOR} and removes the rest" if packages else ""  # without them it is over at once
        steps.append(Step("take back what root made", by_root(wanted, host, seen), goes_on=goes_on))
    if models:
        steps.append(Step("remove the models", Script(REMOVE, (MODELS, "*"), seconds=STOP_SECONDS, python=True)))
    kept = "models" if wanted.keep_models else ""
    steps.append(Step("remove the rest", Script(REST, (kept,), seconds=STOP_SECONDS)))
    after, why = _after(wanted, observation), (*reasons(wanted, seen), *offered(wanted, seen))
    return Decision(after, why, tuple(steps), left_out=stays(wanted, host, seen))


def needs_root(wanted: Wanted, observation: Observation) -> bool:
    """Whether anything that goes is root's."""
    return any(step.script.root for step in removed(wanted, True, observation).steps)


def by_root(wanted: Wanted, host: HostSeen, seen: MadeSeen) -> Script:
    """The script for what the user may not remove."""
    tool = manager(host) if wanted.remove_packages else None
    linger = host.user if seen.linger else ""
    arguments = (f"{host.own_data}/created", linger, tool or "", *seen.policies)
    return Script(RECORD + ROOT, arguments, root=True, seconds=PACKAGE_SECONDS)


def reasons(wanted: Wanted, seen: MadeSeen) -> list[str]:
    """What goes, a line for each kind."""
    told = [f"remove {name}" for name in (*seen.units, *seen.policies)]
    told += ["remove the system's service"] if seen.system else []
    told += ["turn lingering off, which Paddock turned on"] if seen.linger else []
    if seen.rest:
        told.append(f"remove releases, sources and notes: {seen.rest / 1e9:.1f} GB")
    if seen.stored and not wanted.keep_models:
        told.append(f"remove the downloaded models: {seen.models / 1e9:.1f} GB; --data keep_models=true keeps them")
    if wanted.remove_packages and seen.packages:
        told.append(f"remove the packages that came by Paddock: {len(seen.packages)}")
    return told or ["remove Paddock's folders"]


def offered(wanted: Wanted, seen: MadeSeen) -> list[str]:
    """What stays unless this run is told otherwise: said before it, as the record of it goes with the rest."""
    if not seen.packages or wanted.remove_packages:
        return []
    only = "" if wanted.keep_models else ", and only this run knows which they are"
    return [
        f"leave {len(seen.packages)} packages that came by Paddock: --data remove_packages=true takes those too that"
        f" nothing needs{only}"
    ]


def stays(wanted: Wanted, host: HostSeen, seen: MadeSeen) -> str | None:
    """What is left on purpose, and how to find it once the record of it is gone."""
    told = [f"your own {', '.join(seen.drop_ins)}"] if seen.drop_ins else []
    if seen.packages and not wanted.remove_packages:
        log = LOGS.get(manager(host) or "", "the package manager's log")
        where = "" if wanted.keep_models else f", whose record goes with the rest; {log} tells when they came"
        told.append(f"{len(seen.packages)} packages that came by Paddock{where}")
    if wanted.keep_models and seen.stored:
        told.append(f"models of {seen.models / 1e9:.1f} GB in {MODELS}")
    if seen.others:
        told.append(f"what no download wrote in {MODELS}, a link or a mount there too")
    return f"left on the host: {'; '.join(told)}" if told else None


def _after(wanted: Wanted, observation: Observation) -> Observation:
    seen, keep = observation[MADE], wanted.keep_models
    packages = () if wanted.remove_packages or not keep else seen.packages
    gone = MadeSeen(
        drop_ins=seen.drop_ins,
        packages=packages,
        recorded=keep,
        stored=keep and seen.stored,
        others=seen.others,
        models=seen.models if keep else 0,
    )
    return observation.replace(MADE, **gone.model_dump()).replace(HOST, data="", stranded=False)
