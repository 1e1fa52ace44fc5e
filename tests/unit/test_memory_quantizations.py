"""Where nothing fits: which smaller quantizations of the model are asked about, and what is said of the answer."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles import settings
from roles.memory import decide
from roles.memory.alternatives import MOST, alternatives, picked, quantizations, weights_left
from roles.memory.plan import Plan
from roles.wishes import ModelPin
from tests.lab import small_gguf
from tests.lab.hub import Hub
from tests.lab.hub.repo import Repo
from tests.lab.hub.sample import sample_hub
from tests.unit import hosts, pinning
from tests.unit.fake_oracle import Fake
from tests.unit.planned import RPC, unplanned

BIG, ODD, TEXT, MIDDLE, SMALL = (f"small-{name}.gguf" for name in ("Q8_0", "MLA", "text", "IQ4_XS", "UD-IQ2_M"))
OTHER = "draft-Q2_K.gguf"

hub = pinning.hub


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("gguf")
    # The length of the vocabulary stands for the bits of a weight: it makes files smaller, and no other model.
    tokens = {BIG: 20_000, ODD: 15_000, MIDDLE: 10_000, SMALL: 1_000, OTHER: 10}
    files: dict[str, Any] = {
        name: small_gguf.write(folder / name, tokens=count, mla=name == ODD) for name, count in tokens.items()
    }
    (folder / TEXT).write_bytes(b"<!DOCTYPE html>" * 40_000)
    repo = Repo("lab/quants")
    repo.commit({**files, TEXT: folder / TEXT, "README.md": b"#\n", "small-torn-00001-of-00002.gguf": folder / TEXT})
    with sample_hub(tmp_path_factory.mktemp("repos")) as hub:
        hub.add(repo)
        yield hub


def pinned(hub: Hub, file: str = BIG) -> tuple[settings.Model, ModelPin]:
    wanted = settings.Model(model_repo="lab/quants", model_file=file, hub_endpoint=hub.url)
    return wanted, pinning.pinned(wanted)


def unfit(model: int = 1000, context: int = 1800, compute: int = 600, room: int = 3000) -> Plan:
    """With the least on its one device."""
    shares = {"devices": [{"device": "RPC0", "model": model, "context": context, "compute": compute}]}
    wanted = hosts.wishes(**RPC)
    [told] = hosts.plans(wanted, hosts.converged_answers(wanted)).values()
    budgets = [{**told["budgets"][0], "room": room}]
    tried = [{"gpu_layers": 99, "n_cpu_moe": 48, **shares, "lacking": 403}]
    return Plan.model_validate({**told, "budgets": budgets, "tried": tried, "nothing_fits": True})


def asked_about(hub: Hub, plan: Plan, file: str = BIG) -> tuple[list[str], str]:
    wanted, now = pinned(hub, file)
    found, advice = quantizations(wanted, now, plan, lambda line: None)
    assert {(one.commit, one.folder) for one in found} <= {(now.commit, now.folder)}
    return [one.file for one in found], advice


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"ubatch": 2048}, ["ubatch 512 instead of 2048", "KV q8_0 instead of f16", "-c", "KV q4_0 instead of f16"]),
        ({"cache_type_k": "q8_0", "cache_type_v": "q8_0"}, ["-c", "KV q4_0 instead of q8_0"]),
        ({"cache_type_k": "q8_0", "cache_type_v": "q4_0"}, ["-c", "KV q4_0 instead of q8_0/q4_0"]),
        ({"cache_type_k": "q5_1", "cache_type_v": "q5_1"}, ["-c", "KV q4_0 instead of q5_1"]),
        ({"cache_type_k": "iq4_nl", "cache_type_v": "iq4_nl"}, ["-c"]),
        ({"ubatch": 2048, "flash_attention": "off"}, ["ubatch 512 instead of 2048", "-c"]),
    ],
)
def test_smaller_wishes_are_asked_about_the_cheapest_loss_first(data: dict[str, Any], told: list[str]) -> None:
    found = alternatives(hosts.wishes(**data).settings)
    assert [one.get("told", one["option"]) for one in found] == told


def test_what_has_fewer_bytes_and_is_the_same_model_is_asked_about_the_nearest_first(hub: Hub) -> None:
    assert asked_about(hub, unfit())[0] == [MIDDLE, SMALL]
    assert asked_about(hub, unfit(), MIDDLE)[0] == [SMALL]


def test_the_smallest_has_nothing_below_it(hub: Hub) -> None:
    assert asked_about(hub, unfit(), SMALL) == ([], "lab/quants has no smaller quantization of it")


def test_where_the_cache_alone_is_too_much_nobody_is_asked(hub: Hub) -> None:
    wanted, now = pinned(hub)
    hub.reset()
    told = quantizations(wanted, now, unfit(context=2400), lambda line: None)
    assert told == ([], "nor would any quantization, as context and compute buffers alone are too much")
    assert hub.counters()["log"] == []


def test_a_hub_that_cannot_be_reached_leaves_the_advice_and_says_why(hub: Hub) -> None:
    wanted, now = pinned(hub)
    hub.fault("status", status=503, times=None)
    found, advice = quantizations(wanted, now, unfit(), lambda line: None)
    assert found == []
    assert advice.startswith("take a smaller model or quantization (the Hub does not tell which: ")
    assert "503" in advice


@pytest.mark.parametrize(("room", "left"), [(3403, 1.0), (2903, 0.5), (2403, 0.0)])
def test_the_room_beside_context_and_compute_is_what_weights_may_take(room: int, left: float) -> None:
    assert weights_left(unfit(room=room)) == left


def sized(*sizes: int) -> list[ModelPin]:
    return [replace(hosts.PIN, files=(replace(hosts.FILE, size=size, path=f"{size}.gguf"),)) for size in sizes]


def test_of_many_the_largest_that_may_fit_one_in_the_middle_and_the_smallest() -> None:
    many = sized(*range(20, 0, -1))
    assert [one.size for one in picked(many, 15)] == [15, 8, 1]
    assert [one.size for one in picked(many, 2)] == [3, 2, 1], "it is a guess: a nearer one may be built another way"
    assert [one.size for one in picked(sized(9, 8), 3)] == [9, 8]


@given(st.lists(st.integers(1, 99), unique=True), st.integers(-5, 105))
def test_whatever_there_is_few_are_asked_about_and_the_smallest_is_among_them(sizes: list[int], size: int) -> None:
    many = sized(*sorted(sizes, reverse=True))
    found = [one.size for one in picked(many, size)]
    assert found == sorted(set(found), reverse=True)
    assert len(found) == min(len(many), MOST)
    assert found[-1:] == sorted(sizes)[:1]


# The program on the host.

PACKED = base64.b64encode(zlib.compress(b"GGUF")).decode()
UNFIT = {"alternatives": [], "ask_on": True}


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """970 MiB of room, and 983 are needed with all experts on the CPU. A twin's name says what it takes."""
    name = "os.path.basename(words[words.index('-m') + 1])"
    rows = (
        "[print('CUDA0', size + 50 * (8 - int(words[words.index('--n-cpu-moe') + 1])), 80, 100, '\\nHost 1 0 1 ')"
        f" for size in [int({name}.split('-')[0])]]"
    )
    return Fake(tmp_path, total=1970, trouble=f"if '-IQ' in {name}:\n    {rows}; sys.exit()")


def smaller(*names: str) -> list[dict[str, Any]]:
    return [{"path": name, "twin": [{"name": name, "size": 1 << 30, "header": PACKED}]} for name in names]


def first(fake: Fake) -> dict[str, Any]:
    done = fake.run(**UNFIT)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_the_first_question_is_no_failure_and_records_nothing_where_a_second_one_follows(fake: Fake) -> None:
    told = first(fake)
    assert told["nothing_fits"]
    assert told["problem"].endswith("; no smaller ubatch, cache type or context alone would")
    assert fake.recorded() is None
    assert "take a smaller model or quantization. Change that" in fake.refusal()
    assert fake.recorded()["problem"].startswith("n_cpu_moe=8 does not fit"), "where none follows it is"


def test_a_number_that_does_not_fit_where_another_does_is_no_matter_of_quantization(fake: Fake) -> None:
    fake.total = 2300
    assert fake.refusal(n_cpu_moe=1, **UNFIT).endswith(
        "; n_cpu_moe=2 fits. Change that, or take the risk with memory_check='warn'"
    )
    assert not fake.recorded()["nothing_fits"]


def test_the_nearest_that_fits_is_told_with_its_split_and_recorded(fake: Fake) -> None:
    plan, others = first(fake), smaller("795-IQ4_XS.gguf", "700-IQ3_M.gguf", "300-IQ1_S.gguf")
    told = fake.refusal(asked=plan, smaller=others)
    answer = "; model_file=700-IQ3_M.gguf fits at n_cpu_moe=7"  # 700 + 50 + 183 of 970
    assert told == f"{plan['problem']}{answer}. Change that, or take the risk with memory_check='warn'"
    assert fake.recorded() == {**plan, "problem": plan["problem"] + answer}
    assert not [words for words, _ in fake.calls() if "IQ1" in words[1]], "a greater loss than is needed"
    assert not (fake.data / "plans/.twin").exists()


def test_as_few_questions_as_halving_takes_for_each(fake: Fake) -> None:
    plan = first(fake)
    before = len(fake.calls())
    fake.refusal(asked=plan, smaller=smaller("795-IQ4_XS.gguf", "794-IQ4_NL.gguf", "793-IQ3_M.gguf"))
    assert len(fake.calls()) - before <= 3 * 5


def test_those_that_would_not_are_named_and_one_that_cannot_be_asked_hides_no_other(fake: Fake) -> None:
    plan = first(fake)
    told = fake.refusal(asked=plan, smaller=smaller("odd-IQ4.gguf", "795-IQ4_XS.gguf", "790-IQ3_M.gguf"))
    assert told.startswith(f"{plan['problem']}; model_file=795-IQ4_XS.gguf or 790-IQ3_M.gguf would not. ")
    told = fake.refusal(asked=plan, smaller=smaller("odd-IQ4.gguf"), advice="look elsewhere")
    assert told.startswith(f"{plan['problem']}; look elsewhere. ")


def test_who_only_wants_to_be_warned_gets_the_plan_with_the_answer(fake: Fake) -> None:
    plan = first(fake)
    told = fake.plan(asked=plan, smaller=smaller("700-IQ3_M.gguf"), check="warn")
    assert told["problem"].endswith("model_file=700-IQ3_M.gguf fits at n_cpu_moe=7")


# What the host is told.


def test_the_second_question_is_the_first_ones_with_the_twins_of_the_smaller() -> None:
    wishes = hosts.wishes(hosts.HUB_DATA, **RPC)
    seen = unplanned(wishes)
    others: list[tuple[ModelPin, tuple[bytes, ...]]] = [
        (other, (b"GGUF",)) for other in sized(3_000_000_000, 2_000_000_000)
    ]
    plan = unfit().model_dump()
    lines: list[str] = []
    decision = decide.asked_on(wishes, plan, others, "take another", lines.extend, seen)
    assert decision.reasons == (
        "no split of the model fits: ask about 3000000000.gguf (3.0 GB), 2000000000.gguf (2.0 GB)",
    )
    (step,) = decision.steps
    assert step.report == lines.extend, "who goes on all the same hears of it"
    told = json.loads(step.script.args[0])
    [asked] = decide.planned(wishes, (), None, seen).steps
    before = json.loads(asked.script.args[0])
    assert before["ask_on"]
    assert [one["path"] for one in told["smaller"]] == ["3000000000.gguf", "2000000000.gguf"]
    assert [one["twin"][0]["size"] for one in told["smaller"]] == [3_000_000_000, 2_000_000_000]
    changed = {
        "ask_on": False,
        "asked": json.loads(json.dumps(plan)),
        "smaller": told["smaller"],
        "advice": "take another",
    }
    assert told == {**before, **changed}


def test_a_model_from_elsewhere_has_no_repository_to_look_in() -> None:
    wishes = hosts.wishes(**RPC)
    [step] = decide.planned(wishes, (), None, unplanned(wishes)).steps
    assert json.loads(step.script.args[0])["ask_on"] is False
