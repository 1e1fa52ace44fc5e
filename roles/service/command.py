"""The command line of llama-server, and the unit that runs it, as pure functions of the settings."""

from __future__ import annotations

import hashlib
import shlex
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from roles.memory.plan import Split
from roles.memory.ram import Limits
from roles.memory.words import TO_COME, split_words, words
from roles.service.options import asked_for, spelled
from roles.service.scope import ACCOUNT, CREDENTIAL, USER, Scope
from roles.settings import Service

UNIT = "paddock-llama-server.service"
WATCHDOG = "paddock-watchdog"
BENCHMARK = "paddock-benchmark"  # the unit of its job
HANDED_OVER = f"%d/{CREDENTIAL}"
_TEMPLATES = jinja2.Environment(
    trim_blocks=True,
    loader=jinja2.FileSystemLoader(Path(__file__).parents[2] / "templates"),
    undefined=jinja2.StrictUndefined,
    autoescape=False,  # a unit is not HTML; systemd's own escaping is `escaped`
    keep_trailing_newline=True,
)


def fitted(wanted: Service) -> bool:
    """Whether llama.cpp itself chooses the split. Never together with numbers of our own (llama.cpp#27872)."""
    return wanted.fit == "on"


def arguments(
    wanted: Service,
    model: str,
    rpc_servers: tuple[str, ...],
    device: bool,
    key_file: str = "",
    knows: Collection[str] = (),
    split: Split | None = None,
) -> list[str]:
    """llama-server's arguments. `device`: there is one that takes layers; `split`: which, as planned. `knows`: the
    options of the release; empty where it is still to come. Raises LacksOption."""
    args: list[object] = ["-m", model, *words(wanted, rpc_servers)]
    args += ["--cache-ram", wanted.cache_ram_mib, "--context-shift" if wanted.context_shift else "--no-context-shift"]
    args += split_words(split) if split else []
    args += ["-fit", "on" if fitted(wanted) and device else "off", "--jinja" if wanted.jinja else "--no-jinja"]
    if wanted.threads != "auto":
        args += ["-t", wanted.threads]
    for option, value in {
        "--temp": wanted.temperature,
        "--top-p": wanted.top_p,
        "--top-k": wanted.top_k,
        "--min-p": wanted.min_p,
    }.items():
        if value is not None:
            args += [option, f"{value:g}" if isinstance(value, float) else value]
    if key_file:
        args += ["--api-key-file", key_file]
    args += asked_for(wanted, knows)
    # A page of somebody else's, open in a browser here, may not use the server; releases before the option let it.
    if "--cors-origins" not in wanted.server_args and (not knows or "--cors-origins" in knows):
        args += ["--cors-origins", "localhost"]
    # 4 is the level at which llama.cpp logs where the layers went.
    args += ["--host", wanted.host, "--port", wanted.port, "-lv", 4]
    return spelled([str(argument) for argument in args], knows)


@dataclass(frozen=True)
class Frame:
    """What a unit is made of beside its command line. `systemd`: the version that will read it. `unset`: variables of
    the environment that the process does not get. `sandbox`: further directives.
    `boot_check`: the words of what must end well before each start; `modprobe`: NVIDIA's helper that root runs before
    that; `key_file`: API keys that the system's manager hands over."""

    limits: Limits
    systemd: int = 0
    unset: Collection[str] = ()
    sandbox: tuple[str, ...] = ()
    boot_check: Sequence[str] = ()
    scope: Scope = USER
    modprobe: str | None = None
    key_file: str = ""


def unit_text(command: list[str], model: str, frame: Frame, identity: str) -> str:
    """The unit file. Its stamp changes with all that the process is made of: text, release, model."""

    limits = frame.limits

    def render(stamp: str) -> str:
        return _TEMPLATES.get_template("llama-server.service.j2").render(
            unit=UNIT,
            scope=frame.scope,
            account=ACCOUNT,
            modprobe=frame.modprobe,
            credential=f"{CREDENTIAL}:{unit_path(frame.key_file)}" if frame.key_file else "",
            model=model.replace("%", "%%"),  # a description is not a command line: only % means something in it
            stamp=stamp,
            command=" ".join(map(escaped, command)),
            boot_check=" ".join(map(escaped, frame.boot_check)),
            unset=textwrap.wrap(" ".join(sorted(frame.unset)), 100),
            systemd=frame.systemd,
            sandbox=frame.sandbox,
            memory_max=TO_COME if "maximum" in limits.to_come else shown(limits.maximum),
            memory_high=TO_COME if "high" in limits.to_come else shown(limits.high or 0),
            memory_swap_max=shown(limits.swap),
        )

    return render(hashlib.sha256((render("") + identity).encode()).hexdigest()[:16])


def watchdog_texts(program: str, scope: Scope) -> tuple[str, str]:
    """Service and timer of the watchdog."""
    service, timer = (_TEMPLATES.get_template(f"{name}.j2") for name in (WATCHDOG + ".service", WATCHDOG + ".timer"))
    return service.render(command=f"{escaped(program)} watch"), timer.render(systemctl=scope.words)


def shown(size: int) -> str:
    """Bytes as systemd reads them and people do too: 24G."""
    for unit, bits in {"G": 30, "M": 20}.items():
        if size and size % (1 << bits) == 0:
            return f"{size >> bits}{unit}"
    return str(size)


def stamp_of(text: str) -> str:
    """The stamp in a unit file."""
    return next(line.rpartition("=")[2] for line in text.splitlines() if "PADDOCK_STAMP=" in line)


def unit_path(path: str) -> str:
    """A path as the value of a directive that is no command line: only % means something in it."""
    return path.replace("%", "%%")


def escaped(word: str) -> str:
    """A word for a unit file: systemd expands % and $, and splits at blanks unless quoted. One stays as it is: the path
    that only systemd knows, of what it hands over."""
    if word == HANDED_OVER:
        return word
    safe = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{safe}"' if not safe or any(c in safe for c in " \t'\"\\;#") else safe


def words_of(line: str) -> list[str]:
    """The words of a command line in a unit file, as `escaped` had them before. Somebody else's may be no good."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    return [word.replace("%%", "%").replace("$$", "$") for word in words]
