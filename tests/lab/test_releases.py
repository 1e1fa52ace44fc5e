"""Releases of llama.cpp on a real host: bad commits never serve, killed builds go on, nothing is built twice."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.lab import upstream
from tests.lab.accounting import accounted
from tests.lab.common import Lab
from tests.lab.deploying import deploy, target, write_inventory
from tests.lab.host import LabHost
from tests.lab.hub.page import TITLE
from tests.lab.test_main_job import as_dev, complete, show
from tests.lab.test_trouble import build_gets, held_in_a_build, rejoined

pytestmark = pytest.mark.timeout(1500)

PATCH = (Path(__file__).parent / "log_line.patch").read_text()  # one object to compile; {} is a word of the line

OLD = "0" * 9 + "-" + "0" * 8


def releases(host: LabHost) -> list[str]:
    return as_dev(host, "ls -A ~/.local/share/paddock/releases").split()


def served_from(host: LabHost) -> str:
    return host.sh(f"readlink /proc/{show(host, 'MainPID')}/exe").stdout.strip()


def test_an_unchanged_second_run_starts_no_compiler(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    left = deploy(deploy_lab, folder / "inventory.py", "-y", seconds=900)  # by another test, whatever it is
    assert left.code == 0, left.text
    with accounted(converged) as ran:
        run = deploy(deploy_lab, folder / "inventory.py", "-y")
    assert run.code == 0, run.text
    assert ran.runs["getconf"] == 1, "the probe itself ran, and was counted"
    assert ran.compilers == {}


@pytest.mark.parametrize(
    ("branch", "told"),
    [
        ("crashing", "the new llama-server does not start"),
        ("blind", "the new release sees no device over RPC"),
        ("lacking", "this release of llama.cpp has no --cache-ram; llama.cpp has it since b6700"),
    ],
)
def test_a_commit_that_is_bad_leaves_the_old_release_serving(
    converged: LabHost, deploy_lab: Lab, folder: Path, branch: str, told: str
) -> None:
    pid, program = show(converged, "MainPID"), served_from(converged)
    run = deploy(deploy_lab, write_inventory(folder, [target("one", llama_ref=branch)]), "-y", seconds=900)
    assert run.code == 1
    assert told in run.last_words[-1], run.text
    assert (show(converged, "MainPID"), served_from(converged)) == (pid, program)
    assert complete(converged)["tokens_predicted"] == 8
    assert not [name for name in releases(converged) if name.startswith(".") and branch == "lacking"]


def test_an_option_that_the_release_lacks_is_refused_before_anything_is_done(
    converged: LabHost, deploy_lab: Lab, folder: Path
) -> None:
    before = converged.remote_commands()
    run = deploy(deploy_lab, write_inventory(folder, [target("one", moe_cache_mib=400)]), "-y")
    assert run.code == 1
    assert "has no --moe-cache-mib; llama.cpp has it since b11480" in run.last_words[-1]
    assert converged.remote_commands() - before == 1


def patched(folder: Path, word: str) -> dict[str, object]:
    """A release of its own, cheap to compile: one changed line."""
    (folder / f"{word}.patch").write_text(PATCH.replace("{}", word))
    return {"llama_patches": [f"{word}.patch"]}


def test_a_controller_that_is_killed_leaves_a_build_that_the_next_run_joins(
    converged: LabHost, deploy_lab: Lab, folder: Path
) -> None:
    inventory = write_inventory(folder, [target("one", **patched(folder, "controller"))])
    process = held_in_a_build(deploy_lab, converged, inventory, "-y", "--data", "only=llama_cpp")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    run = rejoined(deploy_lab, converged, inventory, "-y", "--data", "only=llama_cpp")
    assert run.code == 0, run.text
    assert "joining paddock-build, which is running" in run.text
    assert any("the new release answers (--rpc" in line for line in build_log(converged)), "proved on the device"


def build_log(host: LabHost) -> list[str]:
    return as_dev(host, "cat ~/.local/share/paddock/jobs/build.log").splitlines()


def test_a_connection_that_is_killed_leaves_a_build_that_the_next_run_joins(
    converged: LabHost, deploy_lab: Lab, folder: Path
) -> None:
    count = "journalctl USER_UNIT=paddock-build.service -o cat --no-pager | grep -c ^Started || true"
    before = int(converged.sh(count).stdout)
    inventory = write_inventory(folder, [target("one", **patched(folder, "connection"))])
    process = held_in_a_build(deploy_lab, converged, inventory, "-y", "--data", "only=llama_cpp")
    converged.sh("pkill -KILL -u dev -x sshd")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, out + err
    assert "paddock: one: build llama.cpp f7cb80cb8: the connection was lost" in err
    run = rejoined(deploy_lab, converged, inventory, "-y", "--data", "only=llama_cpp")
    assert run.code == 0, run.text
    assert int(converged.sh(count).stdout) == before + 1, "the same build went on to its end"


def test_a_build_that_is_killed_goes_on_where_it_was(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    inventory = write_inventory(folder, [target("one", **patched(folder, "build"))])
    before = releases(converged)
    with build_gets(converged, "KILL", r"^\[[2-9][0-9]/"):
        killed = deploy(deploy_lab, inventory, "-y", "--data", "only=llama_cpp")
    assert killed.code == 1, killed.text
    assert "it was killed (signal)" in killed.err
    assert [name for name in releases(converged) if name not in before] == [], "no half release"
    run = deploy(deploy_lab, inventory, "-y", "--data", "only=llama_cpp", seconds=900)
    assert run.code == 0, run.text
    steps = [line for line in build_log(converged) if line.startswith("[")]
    assert int(steps[0].partition("/")[2].partition("]")[0]) < 210, "what was compiled before is not compiled again"


def test_a_patched_release_says_so_and_serves(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    inventory = write_inventory(folder, [target("one", **patched(folder, "controller"))])
    run = deploy(deploy_lab, inventory, "-y", seconds=900)
    assert run.code == 0, run.text
    log = converged.sh("journalctl _SYSTEMD_USER_UNIT=paddock-llama-server.service -o cat --no-pager").stdout
    assert "initializing, controller ..." in log
    assert '"build_info":"b1000-f7cb80cb8-patched"' in as_dev(converged, "curl -s http://127.0.0.1:8091/props")


def test_a_patch_that_does_not_apply_is_named(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    (folder / "bad.patch").write_text(PATCH.replace("initializing ...", "something that is not there"))
    inventory = write_inventory(folder, [target("one", llama_patches=["bad.patch"])])
    run = deploy(deploy_lab, inventory, "-y", seconds=900)
    assert run.code == 1
    assert "llama_patches: bad.patch does not apply to commit f7cb80cb8" in run.last_words[-1]
    assert complete(converged)["tokens_predicted"] == 8


def test_a_new_pin_with_its_page_stands_beside_the_old_and_the_oldest_goes(
    converged: LabHost, hub: object, deploy_lab: Lab, folder: Path
) -> None:
    as_dev(converged, f"cp -a {served_from(converged).rsplit('/bin/', 1)[0]} ~/.local/share/paddock/releases/{OLD}")
    changes = {"llama_ref": "b1001", "web_ui": "prebuilt", "keep_releases": 1}
    inventory = write_inventory(folder, [target("one", **changes)])
    dry = deploy(deploy_lab, inventory, "--dry")
    assert "build llama.cpp" in dry.err
    run = deploy(deploy_lab, inventory, "-y", seconds=900)
    assert run.code == 0, run.text
    assert f"<title>{TITLE}</title>" in as_dev(converged, "curl -s --compressed http://127.0.0.1:8091/")
    commit = upstream.commit_id(deploy_lab, "b1001")[:9]
    assert f"/releases/{commit}-" in served_from(converged)
    # What serves, what would come back, and what plays the GPU.
    texts = "cat ~/.local/share/paddock/last-good.json; readlink /proc/[0-9]*/exe; true"
    used = set(re.findall(r"/releases/([0-9a-f]{9}-[0-9a-f]{8})/", as_dev(converged, texts)))
    assert served_from(converged).split("/")[-3] in used
    assert set(releases(converged)) == used
    assert OLD not in used
    again = deploy(deploy_lab, inventory, "-y")
    assert "No changes" in again.err
    assert "Success" not in again.err.partition("--> Results")[0].split("Beginning operation run")[-1]


def test_the_commit_that_is_on_the_host_needs_no_repository(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    """The lock knows what the tag is; the source is there; the compiler cache has the rest."""
    gone = {"llama_repo": "git://198.18.54.1:1/llama.cpp", "llama_ref": upstream.commit_id(deploy_lab, "b1000")}
    run = deploy(deploy_lab, write_inventory(folder, [target("one", **gone)]), "-y", seconds=900)
    assert run.code == 0, run.text
