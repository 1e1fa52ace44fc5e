"""What is said before any command runs of an inventory that pyinfra takes without a word."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Inventory, State

from roles import trouble
from roles.overview import start
from roles.settings import page
from tests.unit.hosts import DATA

Group = tuple[list[Any], dict[str, Any]]


def state(groups: dict[str, Group], all_data: dict[str, Any] | None = None) -> State:
    """The state of a run with these lists of hosts in fleet.py, as pyinfra makes it; only its inventory is read."""
    names = [name if isinstance(name, str) else name[0] for hosts, _ in groups.values() for name in hosts]
    inventory = Inventory((names, all_data or {}), **{**groups, "fleet": (names, {})})  # type: ignore[no-untyped-call]
    return cast("State", SimpleNamespace(inventory=inventory))


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the run was started with."""
    file = tmp_path / "inventories" / "fleet.py"
    file.parent.mkdir()
    file.touch()
    monkeypatch.setattr(sys, "argv", ["pyinfra", "-y", str(file), "deploy.py"])
    return file


def refused(state: State, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that a run ends with; nothing where it goes on."""
    told: list[str] = []
    monkeypatch.setattr(trouble, "refuse_all", told.extend)
    monkeypatch.setattr(start, "_locks", [])
    start.check_all(state)
    return told


HINT = " (it has no data of its own, and comes from the list models"


@pytest.mark.usefixtures("inventory")
def test_a_list_that_was_not_meant_as_hosts_is_hinted_at_once_per_host(monkeypatch: pytest.MonkeyPatch) -> None:
    lists: dict[str, Group] = {"machines": ([("laptop", DATA)], {}), "models": (["small.gguf", "big.gguf"], {})}
    told = refused(state(lists), monkeypatch)
    assert [line.partition(":")[0] for line in told if HINT in line] == ["small.gguf", "big.gguf"]
    assert not [line for line in told if line.startswith("laptop")]
    assert all(line.endswith("unless its name begins with _)") for line in told if HINT in line)


@pytest.mark.usefixtures("inventory")
@pytest.mark.parametrize(
    ("all_data", "groups"),
    [
        ({}, {"machines": ([("laptop", {**DATA, "contxt": 5})], {})}),
        ({"contxt": 5}, {"machines": ([("laptop", DATA)], {})}),
    ],
)
def test_a_host_with_data_of_its_own_was_meant_as_one(
    all_data: dict[str, Any], groups: dict[str, Group], monkeypatch: pytest.MonkeyPatch
) -> None:
    (told,) = refused(state(groups, all_data), monkeypatch)
    assert told == "laptop: contxt: no such key; did you mean context?"


@pytest.mark.usefixtures("inventory")
@pytest.mark.parametrize(
    ("all_data", "group_data"),
    [(DATA, {}), ({}, DATA), ({"llama_ref": DATA["llama_ref"]}, {"model_path": DATA["model_path"]})],
)
def test_a_host_whose_data_come_from_elsewhere_is_no_trouble(
    all_data: dict[str, Any], group_data: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(state({"machines": (["laptop"], group_data)}, all_data), monkeypatch) == []


@pytest.mark.parametrize("words", [["laptop,desk", "deploy.py"], ["@local", "deploy.py"]])
def test_hosts_named_on_the_command_line_come_from_no_list(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pyinfra", *words])
    told = refused(state({"machines": (["laptop", "desk"], {})}), monkeypatch)
    assert told
    assert not [line for line in told if "it has no data of its own" in line]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose group_data/all.py somebody edited; the run is started outside it."""
    folder = tmp_path / "paddock" / "group_data"
    folder.mkdir(parents=True)
    (folder / "all.py").write_text(page.group_data() + "context = 65536\n")
    monkeypatch.setattr(page, "GROUP_DATA", folder / "all.py")
    monkeypatch.setattr(page, "ROOT", folder.parent)
    (tmp_path / "elsewhere" / "group_data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    return folder.parent


FLEET: dict[str, Group] = {"machines": ([("laptop", DATA)], {})}


@pytest.mark.usefixtures("inventory")
def test_defaults_that_pyinfra_would_pass_over_are_told_with_the_way_to_them(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another group_data/ in the working directory is read, and is not this one."""
    (told,) = refused(state(FLEET), monkeypatch)
    assert told == (
        f"{checkout}/group_data/all.py was edited, and pyinfra does not read it from {Path.cwd()}; run this in"
        f" {checkout}, or add --group-data {checkout}/group_data"
    )


@pytest.mark.usefixtures("inventory")
def test_defaults_that_nobody_edited_may_be_passed_over(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "group_data/all.py").write_text(page.group_data())
    assert refused(state(FLEET), monkeypatch) == []


@pytest.mark.usefixtures("inventory")
def test_in_the_checkout_its_defaults_are_read(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    assert refused(state(FLEET), monkeypatch) == []


@pytest.mark.parametrize("linked", [False, True])
def test_beside_the_inventory_they_are_read_too(checkout: Path, monkeypatch: pytest.MonkeyPatch, linked: bool) -> None:
    file = checkout / "fleet.py"
    file.touch()
    if linked:
        Path("fleet.py").symlink_to(file)
        file = Path("fleet.py")
    monkeypatch.setattr(sys, "argv", ["pyinfra", str(file), "deploy.py"])
    assert refused(state(FLEET), monkeypatch) == []


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("words", [["--group-data", "mine"], ["--group-data=mine"]])
def test_whoever_names_a_folder_of_defaults_means_it(
    inventory: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["pyinfra", *words, str(inventory), "deploy.py"])
    assert refused(state(FLEET), monkeypatch) == []
