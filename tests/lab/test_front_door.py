"""The other ways in: with a confirmation, on the machine itself, with pyinfra's own options."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.lab.common import Lab
from tests.lab.deploying import ROOT, deploy, start, target, write_inventory
from tests.lab.host import LabHost
from tests.lab.inventory import DATA, addresses
from tests.lab.test_main_job import as_dev, show

pytestmark = pytest.mark.timeout(1500)


def test_enter_does_what_was_shown_for_six_remote_commands(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    before, pid = converged.remote_commands(), show(converged, "MainPID")
    inventory = write_inventory(folder, [target("one", cache_ram_mib=128, benchmark_depths=[])])
    process = start(deploy_lab, inventory, stdin=subprocess.PIPE)
    out, err = process.communicate("\n", timeout=300)
    assert process.returncode == 0, out + err
    assert "--cache-ram 256 -> 128" in err
    assert "Press enter to execute" in err
    assert show(converged, "MainPID") != pid
    # A probe to plan and one to act, the claim, the restart, a look at what it left, the record and the claim's end.
    assert converged.remote_commands() - before == 6


def test_a_refused_confirmation_changes_nothing(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    pid = show(converged, "MainPID")
    process = start(deploy_lab, write_inventory(folder, [target("one", cache_ram_mib=64)]), stdin=subprocess.PIPE)
    process.communicate("no\n", timeout=120)
    assert show(converged, "MainPID") == pid


def test_diff_shows_the_unit_as_it_changes(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    inventory = write_inventory(folder, [target("one", service_memory_max="3G", benchmark_depths=[])])
    run = deploy(deploy_lab, inventory, "-y", "--diff")
    assert run.code == 0, run.text
    assert "-MemoryMax=2G" in run.err
    assert "+MemoryMax=3G" in run.err
    assert show(converged, "MemoryMax") == str(3 << 30)


def test_one_role_alone_leaves_the_others(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    inventory = write_inventory(folder, [target("one", context=2048)])
    run = deploy(deploy_lab, inventory, "--dry", "--json", "--data", "only=browser")
    plan = [operation["name"] for operation in json.loads(run.out)["plan"]]
    assert plan == [
        "Check the host",
        "Browser | Keep the browser's local AI model away",
        "Browser | Free what the model left",
        "Remember and sum up",
    ]


def test_the_machine_itself_is_a_host_like_any_other(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    """`@local`, run by the user on the lab host: it finds what was deployed over SSH and has nothing to do."""
    assert deploy(deploy_lab, folder / "inventory.py", "-y").code == 0
    place = converged.root / "opt" / "paddock"
    for name in ("deploy.py", "roles", "templates", "group_data"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else copy)(source, place / name)
    shutil.copytree(sysconfig.get_path("purelib"), place / "site-packages", symlinks=True)
    data = {**DATA, **addresses(deploy_lab)}
    (place / "here.py").write_text(f"here = [('@local', {data!r})]\n")
    shutil.copy(folder / "inventory.lock.yml", place / "here.lock.yml")
    program = "cd /opt/paddock && PYTHONPATH=site-packages PYINFRA_PROGRESS=off python3 -m pyinfra -y here.py deploy.py"
    done = converged.sh(f"{program} 2>&1", user="dev", timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    assert "paddock: @local: serving" in done.stdout
    assert "Success" not in done.stdout.split("--> Results")[0], done.stdout
    assert as_dev(converged, "ls -d ~/.local/share/paddock/releases/*").count("\n") <= 1


def copy(source: Path, target_: Path) -> None:
    target_.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target_)
