"""A comparison as people read it. Pure."""

from __future__ import annotations

import unicodedata

from roles.benchmark.comparison import Comparison, change, title
from roles.benchmark.judge import Effect
from roles.benchmark.record import Result

ENOUGH = 0.10  # a change that a verdict should be able to see
MOST = 3  # figures that a sentence names
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # Unicode's: control, format, and what is no character


def tidy(text: str) -> str:
    """What a person can read of a text: no control characters, nor what turns the direction of all that follows."""
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(each) in UNSEEN else each for each in text)


def verdict(found: Comparison) -> str:
    """One sentence: what changed, the verdict, the figures that decided it, and what it is worth."""
    said = [f"{found.kind} than before" if found.kind != "indistinguishable" else "indistinguishable from before"]
    told = found.judgement.of(found.kind)
    if not found.judgement.effects:
        return tidy(f"{changed(found)}: no depth was measured both before and now, so there is no verdict")
    if found.kind == "indistinguishable":
        told = told[:MOST]
    figures = [f"{title(effect.series)} {change(effect)}" for effect in told[:MOST]]
    if len(told) > MOST:
        figures.append(f"{len(told) - MOST} more")
    said[0] += f": {', '.join(figures)}"
    if found.kind == "worse" and (gained := found.judgement.of("better")):
        said.append(f"but {', '.join(f'{title(effect.series)} {change(effect)}' for effect in gained[:MOST])}")
    if found.flags:
        said.append(f"not to be trusted: {', '.join(found.flags[:2])}")
    if found.kind == "indistinguishable" and found.judgement.blur > ENOUGH:
        least = f"{found.judgement.blur * 100:.0f} %"
        said.append(f"a change below {least} could not have been seen; measure again, or set benchmark_ab")
    return tidy(f"{changed(found)}: {'; '.join(said)}")


def changed(found: Comparison) -> str:
    """What went in differently, in few words."""
    if not found.inputs:
        return "nothing that Paddock knows of changed"
    named = [str(each) for each in found.inputs if each.what != "settings"]
    settings = [each.name for each in found.inputs if each.what == "settings"]
    if settings:
        more = f" and {len(settings) - MOST} more" if len(settings) > MOST else ""
        named.append(f"settings ({', '.join(settings[:MOST])}{more})")
    return ", ".join(named)


def before_and_now(found: Comparison, effect: Effect) -> tuple[str, str]:
    """The medians that an effect is of, as in the table; seconds for a turn."""
    return _shown(found.before, effect), _shown(found.now, effect)


def _shown(results: tuple[Result, ...], effect: Effect) -> str:
    row = next(row for row in results[-1].rows if row.n_depth == effect.series.depth)
    if effect.series.metric == "turn":
        return f"{row.turn.median:.1f} s" if row.turn else ""
    figure = row.pp if effect.series.metric == "pp" else row.tg
    return "" if figure is None else f"{figure.median:.0f}" if effect.series.metric == "pp" else f"{figure.median:.1f}"


def when(result: Result) -> str:
    """The day and the minute of a run, UTC."""
    return result.test_time[:16].replace("T", " ")
