"""What is said of a model that is still to come: its place, its room, and what its header tells the preflight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from roles.lock import CannotPin
from roles.model import decide, header
from roles.model.collect import REMOVE
from roles.observation import Observation
from roles.overview import operations, preflight
from roles.wishes import Anatomy, Wishes
from tests.unit import hosts, machines, services
from tests.unit.deciding import acting, in_order, refusal, resting
from tests.unit.programs import assert_old_python_can_run

HUB = hosts.wishes(hosts.HUB_DATA)
TOLD = Anatomy("qwen3moe", 48, trained_context=40_960)
MODELS = "~/.local/share/paddock/models"


def ahead(told: Anatomy, **data: Any) -> Wishes:
    return replace(hosts.wishes(hosts.HUB_DATA, **data), model=replace(hosts.PIN, anatomy=told))


@pytest.mark.parametrize(
    ("told", "data", "sentence"),
    [
        (
            TOLD,
            {"context": 65536},
            "context=65536 is more than the 40960 tokens that Flint-abliterated-Mix-12G.gguf was",
        ),
        (
            replace(TOLD, mla=True),
            {"cache_type_k": "q8_0"},
            "has compressed attention (MLA), and llama.cpp wants equal",
        ),
    ],
)
def test_a_setting_that_a_model_to_come_cannot_have_is_told_before_its_download(
    told: Anatomy, data: dict[str, Any], sentence: str
) -> None:
    assert sentence in refusal(partial(preflight, ahead(told, **data)), hosts.bare(model=hosts.ABSENT))
    resting(partial(preflight, ahead(told)), hosts.bare(model=hosts.ABSENT))


def test_a_whole_run_on_a_bare_host_rests_on_what_the_header_told() -> None:
    seen, wanted = hosts.bare(model=hosts.ABSENT), ahead(TOLD)
    for decide_ in in_order(wanted).values():
        seen = decide_(seen).after
    for name, decide_ in in_order(wanted).items():
        assert not decide_(seen).steps, name


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        (
            {"read_only": True},
            "is on a file system that is mounted read-only by dev, and some.gguf is to be downloaded",
        ),
        ({"writable": False}, "cannot be written by dev, and some.gguf is to be downloaded to it"),
        ({"type": "tmpfs"}, "is in memory (tmpfs), and a model there would take the RAM that it is run with"),
    ],
)
def test_where_models_are_is_judged_only_while_one_is_to_come(place: dict[str, Any], sentence: str) -> None:
    machine = machines.machine(models={"device": 2, **place})
    only = partial(preflight, hosts.wishes(hosts.HUB_DATA, only="model"))
    told = refusal(only, hosts.converged(HUB, model=hosts.ABSENT, machine=machine))
    assert told == f"{MODELS} {told.removeprefix(MODELS + ' ')}"
    assert sentence in told
    resting(only, hosts.converged(HUB, machine=machine))


def test_models_on_a_disk_of_their_own_need_room_there_and_the_build_needs_it_elsewhere() -> None:
    size, gib = hosts.PIN.size, 1 << 30
    wanted = partial(preflight, HUB)

    def seen(models: int, data: int) -> Observation:
        machine = machines.machine(models={"device": 2, "free": models}, cache={"free": machines.ROOM}, free=data)
        return hosts.bare(model=hosts.ABSENT, machine=machine)

    resting(wanted, seen(size + gib, 4 * gib))
    assert refusal(wanted, seen(size + gib - 1, 4 * gib)).startswith(f"{MODELS} has ")
    assert refusal(wanted, seen(size + gib, 4 * gib - 1)).startswith("~/.local/share/paddock has ")


def test_what_other_models_hold_is_told_where_there_is_no_room() -> None:
    stored = [{"folder": "a/1", "size": 12_000_000_000, "mtime_ns": 1}]
    seen = hosts.converged(HUB, model={**hosts.ABSENT, "stored": stored}, machine=machines.machine(free=13_000_000_000))
    told = refusal(partial(preflight, HUB), seen)
    assert told.endswith("1.1 GB to spare. Models that are there hold 12.0 GB, and the one that serves must stay")


def test_a_file_that_came_wrong_is_neither_in_the_way_nor_a_model_that_stays() -> None:
    folder = {"folder": hosts.PIN.folder, "size": 12_000_000_000, "mtime_ns": 1}
    wrong = {**hosts.ABSENT, "stored": [folder], "bad_size": 12_000_000_000}
    decide_ = partial(preflight, HUB)
    resting(decide_, hosts.converged(HUB, model=wrong, machine=machines.machine(free=1 << 30)))
    told = refusal(decide_, hosts.converged(HUB, model=wrong, machine=machines.machine(free=(1 << 30) - 1)))
    assert told.endswith(
        "has 13.1 GB free, with the file that came wrong; it takes 12.0 GB for the model, and 1.1 GB to spare"
    )


def raising(error: Exception) -> Callable[..., Wishes]:
    def informed(*_: object) -> Wishes:
        raise error

    return informed


def test_a_header_that_cannot_be_read_now_is_said_and_one_that_is_none_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = hosts.bare(model=hosts.ABSENT)
    monkeypatch.setattr(header, "informed", raising(header.CannotRead("the Hub is away")))
    decision = operations.ahead(HUB, seen, True, lambda line: None)
    assert decision.refusal is None
    assert decision.left_out == "the model is not known before it is downloaded: the Hub is away"
    monkeypatch.setattr(header, "informed", raising(CannotPin("some.gguf is not a GGUF")))
    assert operations.ahead(HUB, seen, True, lambda line: None).refusal == "some.gguf is not a GGUF"


def test_what_cannot_fit_is_refused_too_where_the_model_is_there_and_its_header_is_kept_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rpc: dict[str, Any] = {"backend": "rpc", "rpc_servers": ["127.0.0.1:50052"], "gpu_layers": 99}
    seen = hosts.converged(hosts.wishes(hosts.HUB_DATA, **rpc))  # another limit was planned for, or none
    smaller = hosts.wishes(hosts.HUB_DATA, **rpc, vram_limit_mib=900)
    monkeypatch.setattr(header, "kept", lambda pin: replace(TOLD, dense_bytes=1000 << 20))
    told = operations.ahead(smaller, seen, True, lambda line: None).refusal or ""
    assert told.startswith("some.gguf takes at least 1000 MiB of VRAM (weights and cache, by its header), and 900 MiB")
    monkeypatch.setattr(header, "kept", lambda pin: None)
    assert operations.ahead(smaller, seen, True, lambda line: None).refusal is None, "llama.cpp is asked"


def test_the_service_is_another_when_any_of_its_files_is() -> None:
    rest: dict[str, Any] = {"path": "/m/b", "file": {"kind": "file", "mode": 0, "uid": 0, "size": 5, "mtime_ns": 5}}
    given = hosts.wishes()
    before = hosts.converged_answers(given, model={"rest": [rest]})
    before["service"] = services.running(given, hosts.parsed(before))
    run = in_order(given)["service"]
    resting(run, hosts.parsed(before))
    touched = {**rest, "file": {**rest["file"], "mtime_ns": 6}}
    acting(run, hosts.parsed({**before, "model": {**before["model"], "rest": [touched]}}))


def test_what_runs_on_the_host_is_old_python() -> None:
    assert_old_python_can_run(decide.PROGRAM)
    assert_old_python_can_run(REMOVE)
