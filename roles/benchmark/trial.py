"""A new release on trial: measured beside the former one in alternation, and taken back where it is slower. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from roles import job
from roles.benchmark import decide, words
from roles.benchmark.comparison import Comparison
from roles.benchmark.observe import BENCHMARK, HISTORY
from roles.benchmark.record import SCHEMA, Result
from roles.benchmark.told import about
from roles.host import HOST, no_root
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.service import scope as scopes
from roles.service import way_back
from roles.service.observe import SERVICE
from roles.service.reasons import options
from roles.service.unit import Unit, wanted_unit
from roles.wishes import Wishes

ROUNDS = 2  # with the smoke run before them, three of the new; fewer cannot see a tenth on a restless machine
MACHINE = ("driver", "kernel", "cpu_info", "gpu_info", "ram_bytes", "cards")  # as it is now, whatever serves on it
REACHED_BY = ("--host", "--port", "--api-key-file")  # one runner is told these for both
KEPT = 20  # services that were taken back, and are not tried again


def former(seen: Observation) -> str | None:
    """The stamp of the service that a rollback brings back; None where there is none, or it is the one that runs."""
    found = re.search(r"PADDOCK_STAMP=([0-9a-f]+)", seen[SERVICE].last_good or "")
    return found.group(1) if found and found.group(1) != seen[SERVICE].running_stamp else None


def may_switch(wishes: Wishes, seen: Observation) -> bool:
    """Whether a service of the system's may have to be switched once the figures are there that are to come."""
    wanted = wishes.settings.benchmark
    asked = wanted.benchmark_ab or wanted.benchmark_on_regression == "rollback"
    system = scopes.of(wishes.settings.service) is scopes.SYSTEM
    return asked and system and to_come(seen) and former(seen) is not None


def to_come(seen: Observation) -> bool:
    """Whether the last figures are predicted ones."""
    last = seen[BENCHMARK].last
    return last is not None and not last.run


def alternated(
    wishes: Wishes, has_password: bool, known: Callable[[], Sequence[Result]], due: bool, seen: Observation
) -> Decision:
    """Old and new are measured in turns, so that whatever else goes on meets both. `known` fetches the results that
    there are; `due`: the new one has been measured just now."""
    if not (wishes.settings.benchmark.benchmark_ab and due):
        return Decision(seen)
    if not _can_switch(wishes, has_password, seen):
        return Decision(seen, left_out=no_root(seen[HOST], "benchmark_ab"))
    old = next((result for result in reversed(known()) if result.stamp == former(seen)), None)
    unit = wanted_unit(wishes, seen)  # raises nothing: what was measured just now could be built
    why = _unlike(wishes, old, unit, seen)
    if old is None or why:
        return Decision(seen, left_out=f"benchmark_ab: {why}")
    new = about(wishes, unit, seen)
    served = old.model_dump(mode="json", include=set(new))
    works = [({**served, **{name: new[name] for name in MACHINE}}, "former"), (new, "new")]
    scope, steps = scopes.of(wishes.settings.service), []
    for turn in range(1, ROUNDS + 1):
        for told, name in works:
            run, where = decide.alternately(wishes, told, seen), f"round {turn} of {ROUNDS}"
            there = way_back.back(scope, f"serve the {name} release, {where}", "for a measurement", seen)
            # The one that is wanted comes back where there are no figures of the former one.
            back = there.script if name == "former" else None
            steps.append(there)
            steps.append(
                Step(f"measure the {name} release, {where}", job.follow(run), goes_on=job.goes_on(run), undo=back)
            )
    last = seen[BENCHMARK].last
    told_of = f"measure what was served before and what is served now in alternation, {ROUNDS} times each"
    after = seen.replace(BENCHMARK, last=last.model_copy(update={"run": "alternated"}) if last else None)
    return Decision(after, reasons=(told_of,), steps=tuple(steps))


def kept(
    wishes: Wishes, has_password: bool, found: Comparison | None, told: Callable[[str], None], seen: Observation
) -> Decision:
    """A release that is slower gives way to the former one, where the inventory wants that; `told` hears of it when it
    has."""
    if found is None or found.kind != "worse" or wishes.settings.benchmark.benchmark_on_regression != "rollback":
        return Decision(seen)
    if why := _stays(found, seen):
        return Decision(seen, left_out=f"benchmark_on_regression: it stays all the same: {why}")
    if not _can_switch(wishes, has_password, seen):
        return Decision(seen, left_out=no_root(seen[HOST], "benchmark_on_regression: it stays all the same"))
    old, now = found.before[-1], found.now[-1]
    reason = f"release {now.release} was measured slower than {old.release}"
    rejected = {**dict(list(seen[SERVICE].rejected.items())[1 - KEPT :]), now.stamp: reason}
    event = {"schema": SCHEMA, "kind": "taken back", "stamp": now.stamp, "why": words.verdict(found)}
    notes = (json.dumps(rejected), json.dumps(event), HISTORY)
    said = f"{reason}, so the former one is back; another run does not try it again"
    scope = scopes.of(wishes.settings.service)
    return Decision(
        seen.replace(SERVICE, running_stamp=old.stamp, rejected=rejected),
        reasons=(f"go back to release {old.release}: {reason}",),
        steps=(way_back.for_good(scope, reason, notes, lambda _: told(said), seen),),
    )


def _can_switch(wishes: Wishes, has_password: bool, seen: Observation) -> bool:
    """A service of the system's is root's to switch."""
    return scopes.of(wishes.settings.service) is scopes.USER or seen[HOST].can_be_root(has_password)


def _unlike(wishes: Wishes, old: Result | None, unit: Unit, seen: Observation) -> str | None:
    """Why the former service cannot be measured as the one that is wanted is; None where it can."""
    if old is None:
        return "no former service with figures is there to measure in alternation"
    before, now = options(seen[SERVICE].last_good or ""), options(unit.text)
    if changed := [name for name in REACHED_BY if before.get(name) != now.get(name)]:
        return f"the former service is reached by another {changed[0]}"
    deepest = max(decide.depths(wishes.settings, "smoke")) + wishes.settings.benchmark.benchmark_tokens
    if 0 < old.n_ctx < deepest:
        return f"the former service has a context of {old.n_ctx} tokens, and {deepest} are measured"
    return None


def _stays(found: Comparison, seen: Observation) -> str | None:
    """Why nothing is taken back; None where it is."""
    if found.flags:
        return "its figures cannot be trusted"
    changed = {each.what for each in found.inputs}
    if changed and "release" not in changed:
        return f"it is no other release ({', '.join(sorted(changed))} changed), and what you chose is yours"
    if others := changed - {"release"}:
        return f"the release is not all that changed ({', '.join(sorted(others))}), and what you chose is yours"
    if not found.inputs or former(seen) != found.before[-1].stamp:
        return "what was measured before is not on the host any more"
    return None
