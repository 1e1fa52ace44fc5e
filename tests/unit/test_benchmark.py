"""Whether what is served has been measured, and why it is measured again."""

from __future__ import annotations

from typing import Any

import pytest

from roles.benchmark.observe import BenchmarkSeen
from tests.unit import hosts, machines
from tests.unit.deciding import Decide, full, reasons, refusal, resting, smoke


def last(**fields: Any) -> dict[str, Any]:
    return {"last": {**hosts.converged_answers()["benchmark"]["last"], **fields}}


@pytest.mark.parametrize(
    ("decide", "changes", "why"),
    [
        (smoke(), {"benchmark": {"last": None}}, "nothing measured yet"),
        (smoke(), {"benchmark": last(stamp="0" * 16)}, "what is served changed"),
        (smoke(), {"benchmark": last(kind="full", stamp="0" * 16)}, "what is served changed"),
        (smoke(benchmark_depths=[0, 2048, 8192]), {}, "other depths"),
        (smoke(benchmark_depths=[2048, 0]), {}, "other depths"),
        (smoke(benchmark_tokens=64), {}, "another number of tokens"),
        (smoke(), {"benchmark": last(driver="580.119.02")}, "driver 580.119.02 -> none"),
        (smoke(), {"machine": {"kernel": "6.13.0"}}, f"kernel {machines.KERNEL} -> 6.13.0"),
    ],
)
def test_why_it_is_measured(decide: Decide, changes: dict[str, Any], why: str) -> None:
    told = reasons(decide, hosts.converged(**changes))
    assert told.startswith("measure at ")
    assert told.endswith(f" tokens of context: {why}")


@pytest.mark.parametrize("fields", [{"depths": [0, 32768]}, {"tokens": 512}, {"depths": [], "rows": []}])
def test_the_figures_of_a_full_run_will_do(fields: dict[str, Any]) -> None:
    resting(smoke(), hosts.converged(benchmark=last(kind="full", **fields)))


def test_figures_of_which_some_were_left_out_will_do() -> None:
    resting(smoke(), hosts.converged(benchmark=last(rows=[], left_out=["2k: it takes too long"])))


def test_more_samples_are_for_the_next_run() -> None:
    resting(smoke(benchmark_repetitions=9), hosts.converged())


def test_no_depths_are_no_benchmark() -> None:
    resting(smoke(benchmark_depths=[]), hosts.converged(benchmark={"last": None}))


def test_what_somebody_stopped_is_not_measured() -> None:
    resting(smoke(), hosts.converged(service={"masked": True, "unit": None}, benchmark={"last": None}))


@pytest.mark.parametrize("data", [{"context": 65536}, {"llama_cmake_args": ["GGML_LTO=ON"]}])
@pytest.mark.parametrize("kind", [smoke, full])
def test_figures_of_something_else_than_what_is_wanted_are_not_taken(kind: Any, data: dict[str, Any]) -> None:
    assert "deploy it first: `pyinfra -y INVENTORY deploy.py`" in refusal(kind(**data), hosts.converged())


@pytest.mark.parametrize("kind", [smoke, full])
def test_what_cannot_be_built_cannot_be_measured(kind: Any) -> None:
    assert "a CUDA toolkit is needed" in refusal(kind(backend="cuda"), hosts.converged())


@pytest.mark.parametrize(
    ("data", "changes"), [({"benchmark_depths": []}, {}), ({}, {"service": {"masked": True, "unit": None}})]
)
def test_a_full_run_of_nothing_is_refused(data: dict[str, Any], changes: dict[str, Any]) -> None:
    assert refusal(full(**data), hosts.converged(**changes)).startswith("nothing to measure: ")


def test_a_full_run_is_made_whenever_it_is_asked_for() -> None:
    seen = hosts.converged()
    for _ in range(2):
        decision = full()(seen)
        assert decision.reasons == ("measure at 0 and 32256 tokens of context: as asked",)
        seen = decision.after


def test_a_record_that_cannot_be_read_is_as_good_as_none() -> None:
    assert BenchmarkSeen.model_validate({"last": {"schema": 2, "kind": "full", "rows": "many"}}).last is None
