"""Which downloaded models go, and that nothing goes but what a download wrote."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from roles.model import collect
from roles.model.observe import MODEL
from roles.service import decide as service
from roles.service.observe import SERVICE
from tests.unit import hosts
from tests.unit.deciding import acting, resting

HUB = hosts.wishes(hosts.HUB_DATA)
WANTED = hosts.PIN.folder


def stored(*folders: str, named: tuple[str, ...] = ()) -> dict[str, Any]:
    """Models on the host, the newest first, and those that something there uses."""
    there = [{"folder": name, "size": 5_000_000_000, "mtime_ns": 1000 - at} for at, name in enumerate(folders)]
    return {"stored": there, "named": named}


def gone(
    *folders: str, keep: int = 2, named: tuple[str, ...] = (), locked: tuple[str, ...] = (), **data: Any
) -> list[str]:
    """The folders that would be removed."""
    wishes = replace(hosts.wishes({**hosts.HUB_DATA, "model_keep": keep, **data}), locked=locked)
    seen = hosts.converged(HUB, model=stored(*folders, named=named))
    decide = partial(collect.collected, wishes)
    if not decide(seen).steps:
        resting(decide, seen)
        return []
    decision = acting(decide, seen)
    left = {one.folder for one in decision.after[MODEL].stored}
    assert decision.steps[0].script.args[1:] == tuple(name for name in folders if name not in left)
    return [name for name in folders if name not in left]


@pytest.mark.parametrize(
    ("there", "fields", "expected"),
    [
        ((WANTED,), {}, []),
        ((WANTED, "a/1"), {}, []),
        ((WANTED, "a/1", "b/2"), {}, ["b/2"]),
        ((WANTED, "a/1", "b/2"), {"keep": 3}, []),
        ((WANTED, "a/1", "b/2"), {"keep": 1}, ["a/1", "b/2"]),
        (("a/1", "b/2", WANTED), {}, ["b/2"]),
        (("a/1", "b/2"), {}, ["b/2"]),
        ((WANTED, "a/1", "b/2", "c/3"), {"named": ("c/3",)}, ["a/1", "b/2"]),
        ((WANTED, "a/1", "b/2", "c/3"), {"named": ("b/2", "c/3")}, ["a/1"]),
        ((WANTED, "a/1", "b/2", "c/3"), {"locked": ("a/1", "b/2", "c/3"), "keep": 1}, []),
        ((WANTED, "a/1", "b/2"), {"locked": ("b/2",), "keep": 1}, ["a/1"]),
        ((WANTED, "a/1"), {"named": ("a/12",), "keep": 1}, ["a/1"]),
        ((WANTED, "a/1", "a/2", "b/3"), {"named": ("a",), "keep": 1}, ["b/3"]),
        ((WANTED, "a/1", "b/2"), {"named": (".",), "keep": 1}, []),
    ],
)
def test_the_oldest_go_beyond_those_that_are_kept_and_never_what_something_refers_to(
    there: tuple[str, ...], fields: dict[str, Any], expected: list[str]
) -> None:
    assert gone(*there, **fields) == expected


def test_the_size_of_what_goes_is_told_first() -> None:
    decide = partial(collect.collected, hosts.wishes({**hosts.HUB_DATA, "model_keep": 1}))
    decision = acting(decide, hosts.converged(HUB, model=stored(WANTED, "a/1")))
    told = "remove the model a/1 (5.00 GB): no unit, process or lock entry names it, model_keep=1"
    assert decision.reasons == (told,)


def test_a_service_that_worked_is_foretold_to_be_the_last_good() -> None:
    seen = hosts.converged()
    after = service.running(hosts.wishes(context=65536), seen).after
    assert after[SERVICE].last_good == seen[SERVICE].unit
    unproved = hosts.converged(service={"proved": None})
    assert service.running(hosts.wishes(context=65536), unproved).after[SERVICE].last_good is None
