"""What a host needs, in one word: the last deploy's facts against what is seen now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roles.gpu.classify import Nvidia
from roles.overview.record import Facts

Kind = Literal["reboot", "rebuild", "replan", "rebench", "nothing"]


@dataclass(frozen=True)
class Verdict:
    """`reason` names the facts. It reads on after the kind and a colon."""

    kind: Kind
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


def judge(before: Facts | None, now: Facts | None, nvidia: Nvidia, release_there: bool) -> Verdict:
    """Exactly one verdict, the gravest that applies.

    reboot: module and libraries differ; nothing is touched. rebuild: no release on the host is the wanted one.
    replan: another card, release, model or setting. rebench: another driver or kernel, all else the same.
    `now` may be None where nothing is recorded: it would not be looked at.
    """
    if nvidia.state == "mismatch":
        after = nvidia.next_boot or "reboot, then run again"
        return Verdict("reboot", f"{nvidia.why}; {after}. What runs is left alone")
    if before is None or now is None:
        return Verdict("rebuild" if not release_there else "replan", "nothing is recorded about this host yet")
    if not release_there:
        told = _changes(before, now, "toolkit", "release")
        return Verdict("rebuild", told or f"release {now.release} is not on the host any more")
    if told := _changes(before, now, "cards", "release", "model", "settings"):
        return Verdict("replan", told)
    if told := _changes(before, now, "driver", "kernel"):
        return Verdict("rebench", told)
    return Verdict("nothing", "driver, card, release, model and settings are as the last deploy left them")


def _changes(before: Facts, now: Facts, *names: str) -> str:
    """`driver 570.124.06 -> 580.65.06, kernel ...`; digests are named, not shown."""
    told = []
    for name in names:
        old, new = getattr(before, name), getattr(now, name)
        if old == new:
            continue
        if name in ("model", "settings"):
            told.append(f"another {name}" if name == "model" else "other settings")
        else:
            told.append(f"{name} {_shown(old)} -> {_shown(new)}")
    return ", ".join(told)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " and ".join(value) or "none"
    return str(value) if value is not None else "none"
