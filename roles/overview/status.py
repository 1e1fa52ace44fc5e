"""The table of a fleet: `pyinfra -y INVENTORY roles.overview.status`. One probe per host, and nothing is changed."""

from __future__ import annotations

from pyinfra import logger

from roles import observation
from roles.benchmark import table as benchmark
from roles.benchmark.observe import BENCHMARK
from roles.browser import report
from roles.browser.observe import BROWSER
from roles.browser.table import MODEL_SERVICE
from roles.gpu.classify import Nvidia
from roles.host import HOST
from roles.machine import MACHINE
from roles.model import header
from roles.model.observe import MODEL
from roles.observation import Observation, Unreadable
from roles.overview import rows, start
from roles.overview.forecast import forecast
from roles.overview.operations import ahead
from roles.overview.preflight import gpu, verdict
from roles.overview.summary import MEASURING, watched
from roles.service import sandbox
from roles.service.command import UNIT
from roles.service.observe import SERVICE, ServiceSeen
from roles.service.observe_sandbox import SANDBOX
from roles.service.reasons import options, stopped_by_hand
from roles.wishes import Wishes

COLUMNS = ("Host", "Serves", "Machine", "A deploy would")
LOST = ("", "", "nothing: it cannot be reached")
_rows: dict[str, tuple[str, str, str]] = {}


def status() -> None:
    """One row for this host; the table is printed when pyinfra ends."""
    state, host = observation.context()
    wishes = start.begin()
    if not _rows:
        rows.at_the_end(state, COLUMNS, _rows, LOST)
    _rows[host.name] = ("", "", "refuse it: what it shall be cannot be resolved; the reason stands above")
    if wishes is not None:
        try:
            _rows[host.name] = row(wishes, observation.read())
        except Unreadable as error:
            _rows[host.name] = ("", "", f"refuse it: {error}")
        except Exception as error:  # one row must not take the table with it
            _rows[host.name] = ("", "", f"fail by a mistake of Paddock's own, please report it: {error!r}")


def row(wishes: Wishes, seen: Observation) -> tuple[str, str, str]:
    """The cells of a host, a fact per line."""
    nvidia, service, last = gpu(seen), seen[SERVICE], seen[BENCHMARK].last
    told, trial = options(service.unit or ""), seen[SANDBOX].trial
    serves = [
        told.get("-m", "no model").rsplit("/", 1)[-1],
        *(about(wishes, seen) if told.get("-m") == seen[HOST].located(seen[MODEL].path) else []),
        f"release {told.get('release', 'none')}",
        sandbox.told(service.unit or "") + (f" ({trial.why})" if trial and trial.why else ""),
        state_of(service, wishes.settings.service.service_autostart),
        *([f"outgrew its cap, and the kernel killed it (oom-kill): {service.outgrew}"] if service.outgrew else []),
        benchmark.line(last) if last and last.stamp == (service.running_stamp or service.proved) else "not measured",
    ]
    serves += [MEASURING] if service.measuring else []
    serves += [f"the last switch: {service.switch.why}"] if service.switch and service.switch.why else []
    serves += [found] if (found := watched(service)) else []
    cards = ", ".join(card.name for card in nvidia.gpus) or f"GPU: {nvidia.state}"
    machine = [
        cards,
        f"driver {nvidia.driver or 'none'}, kernel {seen[MACHINE].kernel}",
        f"VRAM {vram(nvidia)}",
        f"memory now / peak / cap {memory(service)} MiB",
    ]
    if seen[BROWSER].installs:
        machine.append(f"browsers: {report.summary(wishes.settings.browser, seen)}")
    refusal = ahead(wishes, seen, True, logger.info).refusal
    wishes = header.informed(wishes, seen, None)  # what was fetched right now is kept
    would = (
        [f"refuse it: {refusal}"]
        if refusal
        else [
            str(verdict(wishes, seen)),
            *(f"- {reason}" for reason in forecast(wishes, True, seen)),
        ]
    )
    return "\n".join(serves), "\n".join(machine), "\n".join(would)


def state_of(service: ServiceSeen, autostart: bool) -> str:
    """systemd's word for the service, how often it came back by itself, and who stopped it where that is known."""
    if service.unit is None:
        return "no service yet"
    count = service.shown("NRestarts") or "0"
    who = f"somebody stopped {UNIT}" if autostart else "service_autostart is False, nobody has started it"
    by_hand = f"; {who}, and it stays so" if stopped_by_hand(service) else ""
    return f"{service.shown('ActiveState')}, {count} {'restart' if count == '1' else 'restarts'}{by_hand}"


def about(wishes: Wishes, seen: Observation) -> list[str]:
    """What the model is: from the header that is kept here, or from what the probe reads of the file itself."""
    if wishes.model and (found := header.kept(wishes.model)):
        return [str(found)]
    model = seen[MODEL]
    counted = {"layers": model.layers, "experts": model.experts, "tokens of trained context": model.trained_context}
    told = [f"{number} {what}" for what, number in counted.items() if number]
    return [", ".join([model.architecture, *told])] if model.architecture else []


def vram(nvidia: Nvidia) -> str:
    """Used of total in MiB, and who holds most."""
    cards = [f"{card.memory_used} of {card.memory_total} MiB" for card in nvidia.gpus]
    holders = [
        f"{holder.name.rsplit('/', 1)[-1]}{local(holder.purpose)} {holder.used}" for holder in nvidia.holders[:3]
    ]
    return ", ".join(cards + holders) or "none"


def local(purpose: str) -> str:
    return " with a local model" if purpose == MODEL_SERVICE else ""


def memory(service: ServiceSeen) -> str:
    """The unit's, as far as this systemd tells."""
    values = [service.shown(name) for name in ("MemoryCurrent", "MemoryPeak", "MemoryMax")]
    return " / ".join(f"{int(value) >> 20}" if value.isdigit() else "?" for value in values)
