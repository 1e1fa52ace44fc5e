"""What becomes of figures on a real host: copied, judged, shown; and a release that is slower goes where it may."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from roles.benchmark.observe import HISTORY
from tests.lab import network
from tests.lab.common import Lab
from tests.lab.deploying import Run, deploy, target, write_inventory
from tests.lab.host import LabHost
from tests.lab.inventory import DATA
from tests.lab.quiet import quiet

pytestmark = pytest.mark.timeout(900)

CONTROLLER = Path("/sys/fs/cgroup/cpu")
QUOTA = 0.1  # of one processor: slower than any that is shared with other work
# Another release whose compiler has nothing to do that it had not done before.
OTHER: dict[str, Any] = {"llama_cmake_args": [*DATA["llama_cmake_args"], "CMAKE_INSTALL_MESSAGE=LAZY"]}
SLOW: dict[str, Any] = {"llama_ref": "slow"}


def history(host: LabHost) -> str:
    return (host.root / "home/dev" / HISTORY.removeprefix("~/")).read_text()


def run(lab: Lab, host: LabHost, folder: Path, to: str = "deploy.py", **changes: Any) -> Run:
    done = deploy(lab, write_inventory(folder, [target(host.name, **changes)]), "-y", to=to, seconds=600)
    assert done.code == 0, done.text
    return done


def test_the_first_deploys_figures_are_at_home_and_on_a_page(converged: LabHost, first: Run, folder: Path) -> None:
    copy = folder / "reports" / converged.name
    assert (copy / "benchmarks.jsonl").read_text() == history(converged)
    assert "paddock: the page of figures is " in first.err
    page = (folder / "reports/index.html").read_text()
    assert "measured once: there is nothing to compare with yet" in page
    assert "tiny-moe-Q4_K_M" in page


def test_the_verbs_show_what_is_there_and_change_nothing(converged: LabHost, folder: Path, deploy_lab: Lab) -> None:
    before = history(converged)
    shown = run(deploy_lab, converged, folder, "roles.benchmark.history")
    assert "first run" in shown.err
    assert "tg empty" in shown.err
    compared = run(deploy_lab, converged, folder, "roles.benchmark.compare")
    assert f"{converged.name}: measured once, so there is nothing to compare with" in compared.err
    (folder / "reports/index.html").unlink()
    run(deploy_lab, converged, folder, "roles.benchmark.report")
    assert (folder / "reports/index.html").exists()
    assert history(converged) == before


def test_a_slower_release_is_worse_and_taken_back(life: LabHost, life_folder: Path, deploy_lab: Lab) -> None:
    """It waits before each token: it is slower than the former one even where that was measured on busy cores."""
    with quiet(life):
        run(deploy_lab, life, life_folder, "roles.benchmark.full")
        worse = run(deploy_lab, life, life_folder, benchmark_on_regression="rollback", **SLOW)
    told = "\n".join(worse.last_words)
    assert re.search(": worse than before: .*tg on an empty context -", told), told
    assert "was measured slower than" in told
    rejected = json.loads((life.root / "home/dev/.local/share/paddock/rejected.json").read_text())
    assert len(rejected) == 1
    again = run(deploy_lab, life, life_folder, benchmark_on_regression="rollback", **SLOW)
    assert "stays as it was before: release" in again.text
    assert "tokens per second" not in again.text.partition("Starting operation")[2], "and is not measured again"
    write_inventory(life_folder, [target(life.name)])  # for those who come after


def users_manager(host: LabHost) -> int:
    """The pid of the user's systemd on this machine."""
    for pid in network.namespace_pids(host.lab, host.name):
        with suppress(OSError):  # it has just ended
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/lib/systemd/systemd\0--user"):
                return pid
    raise AssertionError("the user has no systemd")


@contextmanager
def throttled(host: LabHost) -> Iterator[None]:
    """All that the user's systemd starts from now on has a part of one processor: a quota as CPUQuota sets one, from
    outside, since the container's systemd has no controller for processors."""
    if not (CONTROLLER / "cpu.cfs_quota_us").exists():
        pytest.skip("no cpu controller of cgroup v1 here to set a quota with")
    group = CONTROLLER / f"{host.lab.bridge}-{host.name}"
    group.mkdir(exist_ok=True)
    (group / "cpu.cfs_quota_us").write_text(str(int(QUOTA * 100_000)))
    try:
        (group / "cgroup.procs").write_text(str(users_manager(host)))
        yield
    finally:
        while members := (group / "cgroup.procs").read_text().split():
            for member in members:
                with suppress(OSError):
                    (CONTROLLER / "cgroup.procs").write_text(member)
        group.rmdir()


def test_a_release_throttled_by_a_quota_is_called_worse(life: LabHost, life_folder: Path, deploy_lab: Lab) -> None:
    run(deploy_lab, life, life_folder, only=["llama_cpp"], **OTHER)
    with quiet(life), throttled(life):
        worse = run(deploy_lab, life, life_folder, benchmark_depths=[0], **OTHER)
    assert re.search(": worse than before: tg on an empty context -", "\n".join(worse.last_words)), worse.text
    run(deploy_lab, life, life_folder)  # for those who come after


@pytest.mark.skipif(os.environ.get("PADDOCK_SOAK") != "1", reason="minutes: four restarts, six runs; in make soak")
@pytest.mark.timeout(1800)
def test_old_and_new_are_measured_in_turns(life: LabHost, life_folder: Path, deploy_lab: Lab) -> None:
    turns = run(deploy_lab, life, life_folder, benchmark_ab=True, **OTHER)
    lines = [json.loads(line) for line in history(life).splitlines()][-4:]
    assert [line["kind"] for line in lines] == ["ab"] * 4
    assert lines[0]["stamp"] == lines[2]["stamp"] != lines[1]["stamp"] == lines[3]["stamp"]
    assert lines[0]["release"] != lines[1]["release"]
    told = "\n".join(turns.last_words)
    assert "than before: " in told or "from before: " in told
    served = life.sh("systemctl --user show -p ExecStart paddock-llama-server", user="dev").stdout
    assert lines[1]["release"] in served, "the new one serves in the end"
    run(deploy_lab, life, life_folder)
