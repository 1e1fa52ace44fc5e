"""A host walks through a driver update: the right verdict, the right words, and the service untouched at each step.

The card, the driver and the toolkit are planted (nothing here has a GPU, and CUDA takes an hour to compile); the
release that claims to be CUDA's is a copy of the lab's own, whose RPC device goes by the name of a card's. All else
is real.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roles import settings
from roles.llama_cpp.release import wanted_release
from roles.lock import Lock
from roles.observation import parse, program
from roles.overview import FRAGMENTS
from roles.overview.start import resolved
from tests.lab import planted
from tests.lab.common import Lab
from tests.lab.deploying import Run, deploy, target, write_inventory
from tests.lab.host import LabHost, boot
from tests.lab.inventory import entry
from tests.lab.test_main_job import as_dev, complete, show

pytestmark = pytest.mark.timeout(1500)

CUDA: dict[str, Any] = {"backend": "cuda", "rpc_servers": []}
OLD, NEW = "570.124.06", "580.119.02"


@dataclass(frozen=True)
class Laptop:
    """The host with a card, and its inventory file."""

    host: LabHost
    inventory: Path
    lab: Lab

    def run(self, *words: str) -> Run:
        return deploy(self.lab, self.inventory, *words)

    def verdict(self) -> str:
        """What a dry run says first."""
        return self.run("--dry").last_words[0].removeprefix("paddock: card: ")


@pytest.fixture(scope="module")
def laptop(converged_image: Path, deploy_lab: Lab, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    """A converged host that gets a card, a driver, a toolkit, and a release for them."""
    host = boot("card", converged_image, lab=deploy_lab)
    planted.healthy(host, OLD)
    planted.toolkit(host, "12.8")
    place = tmp_path_factory.mktemp("card")
    inventory = write_inventory(place, [target("card", **CUDA)])
    inventory.with_suffix(".lock.yml").write_text((folder / "inventory.lock.yml").read_text())
    plant_release(host, inventory)
    run = deploy(deploy_lab, inventory, "-y")
    assert run.code == 0, run.text
    return Laptop(host, inventory, deploy_lab)


def plant_release(host: LabHost, inventory: Path) -> None:
    """The lab's release under the key and stamp that a CUDA build would have here."""
    wishes = resolved(settings.of(entry(host, **CUDA)[1]), Lock(inventory.with_suffix(".lock.yml")))
    (host.root / "home/dev/probe.py").write_text(program(FRAGMENTS, wishes))
    seen = parse(as_dev(host, "python3 -ISB ~/probe.py; rm ~/probe.py"), FRAGMENTS)
    release = wanted_release(wishes, seen)
    (host.root / "home/dev/stamp.json").write_text(json.dumps(release.stamp))
    served = as_dev(host, "readlink ~/.local/share/paddock/current")
    copy = f"cp -a {served} releases/{release.key} && cp ~/stamp.json releases/{release.key}/"
    as_dev(host, f"cd ~/.local/share/paddock && {copy}")
    planted.as_cuda(host, f"/home/dev/.local/share/paddock/releases/{release.key}")


def test_a_healthy_host_needs_nothing(laptop: Laptop) -> None:
    assert laptop.verdict() == "nothing: driver, card, release, model and settings are as the last deploy left them"


def test_libraries_newer_than_the_module_ask_for_a_reboot_and_touch_nothing(laptop: Laptop) -> None:
    pid = show(laptop.host, "MainPID")
    planted.update_libraries(laptop.host, NEW)
    for words in (("--dry",), ("-y",)):
        run = laptop.run(*words)
        assert run.code == 1
        assert f"reboot: the loaded NVIDIA module is {OLD} and" in run.last_words[-1]
        assert "What runs is left alone" in run.last_words[-1]
    assert show(laptop.host, "MainPID") == pid
    assert complete(laptop.host)["tokens_predicted"] == 8


def test_after_the_reboot_the_new_driver_is_measured_and_nothing_is_rebuilt(laptop: Laptop) -> None:
    planted.reboot_into(laptop.host, NEW)
    complete(laptop.host)
    pid = show(laptop.host, "MainPID")
    assert laptop.verdict() == f"rebench: driver {OLD} -> {NEW}"
    run = laptop.run("-y")
    assert run.code == 0, run.text
    assert f"measure at 0 and 1024 tokens of context: driver {OLD} -> {NEW}" in run.err
    assert show(laptop.host, "MainPID") == pid
    assert laptop.verdict() == "nothing: driver, card, release, model and settings are as the last deploy left them"


def test_a_newer_toolkit_asks_for_a_rebuild_and_says_what_changed(laptop: Laptop) -> None:
    pid = show(laptop.host, "MainPID")
    planted.toolkit(laptop.host, "13.2")
    assert laptop.verdict().startswith("rebuild: toolkit 12.8 -> 13.2, release ")
    err = laptop.run("--dry").err
    assert "build llama.cpp" in err
    assert "toolkit 12.8 -> 13.2" in err
    assert show(laptop.host, "MainPID") == pid


def test_a_card_that_is_gone_is_refused_and_the_service_runs_on(laptop: Laptop) -> None:
    planted.unplug(laptop.host)
    run = laptop.run("-y")
    assert run.code == 1
    assert "set backend='cpu'" in run.last_words[-1]
    assert complete(laptop.host)["tokens_predicted"] == 8


def test_the_status_of_the_fleet_is_one_table_and_one_remote_command(laptop: Laptop) -> None:
    planted.plug(laptop.host)
    before = laptop.host.remote_commands()
    run = deploy(laptop.lab, laptop.inventory, "-y", to="roles.overview.status")
    assert run.code == 0, run.text
    assert laptop.host.remote_commands() - before == 1
    for word in ("card", f"driver {NEW}", "tiny-moe-Q4_K_M.gguf", "active, 0 restarts", "rebuild: toolkit"):
        assert word in run.err, run.err
