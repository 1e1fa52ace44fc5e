"""Whether what a run will write has room, and a place where programs may run."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from roles.overview.preflight import preflight
from tests.unit import hosts, machines, seed
from tests.unit.deciding import judged, refusal, resting


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ({"read_only": True}, "is on a file system that is mounted read-only"),
        ({"writable": False}, "cannot be written by dev"),
        ({"noexec": True}, "mounted noexec, and programs are run from there"),
        ({"type": "tmpfs"}, "is in memory (tmpfs), and would be gone after a reboot"),
        ({"inodes_free": 100}, "with 100 free inodes"),
        ({"free": 2 << 30}, "GB free"),
    ],
)
def test_a_disk_that_will_not_do_is_refused(place: dict[str, Any], sentence: str) -> None:
    told = refusal(judged(), hosts.bare(machine=machines.machine(**place)))
    assert told.startswith(("~/.local/share/paddock ", "~/.cache/paddock "))
    assert sentence in told


def test_release_and_model_need_room_together() -> None:
    both, wanted = (3 << 30) + hosts.PIN.size + (1 << 30), partial(preflight, hosts.wishes(hosts.HUB_DATA))
    absent = {"file": None, "is_gguf": False}
    resting(wanted, hosts.bare(model=absent, machine=machines.machine(free=both)))
    told = refusal(wanted, hosts.bare(model=absent, machine=machines.machine(free=both - 1)))
    assert "it takes 3.2 GB for the build and 12.0 GB for the model, and 1.1 GB to spare" in told


GIB, BUILD, MARGIN = 1 << 30, 3 << 30, 1 << 30
SIZE = hosts.PIN.size
RIGHT_SIZE: dict[str, Any] = {
    "file": {"kind": "file", "mode": 0o644, "uid": 1000, "size": SIZE, "mtime_ns": 7},
    "sidecar": None,
}
WRONG = [{"folder": hosts.PIN.folder, "size": SIZE, "mtime_ns": 1}]
NOT_BUILT: dict[str, Any] = {"llama_cpp": {"releases": {}}}


@pytest.mark.parametrize(
    ("data", "changes", "needed"),
    [
        ({}, {"model": hosts.ABSENT, **NOT_BUILT}, BUILD + SIZE + MARGIN),
        ({}, {"model": hosts.ABSENT}, SIZE + MARGIN),
        ({}, {"model": {**hosts.ABSENT, "part_size": SIZE - 5}}, 5 + MARGIN),
        ({}, {"model": {**hosts.ABSENT, "part_size": SIZE + 5}}, 0),
        ({}, {"model": {**hosts.ABSENT, "bad_size": SIZE, "stored": WRONG}}, MARGIN),
        ({}, {"model": RIGHT_SIZE}, 0),
        ({}, {"model": {**RIGHT_SIZE, "part_size": 5}}, 0),
        ({}, {"model": {"file": {**RIGHT_SIZE["file"], "size": 5}}}, SIZE + MARGIN),
        ({}, NOT_BUILT, BUILD + MARGIN),
        ({"only": "model"}, {"model": hosts.ABSENT, **NOT_BUILT}, SIZE + MARGIN),
        ({"only": "llama_cpp"}, {"model": hosts.ABSENT, **NOT_BUILT}, BUILD + MARGIN),
        ({"only": "packages"}, {"model": hosts.ABSENT, **NOT_BUILT}, 0),
        ({"only": "benchmark"}, {"model": hosts.ABSENT, **NOT_BUILT}, 0),
        ({}, {}, 0),
    ],
)
def test_the_disk_must_hold_what_is_to_come_and_a_gibibyte_to_spare(
    data: dict[str, Any], changes: dict[str, Any], needed: int
) -> None:
    wanted = hosts.wishes(hosts.HUB_DATA, **data)
    resting(partial(preflight, wanted), hosts.converged(wanted, **changes, machine=room(needed)))
    if needed:
        told = refusal(partial(preflight, wanted), hosts.converged(wanted, **changes, machine=room(needed - 1)))
        assert told.startswith("~/.local/share/paddock has ")
        assert told.endswith(", and 1.1 GB to spare")


def room(free: int, cache: int = machines.ROOM) -> dict[str, Any]:
    """Free bytes where releases and models are, and where llama.cpp is built."""
    return machines.machine({"free": cache}, free=free)


@pytest.mark.parametrize("changes", [{}, {"host": {"commands": {}}, "llama_cpp": {"releases": {}, "compilers": {}}}])
def test_the_disk_of_the_cache_must_hold_the_build(changes: dict[str, Any]) -> None:
    seen = {**NOT_BUILT, **changes}
    resting(judged(), hosts.converged(**seen, machine=room(machines.ROOM, cache=BUILD)))
    told = refusal(judged(), hosts.converged(**seen, machine=room(machines.ROOM, cache=BUILD - 1)))
    assert told == "~/.cache/paddock has 3.2 GB free, and the build takes 3.2 GB"
    resting(judged(), hosts.converged(machine=room(machines.ROOM, cache=0)))


def test_a_build_for_cuda_needs_more() -> None:
    answers = seed.laptop_answers(machine=room(7 * GIB - 1))
    assert "6.4 GB for the build" in refusal(judged(), hosts.parsed(answers))
    resting(judged(), hosts.parsed(seed.laptop_answers(machine=room(7 * GIB))))


def test_a_model_from_the_inventory_needs_no_room() -> None:
    resting(judged(), hosts.converged(model={"sidecar": None}, machine=room(0)))


def test_a_full_disk_is_no_trouble_where_nothing_is_missing() -> None:
    resting(judged(), hosts.converged(machine=machines.machine(free=0)))
