"""One host's trouble is its own: in each phase of a run and in each of pyinfra's modes its neighbour converges."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.lab.common import Lab
from tests.lab.deploying import Run, Target, deploy, start, target, write_inventory
from tests.lab.host import LabHost, boot
from tests.lab.test_main_job import as_dev
from tests.lab.test_trouble import steal_port, wait_until

pytestmark = pytest.mark.timeout(1500)

# The phase, what is wrong with the host `two` then, and how its last line begins.
PHASES: dict[str, tuple[dict[str, Any], str]] = {
    "connect": ({}, "no connection"),
    "pins": ({"model_file": "no-such.gguf"}, "paddock/tiny-moe at main has no file"),
    "preflight": ({"port": 8099}, "port=8099 is taken by python3"),
    "execute": ({"llama_repo": "git://127.0.0.1:9/none", "llama_ref": "e" * 40}, "build llama.cpp eeeeeeeee: commit"),
}
MODES = {"-y": ["-y"], "confirm": [], "--dry": ["--dry"], "-y --json": ["-y", "--json"], "--json": ["--json"]}


@pytest.fixture(scope="module")
def two(converged_image: Path, deploy_lab: Lab) -> LabHost:
    host = boot("two", converged_image, lab=deploy_lab)
    steal_port(host)
    return host


@pytest.fixture(scope="module")
def settled(first: Run, deploy_lab: Lab, folder: Path) -> None:
    """Whatever other tests left on `one`: it is as its inventory wants it."""
    assert deploy(deploy_lab, write_inventory(folder, [target("one")]), "-y").code == 0


def run(lab: Lab, inventory: Path, mode: str) -> Run:
    if mode in ("confirm", "--dry"):  # pyinfra asks, also in a dry run where a host cannot be reached
        process = start(lab, inventory, *MODES[mode], stdin=subprocess.PIPE)
        out, err = process.communicate("\n" * 9, timeout=300)
        return Run(process.returncode, out, err)
    return deploy(lab, inventory, *MODES[mode])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("phase", PHASES)
def test_a_host_that_fails_leaves_its_neighbour_converged(
    phase: str, mode: str, settled: None, two: LabHost, deploy_lab: Lab, folder: Path
) -> None:
    changes, sentence = PHASES[phase]
    hosts: list[Target] = [target("one")]
    extra = ""
    if phase == "connect":
        extra = f'    ("two", {{"ssh_hostname": "{deploy_lab.net}.99", "model_path": "/m.gguf"}}),\n'
    else:
        hosts.append(target("two", **changes))
    result = run(deploy_lab, write_inventory(folder, hosts, extra), mode)

    assert "Traceback" not in result.text
    words = result.last_words
    acts = mode in ("-y", "confirm", "-y --json")
    if phase != "execute" or acts:
        assert result.code == 1, result.text
        assert any(line.startswith(f"paddock: two: {sentence}") for line in words), words
    assert "paddock: one: nothing: driver, card, release, model and settings are as the last deploy left them" in words
    if acts:
        assert any(line.startswith("paddock: one: serving tiny-moe") for line in words), words
    if "--json" in mode:
        names = {host for operation in json.loads(result.out)["plan"] for host in operation["hosts_with_change"]}
        assert "one" not in names


def test_the_second_of_two_runs_says_who_has_the_host_and_since_when(
    converged: LabHost, deploy_lab: Lab, folder: Path, tmp_path: Path
) -> None:
    slow = write_inventory(
        tmp_path, [target("one", cache_ram_mib=64, benchmark_depths=[0, 1024, 2048, 3000], benchmark_tokens=900)]
    )
    first = start(deploy_lab, slow, "-y")
    wait_until(converged, "test -e ~/.local/share/paddock/run.lock", run=first)
    second = deploy(deploy_lab, write_inventory(folder, [target("one", cache_ram_mib=32)]), "-y")
    out, err = first.communicate(timeout=600)
    assert first.returncode == 0, out + err
    assert second.code == 1
    assert "another run changes this host: root@" in second.last_words[-1]
    assert " since 20" in second.last_words[-1]
    as_dev(converged, "test ! -e ~/.local/share/paddock/run.lock")


def test_a_run_that_was_killed_holds_nobody_up(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    inventory = write_inventory(folder, [target("one", cache_ram_mib=96, benchmark_depths=[])])
    killed = start(deploy_lab, inventory, "-y")
    wait_until(converged, "test -e ~/.local/share/paddock/run.lock", run=killed)
    killed.kill()
    killed.communicate(timeout=30)
    again = deploy(deploy_lab, inventory, "-y")
    assert again.code == 0, again.text
