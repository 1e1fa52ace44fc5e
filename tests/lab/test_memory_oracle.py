"""Plans from headers alone, against what the same release takes when it loads the model, and against every split.

On one deployed host, with servers of RPC in the place of cards: weights and caches are the same bytes on both.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roles.memory.bound import least
from roles.memory.oracle_program import OUTPUT_ELSEWHERE
from roles.memory.plan import Plan
from roles.memory.words import split_words, words
from roles.service.gate.causes import explained
from tests.lab import twins
from tests.lab.deploying import Run
from tests.lab.host import LabHost
from tests.lab.oracle import PLACE, Bench, Model, all_models
from tests.unit.tiny_model import Kind

pytestmark = pytest.mark.timeout(900)

TRUNCATED = 3  # three figures, each cut to whole MiB
PROGRAM_MIB = 64  # of address space, for ggml-rpc-server itself


@pytest.fixture(scope="module")
def oracle(first: Run, one: LabHost) -> Iterator[Bench]:
    assert first.code == 0, first.text
    one.sh(f"mkdir -p /{PLACE}; chown dev: /{PLACE}")
    yield Bench(one, one.sh("ls -d ~/.local/share/paddock/releases/*/bin", user="dev").stdout.split()[0])
    one.sh(f"rm -rf /{PLACE} /tmp/oracle")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    return all_models(tmp_path_factory.mktemp("twins"))


SETTINGS: dict[str, list[dict[str, Any]]] = {
    "moe": [
        {"n_cpu_moe": 0, "kv": "f16", "context": 4096, "ubatch": 512},
        {"n_cpu_moe": 2, "kv": "q4_0", "context": 32768, "ubatch": 256},
        {"n_cpu_moe": 6, "kv": "q8_0", "context": 16384, "ubatch": 1024},
        {"n_cpu_moe": 3, "kv": "q4_0", "context": 65536, "ubatch": 512},
    ],
    "gemma": [
        {"kv": "f16", "context": 8192, "ubatch": 256},
        {"kv": "q4_0", "context": 32768, "ubatch": 1024},
    ],
    "recurrent": [{"n_cpu_moe": 3, "kv": "q8_0", "context": 32768, "ubatch": 512}],
    "sliding": [{"n_cpu_moe": 3, "kv": "q4_0", "context": 32768, "ubatch": 512}],
    "mla": [{"n_cpu_moe": 3, "kv": "q8_0", "context": 16384, "ubatch": 256}],
}


def keys(kv: str, **settings: Any) -> dict[str, Any]:
    return {**settings, "cache_type_k": kv, "cache_type_v": kv}


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_foretold_of_a_header_is_what_a_server_takes(
    oracle: Bench, library: dict[str, Model], name: str
) -> None:
    model, wanted = library[name], [keys(**settings) for settings in SETTINGS[name]]
    plans = [plan for plan in oracle.plans(model, wanted) if isinstance(plan, Plan)]
    path = oracle.put(model.path)
    options = [
        ["-m", path, *words(model.wishes(**settings).settings.service, ()), *split_words(plan)]
        for settings, plan in zip(wanted, plans, strict=True)
    ]
    for plan, taken in zip(plans, oracle.ask(True, options), strict=True):
        assert taken["answers"], taken["log"]
        [share] = plan.devices
        assert [share.model, share.context] == pytest.approx(taken["device"][:2], abs=1), plan
        assert taken["device"][2] <= share.compute + 1 <= taken["device"][2] * 1.25 + 3, plan


# Device and host: model, context, compute in MiB, by --n-cpu-moe and KV type. Measured on 2026-11-30 on a machine with
# two cores and without a GPU, with llama.cpp of October 2026 (0.5.0-dev, commit 612f64e), for 122,880 tokens, -ub 2048.
MEASURED = {
    (48, "q4_0"): ([1000, 3240, 1203], [7371, 0, 512]),
    (44, "q4_0"): ([1594, 3240, 1203], [6777, 0, 512]),
    (40, "q4_0"): ([2188, 3240, 1203], [6183, 0, 512]),
    (0, "q4_0"): ([8128, 3240, 1203], [243, 0, 512]),
    (44, "q8_0"): ([1594, 6120, 1203], [6777, 0, 512]),
}
LAPTOP = {"context": 122_880, "ubatch": 2048}


def every_split(oracle: Bench, model: Model, layers: int, shape: dict[str, Any]) -> list[dict[str, list[int]]]:
    """What llama-fit-params of the release tells for each --n-cpu-moe from 0 on, asked by nobody's planner."""
    wanted = model.wishes(**keys(**shape)).settings.service
    options = ["-m", oracle.put(model.path), *words(wanted, ()), "-ngl", "99", "--n-cpu-moe"]
    return list(oracle.ask(False, [[*options, str(number)] for number in range(layers + 1)]))


def as_reserved(
    oracle: Bench, model: Model, layers: int, shape: dict[str, Any], tried: list[dict[str, list[int]]]
) -> list[dict[str, list[int]]]:
    """The same without the logits of a whole batch, which no server reserves: with the output layer elsewhere, and an
    eighth beside that. The split with least on the device has buffers of its own."""
    wanted = model.wishes(**keys(**shape)).settings.service
    options = ["-m", oracle.put(model.path), *words(wanted, ()), "-ngl", "99", *OUTPUT_ELSEWHERE, "--n-cpu-moe"]
    told = [one["RPC0"][2] for one in oracle.ask(False, [[*options, str(n)] for n in range(layers + 1)])]
    most, own = (size + size // 8 + 1 for size in (told[layers // 2], told[-1]))
    assert max(told) <= most, "so that no split is taken for less than it reserves"
    bounds = [*[most] * layers, min(most, own)]
    return [{"RPC0": [*one["RPC0"][:2], min(one["RPC0"][2], bound)]} for one, bound in zip(tried, bounds, strict=True)]


def smallest(tried: list[dict[str, list[int]]], limit: int) -> int | None:
    """The smallest --n-cpu-moe that fits; None where none does."""
    return next((number for number, one in enumerate(tried) if sum(one["RPC0"]) + TRUNCATED <= limit), None)


def limits_of(tried: list[dict[str, list[int]]], count: int, chance: random.Random) -> list[int]:
    """VRAM to plan for, from a little too small for anything to enough for all of it."""
    most, least = (sum(tried[number]["RPC0"]) for number in (0, -1))
    span = max((most - least) // 10, 2)
    return [chance.randint(least - span, most + span) for _ in range(count)]


def below(model: Model, shape: dict[str, Any], tried: list[dict[str, list[int]]]) -> None:
    """What refuses a hopeless wish by the header alone is never more than llama.cpp tells."""
    for number, one in [*enumerate(tried), ("auto", tried[-1])]:
        service = model.wishes(**keys(**shape), n_cpu_moe=number).settings.service
        assert 0 < least(model.anatomy, service) <= sum(one["RPC0"][:2]) + 1, (model.path.name, shape, number)


def found(oracle: Bench, model: Model, shape: dict[str, Any], limits: list[int]) -> list[int | None]:
    """What the planner chooses for each limit; None where it refuses."""
    plans = oracle.plans(model, [keys(**shape, vram_limit_mib=limit) for limit in limits])
    assert all("does not fit" in plan for plan in plans if isinstance(plan, str)), plans
    return [plan.n_cpu_moe if isinstance(plan, Plan) else None for plan in plans]


def test_auto_is_what_trying_every_split_finds(oracle: Bench, library: dict[str, Model]) -> None:
    """30 times on the small mixture of experts, 3 times on each other kind."""
    chance = random.Random(6)
    for name, layers, shapes, count in (
        ("moe", 6, 6, 5),
        ("recurrent", 8, 1, 3),
        ("sliding", 8, 1, 3),
        ("mla", 6, 1, 3),
    ):
        for _ in range(shapes):
            shape = {
                "kv": chance.choice(["f16", "q8_0", "q4_0"]),
                "context": chance.choice([4096, 16_384, 40_960]),
                "ubatch": chance.choice([128, 512, 1024]),
            }
            tried = every_split(oracle, library[name], layers, shape)
            tried = as_reserved(oracle, library[name], layers, shape, tried)
            limits = limits_of(tried, count, chance)
            below(library[name], shape, tried)
            chosen = found(oracle, library[name], shape, limits)
            assert chosen == [smallest(tried, limit) for limit in limits], (name, shape, limits)


def test_the_big_twin_takes_what_was_measured_and_is_split_as_trying_finds(
    oracle: Bench, library: dict[str, Model]
) -> None:
    shape = {**LAPTOP, "kv": "q4_0"}
    tried = every_split(oracle, library["big"], 48, shape)
    [plan] = oracle.plans(library["big"], [keys(**LAPTOP, kv="q8_0", n_cpu_moe=44)])
    assert isinstance(plan, Plan), plan
    for (number, kv), (device, host) in MEASURED.items():
        if kv == "q4_0":
            assert tried[number] == {"RPC0": device, "Host": host}
        else:
            [share] = plan.devices
            assert [share.model, share.context] == device[:2]
            assert share.compute < device[2]
            assert [plan.host.model, plan.host.context, plan.host.compute] == host
    tried = as_reserved(oracle, library["big"], 48, shape, tried)
    below(library["big"], shape, tried)
    limits = limits_of(tried, 3, random.Random(2026))
    assert found(oracle, library["big"], shape, limits) == [smallest(tried, limit) for limit in limits]


def test_the_smaller_quantization_that_is_told_is_the_nearest_that_fits_by_itself(
    oracle: Bench, library: dict[str, Model], tmp_path: Path
) -> None:
    """The first has smaller experts alone, which are on the CPU; the last is not asked about."""
    kinds = {
        "IQ1_S-experts": (Kind.Q6_K, Kind.IQ1_S),
        "Q4_K": (Kind.Q4_K, Kind.IQ2_XXS),
        "Q2_K": (Kind.Q2_K, Kind.IQ1_S),
    }
    others = [Model(twins.big(*pair).write(tmp_path / f"{name}.gguf")) for name, pair in kinds.items()]
    # With all experts on the CPU the big one takes 5000 MiB, and 4701 where attention has four bits.
    settings = {**keys(**LAPTOP, kv="q4_0"), "vram_limit_mib": 4850}
    worse, nearest = (oracle.plans(other, [settings])[0] for other in others[:2])
    assert isinstance(worse, str), worse
    assert isinstance(nearest, Plan), nearest
    told = oracle.smaller(library["big"], settings, others)
    assert f"; model_file=Q4_K.gguf fits at n_cpu_moe={nearest.n_cpu_moe}. " in told


def test_on_a_device_with_so_much_memory_a_plan_that_fits_loads_and_one_that_does_not_fails(
    oracle: Bench, library: dict[str, Model]
) -> None:
    """The stand-in's address space is bound by prlimit, as it has no limit of its own."""
    model, limit = library["moe"], 200
    small, large = ({**keys("f16", context=context), "vram_limit_mib": limit} for context in (32_768, 131_072))
    fitting, refusal = oracle.plans(model, [small, large])
    assert isinstance(fitting, Plan), fitting
    assert isinstance(refusal, str), refusal
    assert "does not fit: RPC0 would hold" in refusal
    options = [
        ["-m", oracle.put(model.path), *words(model.wishes(**settings).settings.service, ()), *split_words(fitting)]
        for settings in (small, large)
    ]
    loads, fails = oracle.ask(True, options, limit + PROGRAM_MIB)
    assert loads["answers"], loads["log"]
    assert not fails["answers"]
    told = explained(fails["log"].splitlines())
    assert told.startswith(
        ": RPC0 is out of memory: a buffer of 402653184 bytes was asked for; raise n_cpu_moe, lower "
    )
