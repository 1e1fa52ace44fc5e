"""Which runs are compared, what differed in what went in, and how it is said."""

from __future__ import annotations

from typing import Any

import pytest

from roles.benchmark import comparison, drawn, words
from roles.benchmark.comparison import Comparison, differences, grouped, latest
from roles.benchmark.record import Result
from tests.unit import measured, planted_history


def result(run: str = "one", **changes: Any) -> Result:
    rows = changes.pop("rows", [measured.row(0, 0, 30.0), measured.row(32768, 800, 20.0)])
    return Result.model_validate(measured.entry(run=run, rows=rows, **changes))


def slower(run: str, share: float, **changes: Any) -> Result:
    return result(
        run, rows=[measured.row(0, 0, 30.0 * share), measured.row(32768, 800 * share, 20.0 * share)], **changes
    )


CARD = {"name": "RTX 3050", "uuid": "GPU-1", "memory_total": 6144}


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({}, {}, []),
        ({"driver": "575.64.03"}, {"driver": "580.95.05"}, ["driver 575.64.03 -> 580.95.05"]),
        ({"driver": None}, {"driver": "580.95.05"}, ["driver none -> 580.95.05"]),
        ({"release": "b1-aa"}, {"release": "b2-bb"}, ["release b1-aa -> b2-bb"]),
        ({"kernel": "6.1"}, {"kernel": "6.2"}, ["kernel 6.1 -> 6.2"]),
        ({}, {"cards": [CARD]}, ["GPU none -> RTX 3050 (6144 MiB)"]),
        (
            {"model_filename": "/m/a.gguf", "model_sha256": "a" * 64},
            {"model_filename": "/m/a.gguf", "model_sha256": "b" * 64},
            ["model a.gguf (aaaaaaaaaaaa) -> a.gguf (bbbbbbbbbbbb)"],
        ),
        ({"settings": {"ubatch": 512}}, {"settings": {"ubatch": 2048}}, ["ubatch 512 -> 2048"]),
        ({"settings": {"a": 1}}, {"settings": {"b": 2}}, ["a 1 -> none", "b none -> 2"]),
        ({"settings": {"a": [1, 2]}}, {"settings": {"a": []}}, ["a 1 2 -> none"]),
        ({"n_cpu_moe": 44}, {"n_cpu_moe": 43}, ["--n-cpu-moe 44 -> 43"]),
        # Another split, by a limit of the VRAM say, is no matter of the setting that changed beside it.
        (
            {"n_cpu_moe": 44, "settings": {"a": 1}},
            {"n_cpu_moe": 43, "settings": {"a": 2}},
            ["a 1 -> 2", "--n-cpu-moe 44 -> 43"],
        ),
        (
            {"n_cpu_moe": 44, "settings": {"n_cpu_moe": 44}},
            {"n_cpu_moe": 43, "settings": {"n_cpu_moe": "auto"}},
            ["n_cpu_moe 44 -> auto"],
        ),
        # Each request says its own temperature.
        ({"settings": {"temperature": 0.6}}, {"settings": {"temperature": 0.7}}, []),
        (
            {"n_cpu_moe": 44, "settings": {"temperature": 0.6, "llama_ref": "b1"}},
            {"n_cpu_moe": 43, "settings": {"temperature": 0.7, "llama_ref": "b2"}},
            ["--n-cpu-moe 44 -> 43"],
        ),
        ({"tokens": 64}, {"tokens": 128}, ["benchmark_tokens 64 -> 128"]),
        ({"cpu_info": "Ryzen 5"}, {"cpu_info": "Ryzen 7"}, ["processor Ryzen 5 -> Ryzen 7"]),
        ({"ram_bytes": 33_510_146_048}, {"ram_bytes": 67_214_622_720}, ["RAM 33.5 GB -> 67.2 GB"]),
        ({"ram_bytes": 33_510_146_048}, {"ram_bytes": 33_496_514_560}, []),  # another kernel's share of the same RAM
    ],
)
def test_what_went_in_differently(before: dict[str, Any], now: dict[str, Any], said: list[str]) -> None:
    assert [str(each) for each in differences(result(**before), result(**now))] == said


def test_what_is_no_input_makes_no_difference() -> None:
    assert not differences(result("one", test_time="2026-01-01T00:00:00Z"), result("two", stamp="f" * 16, kind="smoke"))


def test_runs_with_the_same_inputs_stand_together_as_long_as_nothing_comes_between() -> None:
    runs = [result("1"), result("2"), result("3", driver="580"), result("4")]
    assert [[one.run for one in group] for group in grouped(runs)] == [["1", "2"], ["3"], ["4"]]


def names(results: tuple[Result, ...]) -> list[str]:
    return [one.run for one in results]


def compared(*runs: Result, rejected: frozenset[str] = frozenset()) -> Comparison:
    found = latest(runs, rejected)
    assert found is not None
    return found


def test_the_newest_runs_are_compared_with_those_of_what_was_there_before() -> None:
    found = compared(
        result("0", driver="570"), result("1"), result("2"), result("3", driver="580"), result("4", driver="580")
    )
    assert (names(found.before), names(found.now)) == (["1", "2"], ["3", "4"])


def test_what_was_taken_back_is_no_baseline() -> None:
    bad = slower("2", 0.7, driver="575", stamp="b" * 16)
    found = compared(result("1"), bad, result("3", driver="580"), rejected=frozenset({"b" * 16}))
    assert names(found.before) == ["1"]


def test_where_nothing_changed_the_newest_run_is_compared_with_the_earlier_ones() -> None:
    found = compared(result("1"), result("2"), slower("3", 0.7))
    assert (names(found.before), names(found.now), found.kind) == (["1", "2"], ["3"], "worse")
    assert words.verdict(found).startswith("nothing that Paddock knows of changed: worse than before")


def test_a_first_run_has_nothing_to_be_compared_with() -> None:
    assert latest([]) is None
    assert latest([result()]) is None


def test_a_baseline_is_of_the_last_five_runs() -> None:
    runs = [result(str(number)) for number in range(9)]
    assert names(compared(*runs, result("now", driver="580")).before) == ["4", "5", "6", "7", "8"]


def test_runs_that_cannot_be_trusted_stand_for_nothing_where_there_are_others() -> None:
    flag = [{"flag": "battery", "why": "the machine ran on its battery"}]
    runs = [result("1"), slower("2", 0.5, flags=flag), result("3", driver="580")]
    assert names(compared(*runs).before) == ["1"]
    alone = compared(slower("2", 0.5, flags=flag), result("3", driver="580"))
    assert names(alone.before) == ["2"]
    assert "not to be trusted: before: the machine ran on its battery" in words.verdict(alone)


def test_nor_do_they_tell_how_much_runs_differ_here() -> None:
    flag = [{"flag": "battery", "why": "the machine ran on its battery"}]
    runs = [
        result("1"),
        *(slower(str(at), 0.2, flags=flag) for at in (2, 4)),
        result("3"),
        slower("5", 0.9, driver="580"),
    ]
    assert compared(*runs).judgement == compared(runs[0], *runs[3:]).judgement


def test_a_verdict_names_what_changed_first() -> None:
    found = compared(result("1", release="b1-aa"), slower("2", 0.8, release="b2-bb"))
    said = words.verdict(found)
    assert said.startswith("release b1-aa -> b2-bb: worse than before: ")
    assert "tg at 32k -20.0 % (" in said
    assert "tg on an empty context -20.0 % (" in said


def test_settings_are_named_and_not_spelled_out() -> None:
    old, new = dict.fromkeys("abcde", 1), dict.fromkeys("abcde", 2)
    said = words.changed(compared(result("1", settings=old), result("2", settings=new)))
    assert said == "settings (a, b, c and 2 more)"


def test_a_verdict_tells_a_change_of_before_from_one_of_now() -> None:
    times = [{"test_time": f"2026-11-30T1{hour}:00:00Z"} for hour in range(4)]
    old, new = {"settings": {"context": 8192}}, {"settings": {"context": 4096}}
    runs = [result("1", **old, **times[0]), result("2", **new, **times[1])]
    assert words.changed(compared(*runs)) == "settings (context)"
    again = compared(*runs, result("3", **new, **times[2]))
    told = "nothing changed since the run before; against that of 2026-11-30 10:00, settings (context)"
    assert words.changed(again) == told
    in_turns = compared(*runs, result("3", **old, **times[2]), result("4", **new, **times[3]))
    assert words.changed(in_turns) == "settings (context)"


def test_a_verdict_that_could_not_have_seen_a_tenth_says_so() -> None:
    wild = [[20.0, 26.0, 15.0], [21.0, 14.0, 27.0]]
    runs = [
        result(str(at), driver=str(at), rows=[{"n_depth": 0, "tg": measured.figure(*samples, n_gen=128)}])
        for at, samples in enumerate(wild)
    ]
    assert "could not have been seen; measure again, or set benchmark_ab" in words.verdict(compared(*runs))
    in_turns = [each.model_copy(update={"kind": "ab"}) for each in runs]
    assert words.verdict(compared(*in_turns)).endswith("could not have been seen; measure again")


def test_runs_without_a_depth_in_common_get_no_verdict() -> None:
    found = compared(
        result("1", rows=[measured.row(0, 0, 30)]), result("2", driver="1", rows=[measured.row(2048, 500, 28)])
    )
    assert "no depth was measured both before and now, so there is no verdict" in words.verdict(found)


def test_a_later_turn_is_told_in_seconds_and_judged_like_a_speed() -> None:
    quick, slow = (
        [{**measured.row(2048, 500, 28), "turn": {"n_prompt": 256, "n_depth": 2048, "seconds": seconds}}]
        for seconds in ([1.0, 1.01, 0.99], [60.0, 61.0, 59.0])
    )
    found = compared(result("1", rows=quick), result("2", driver="1", rows=slow))
    (turn,) = found.judgement.of("worse")
    assert comparison.title(turn.series) == "a later turn at 2k"
    assert words.before_and_now(found, turn) == ("1.0 s", "60.0 s")
    assert comparison.change(turn).startswith("+5900.0 % (+"), "of the seconds that are told"


def test_a_smoke_run_beside_a_full_one_takes_no_depth_from_the_verdict() -> None:
    def pair(share: float, **changes: Any) -> list[Result]:
        smoke = result("smoke", rows=[measured.row(0, 0, 30.0), measured.row(2048, 900, 28.0)], **changes)
        return [slower("full", share, **changes), smoke]

    found = compared(*pair(1.0), *pair(0.7, driver="580"))
    assert {effect.series.depth for effect in found.judgement.effects} == {0, 2048, 32768}
    assert "tg at 32k -30.0 % (" in words.verdict(found)
    (deep,) = [effect for effect in found.judgement.of("worse") if effect.series == ("tg", 32768)]
    assert words.before_and_now(found, deep) == ("20.0", "14.0")
    drawn_of = drawn.against_depth("tg", found.now[-1], found)
    assert drawn_of
    assert [row[0] for row in drawn_of.rows] == ["0", "2k", "32k"]


def test_the_planted_histories_get_the_verdicts_that_were_planted() -> None:
    fleet = planted_history.fleet()
    laptop, desk = compared(*fleet["ada-laptop"].results), compared(*fleet["desk"].results)
    assert (laptop.kind, [each.what for each in laptop.inputs]) == ("worse", ["release"])
    assert (desk.kind, [each.name for each in desk.inputs]) == ("better", ["ubatch"])
    assert {effect.series.metric for effect in desk.judgement.of("better")} == {"pp"}
