"""A comparison as people read it. Pure."""

from __future__ import annotations

import statistics
import unicodedata
from collections.abc import Sequence

from roles.benchmark.comparison import Comparison, change, run, title
from roles.benchmark.judge import Effect, Series
from roles.benchmark.record import Result

ENOUGH = 0.10  # a change that a verdict should be able to see
MOST = 3  # figures that a sentence names
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # Unicode's: control, format, and what is no character


def tidy(text: str) -> str:
    """What a person can read of a text: no control characters, nor what turns the direction of all that follows."""
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(each) in UNSEEN else each for each in text)


def verdict(found: Comparison) -> str:
    """One sentence: what changed, the verdict, the figures that decided it, and what it is worth."""
    judged, same = found.judgement, found.kind == "indistinguishable"
    if not judged.effects:
        return tidy(f"{changed(found)}: no depth was measured both before and now, so there is no verdict")
    said = [f"{found.kind} {'from' if same else 'than'} before: {_figures(judged.of(found.kind), counted=not same)}"]
    if found.kind == "worse" and (gained := judged.of("better")):
        said.append(f"but {_figures(gained)}")
    if found.flags:
        said.append(f"not to be trusted: {', '.join(found.flags[:2])}")
    if same and judged.blur > ENOUGH:
        least = f"{judged.blur * 100:.0f} %"
        more = "" if found.now[-1].kind == "ab" else ", or set benchmark_ab"
        said.append(f"a change below {least} could not have been seen; measure again{more}")
    return tidy(f"{changed(found)}: {'; '.join(said)}")


def _figures(effects: Sequence[Effect], counted: bool = True) -> str:
    """The greatest of them; `counted`: and how many more there are."""
    told = [f"{title(effect.series)} {change(effect)}" for effect in effects[:MOST]]
    return ", ".join([*told, f"{len(effects) - MOST} more"] if counted and len(effects) > MOST else told)


def changed(found: Comparison) -> str:
    """What went in differently, in few words."""
    if not found.inputs:
        return "nothing that Paddock knows of changed"
    # The run before may have been of the same thing; what it is compared with is older, and so is the change.
    again = len(found.now) > 1 and found.now[-2].test_time > found.before[-1].test_time
    since = f"nothing changed since the run before; against that of {when(found.before[-1])}, " if again else ""
    named = [str(each) for each in found.inputs if each.what != "settings"]
    settings = [each.name for each in found.inputs if each.what == "settings"]
    if settings:
        more = f" and {len(settings) - MOST} more" if len(settings) > MOST else ""
        named.append(f"settings ({', '.join(settings[:MOST])}{more})")
    return since + ", ".join(named)


def before_and_now(found: Comparison, effect: Effect) -> tuple[str, str]:
    """What an effect is of, as in the table: medians of the runs' medians; seconds for a turn."""
    return _middle(found.before, effect.series), _middle(found.now, effect.series)


def _middle(results: Sequence[Result], series: Series) -> str:
    measured = [samples for result in results if (samples := run(result).get(series))]
    speed = statistics.median(map(statistics.median, measured))
    if series.metric == "turn":
        return f"{1 / speed:.1f} s"
    return f"{speed:.0f}" if series.metric == "pp" else f"{speed:.1f}"


def when(result: Result) -> str:
    """The day and the minute of a run, UTC."""
    return result.test_time[:16].replace("T", " ")
