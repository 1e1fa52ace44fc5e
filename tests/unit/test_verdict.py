"""One verdict for every combination of what was recorded and what is seen: the gravest that applies."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from roles.gpu.classify import Nvidia
from roles.overview.preflight import verdict
from roles.overview.record import Facts
from roles.overview.verdict import judge
from tests.unit import hosts, machines, seed

BEFORE = Facts(
    driver="570.124.06",
    kernel="6.12.1",
    cards=("RTX 3050 (GPU-1, 6144 MiB)",),
    toolkit="12.8",
    release="aaaaaaaaa-11111111",
    model="m" * 64,
    settings="s" * 16,
)
HEALTHY = Nvidia("healthy", driver="570.124.06")
MISMATCH = Nvidia(
    "mismatch", "the loaded NVIDIA module is 570.124.06 and the driver's libraries are 580.1", "570.124.06"
)
CHANGES: dict[str, dict[str, Any]] = {
    "driver": {"driver": "580.1"},
    "kernel": {"kernel": "6.13.0"},
    "cards": {"cards": ("RTX 5070 (GPU-2, 12288 MiB)",)},
    "model": {"model": "n" * 64},
    "settings": {"settings": "t" * 16},
    "release": {"release": "bbbbbbbbb-22222222"},
    "toolkit": {"toolkit": "13.2"},
}


def changed(*names: str) -> Facts:
    return BEFORE.model_copy(update={key: value for name in names for key, value in CHANGES[name].items()})


def expected(names: tuple[str, ...], there: bool) -> str:
    if not there:
        return "rebuild"
    if {"cards", "model", "settings", "release"} & set(names):
        return "replan"
    return "rebench" if {"driver", "kernel"} & set(names) else "nothing"


COMBINATIONS = [
    (names, there)
    for size in range(len(CHANGES) + 1)
    for names in itertools.combinations(CHANGES, size)
    for there in (True, False)
]


@pytest.mark.parametrize(("names", "there"), COMBINATIONS)
def test_every_combination_of_changes_has_exactly_one_verdict(names: tuple[str, ...], there: bool) -> None:
    verdict = judge(BEFORE, changed(*names), HEALTHY, release_there=there)
    assert verdict.kind == expected(names, there)
    assert verdict.reason


@pytest.mark.parametrize("before", [BEFORE, None])
@pytest.mark.parametrize("there", [True, False])
def test_a_module_and_libraries_that_differ_outweigh_everything(before: Facts | None, there: bool) -> None:
    verdict = judge(before, changed("driver", "model"), MISMATCH, release_there=there)
    assert verdict.kind == "reboot"
    assert "580.1; reboot, then run again. What runs is left alone" in verdict.reason


def test_a_mismatch_that_a_reboot_does_not_mend_says_what_does() -> None:
    nvidia = Nvidia("mismatch", "they differ", "570.1", next_boot="the module on disk is old too; run dkms autoinstall")
    assert "run dkms autoinstall" in judge(BEFORE, BEFORE, nvidia, release_there=True).reason


@pytest.mark.parametrize(("there", "kind"), [(True, "replan"), (False, "rebuild")])
def test_a_host_that_nothing_is_recorded_of_is_new(there: bool, kind: str) -> None:
    assert judge(None, BEFORE, HEALTHY, release_there=there).kind == kind


@pytest.mark.parametrize(
    ("names", "there", "reason"),
    [
        (("driver",), True, "driver 570.124.06 -> 580.1"),
        (("driver", "kernel"), True, "driver 570.124.06 -> 580.1, kernel 6.12.1 -> 6.13.0"),
        (("cards",), True, "cards RTX 3050 (GPU-1, 6144 MiB) -> RTX 5070 (GPU-2, 12288 MiB)"),
        (("model", "settings"), True, "another model, other settings"),
        (("toolkit", "release"), False, "toolkit 12.8 -> 13.2, release aaaaaaaaa-11111111 -> bbbbbbbbb-22222222"),
        ((), False, "release aaaaaaaaa-11111111 is not on the host any more"),
        ((), True, "driver, card, release, model and settings are as the last deploy left them"),
    ],
)
def test_the_reason_names_the_facts(names: tuple[str, ...], there: bool, reason: str) -> None:
    assert judge(BEFORE, changed(*names), HEALTHY, release_there=there).reason == reason


def test_a_gpu_that_went_away_is_told_as_none() -> None:
    gone = BEFORE.model_copy(update={"cards": (), "driver": None})
    assert judge(BEFORE, gone, Nvidia("none"), release_there=True).reason == "cards RTX 3050 (GPU-1, 6144 MiB) -> none"


@pytest.mark.parametrize(
    ("data", "changes", "told"),
    [
        ({}, {}, "nothing: driver, card, release, model and settings are as the last deploy left them"),
        ({}, {"record": {"facts": None}}, "replan: nothing is recorded about this host yet"),
        ({}, {"llama_cpp": {"releases": {}}}, "rebuild: release 012345678-"),
        ({}, {"llama_cpp": {"compilers": {"/usr/bin/g++": "15.1.0"}}}, "rebuild: release 012345678-"),
        ({"context": 65536}, {}, "replan: other settings"),
        (
            {},
            {"model": {"file": {"kind": "file", "mode": 0, "uid": 0, "size": 5, "mtime_ns": 5}}},
            "replan: another model",
        ),
        ({}, {"machine": {"kernel": "6.13.0"}}, f"rebench: kernel {machines.KERNEL} -> 6.13.0"),
        ({}, {"gpu": machines.nvidia(seed.RTX_3050)}, "rebuild: a CUDA toolkit is needed and none was found"),
    ],
)
def test_the_verdict_is_the_gravest_that_applies(data: dict[str, Any], changes: dict[str, Any], told: str) -> None:
    assert str(verdict(hosts.wishes(**data), hosts.converged(**changes))).startswith(told)
