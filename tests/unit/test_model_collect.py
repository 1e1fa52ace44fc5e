"""Which downloaded models go, and that nothing goes but what a download wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roles.model import collect
from roles.model.observe import MODEL, ModelSeen, look_at_model
from roles.remote import Script
from roles.service import decide as service
from roles.service.observe import SERVICE
from tests.unit import hosts, local
from tests.unit.deciding import acting, resting

HUB = hosts.wishes(hosts.HUB_DATA)
WANTED = hosts.PIN.folder
UNIT = "ExecStart=/r/bin/llama-server -m /home/dev/.local/share/paddock/models/{}/some.gguf -c 4096\n"


def stored(*folders: str) -> dict[str, Any]:
    """Models on the host, the newest first."""
    return {
        "stored": [{"folder": name, "size": 5_000_000_000, "mtime_ns": 1000 - at} for at, name in enumerate(folders)]
    }


def gone(
    *folders: str, keep: int = 2, units: tuple[str, ...] = (), locked: tuple[str, ...] = (), **data: Any
) -> list[str]:
    """The folders that would be removed."""
    wishes = replace(hosts.wishes({**hosts.HUB_DATA, "model_keep": keep, **data}), locked=locked)
    seen = hosts.converged(HUB, model=stored(*folders))
    decide = partial(collect.collected, wishes, [UNIT.format(unit) for unit in units])
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
        ((WANTED, "a/1", "b/2", "c/3"), {"units": ("c/3",)}, ["a/1", "b/2"]),
        ((WANTED, "a/1", "b/2", "c/3"), {"units": ("b/2", "c/3")}, ["a/1"]),
        ((WANTED, "a/1", "b/2", "c/3"), {"locked": ("a/1", "b/2", "c/3"), "keep": 1}, []),
        ((WANTED, "a/1", "b/2"), {"locked": ("b/2",), "keep": 1}, ["a/1"]),
        ((WANTED, "a/1"), {"units": ("a/12",), "keep": 1}, ["a/1"]),
    ],
)
def test_the_oldest_go_beyond_those_that_are_kept_and_never_what_something_refers_to(
    there: tuple[str, ...], fields: dict[str, Any], expected: list[str]
) -> None:
    assert gone(*there, **fields) == expected


def test_a_given_model_in_one_of_these_folders_stays() -> None:
    wishes = hosts.wishes(model_path="~/.local/share/paddock/models/a/1/some.gguf", model_keep=1)
    seen = hosts.converged(model=stored("a/1", "b/2"))
    assert [one.folder for one in collect.removable(wishes, [], seen[MODEL].stored)] == ["b/2"]


def test_the_size_of_what_goes_is_told_first() -> None:
    decide = partial(collect.collected, hosts.wishes({**hosts.HUB_DATA, "model_keep": 1}), [])
    decision = acting(decide, hosts.converged(HUB, model=stored(WANTED, "a/1")))
    assert decision.reasons == ("remove the model a/1 (5.00 GB): no unit or lock entry names it, model_keep=1",)


def test_a_service_that_worked_is_foretold_to_be_the_last_good() -> None:
    seen = hosts.converged()
    after = service.running(hosts.wishes(context=65536), seen).after
    assert after[SERVICE].last_good == seen[SERVICE].unit
    unproved = hosts.converged(service={"proved": None})
    assert service.running(hosts.wishes(context=65536), unproved).after[SERVICE].last_good is None


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Two downloads of one repository, and something of the user's own in the second."""
    for commit, files in {"1": ["a.gguf", "a.gguf.part", "Q4/b.gguf"], "2": ["a.gguf"]}.items():
        for name in files:
            path = tmp_path / "models/owner--name" / commit / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * 1000)
            if not name.endswith(".part"):
                Path(f"{path}.json").write_text(json.dumps({"sha256": "d" * 64, "size": 1000, "mtime_ns": 1}))
    (tmp_path / "models/owner--name/2/mine.gguf").write_text("mine")
    (tmp_path / "models/owner--name/2/mine.json").write_text("{}")
    return tmp_path / "models"


def remove(models: Path, *folders: str) -> tuple[int, str]:
    done = local.run(Script(collect.REMOVE, (str(models), *folders), python=True))
    return done.returncode, done.stdout + done.stderr


def test_a_model_goes_whole_and_its_empty_folders_with_it(models: Path) -> None:
    assert remove(models, "owner--name/1") == (0, "")
    assert not (models / "owner--name/1").exists()
    assert (models / "owner--name/2/a.gguf").exists()


def test_what_a_download_did_not_write_stays(models: Path) -> None:
    assert remove(models, "owner--name/1", "owner--name/2") == (0, "")
    assert sorted(path.name for path in models.rglob("*") if path.is_file()) == ["mine.gguf", "mine.json"]
    assert look(models).stored == ()


def test_nothing_outside_of_the_models_can_be_named(models: Path) -> None:
    (models.parent / "other").mkdir()
    for folder in ("../other", ".", "owner--name/../.."):
        code, said = remove(models, folder)
        assert code == 1
        assert "is not below" in said
    assert (models.parent / "other").exists()


def look(models: Path) -> ModelSeen:
    ask = {"path": str(models / "no.gguf"), "rest": [], "models": str(models)}
    return ModelSeen.model_validate(look_at_model(ask))


def test_what_is_stored_is_counted_by_what_downloads_wrote(models: Path) -> None:
    assert {one.folder: one.size for one in look(models).stored} == {"owner--name/1": 3000, "owner--name/2": 1000}
    (models / "loose.gguf").write_text("x")
    assert len(look(models).stored) == 2
