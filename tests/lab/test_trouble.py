"""What goes wrong, as people see it: one sentence, a non-zero exit, and what worked before still works."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab import upstream
from tests.lab.common import Lab
from tests.lab.deploying import Run, deploy, start, target, write_inventory
from tests.lab.host import LabHost
from tests.lab.hub.server import Hub
from tests.lab.test_main_job import as_dev, complete, show

pytestmark = pytest.mark.timeout(1500)


def test_an_unreachable_host_is_named_and_its_neighbour_converges(
    converged: LabHost, deploy_lab: Lab, folder: Path
) -> None:
    nobody = f'    ("nobody", {{"ssh_hostname": "{deploy_lab.net}.99", "model_path": "/m.gguf"}}),\n'
    inventory = write_inventory(folder, [target("one")], nobody)
    run = deploy(deploy_lab, inventory, "-y")
    assert run.code == 1
    assert "paddock: nobody: no connection; the reason stands above" in run.last_words
    assert any(line.startswith("paddock: one: serving") for line in run.last_words)


def test_a_commit_that_does_not_compile_leaves_the_old_release_serving(
    converged: LabHost, deploy_lab: Lab, folder: Path
) -> None:
    pid, before = show(converged, "MainPID"), as_dev(converged, "ls ~/.local/share/paddock/releases")
    inventory = write_inventory(folder, [target("one", llama_ref="broken")])
    run = deploy(deploy_lab, inventory, "-y", seconds=900)
    assert run.code == 1
    assert "this commit does not compile" in run.last_words[-1]
    assert show(converged, "MainPID") == pid
    assert as_dev(converged, "ls -A ~/.local/share/paddock/releases") == before
    assert complete(converged)["tokens_predicted"] == 8


def test_a_commit_that_does_not_exist_is_said_so(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    inventory = write_inventory(folder, [target("one", llama_ref="0123456789" * 4)])
    run = deploy(deploy_lab, inventory, "-y")
    assert run.code == 1
    assert f"commit {'0123456789' * 4} cannot be fetched from git://" in run.last_words[-1]
    assert "not our ref" in run.last_words[-1]
    assert complete(converged)["tokens_predicted"] == 8


def test_an_unknown_ref_is_refused_before_anything_runs(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    before = converged.remote_commands()
    inventory = write_inventory(folder, [target("one", llama_ref="b99999")])
    run = deploy(deploy_lab, inventory, "-y")
    assert run.code == 1
    assert "llama_ref='b99999' is neither a tag nor a branch of" in run.last_words[-1]
    assert converged.remote_commands() == before


def test_an_unknown_model_file_names_those_that_there_are(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    pid = show(converged, "MainPID")
    inventory = write_inventory(folder, [target("one", model_file="tiny-moe-Q5_K_M.gguf")])
    run = deploy(deploy_lab, inventory, "-y")
    assert run.code == 1
    assert run.last_words[-1] == (
        "paddock: one: paddock/tiny-moe at main has no file 'tiny-moe-Q5_K_M.gguf'; it has tiny-moe-Q4_K_M.gguf"
    )
    assert show(converged, "MainPID") == pid


def test_a_port_that_is_taken_is_refused_with_the_name_of_its_holder(
    converged: LabHost, deploy_lab: Lab, folder: Path
) -> None:
    pid = show(converged, "MainPID")
    steal_port(converged)
    try:
        inventory = write_inventory(folder, [target("one", port=8099)])
        run = deploy(deploy_lab, inventory, "-y")
    finally:
        as_dev(converged, "systemctl --user stop thief")
    assert run.code == 1
    assert "port=8099 is taken by python3 (pid " in run.last_words[-1]
    assert show(converged, "MainPID") == pid
    assert complete(converged)["tokens_predicted"] == 8


def test_ctrl_c_in_a_build_is_a_sentence_and_the_next_run_joins_it(
    converged: LabHost, deploy_lab: Lab, folder: Path
) -> None:
    old = show(converged, "MainPID")
    inventory = write_inventory(folder, [target("one", llama_ref="b1001")])
    process = held_in_a_build(deploy_lab, converged, inventory, "-y")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert "paddock: one: interrupted in the middle of: build llama.cpp" in err
    assert "what runs there as paddock-build goes on; the same command rejoins it" in err
    assert as_dev(converged, "systemctl --user is-active paddock-build") == "active"
    assert complete(converged)["tokens_predicted"] == 8

    run = rejoined(deploy_lab, converged, inventory, "-y")
    assert run.code == 0, run.text
    assert "joining paddock-build, which is running" in run.text
    assert show(converged, "MainPID") != old
    commit = upstream.commit_id(deploy_lab, "b1001")[:9]
    assert f"/releases/{commit}-" in converged.sh(f"readlink /proc/{show(converged, 'MainPID')}/exe").stdout
    last_good = as_dev(converged, "cat ~/.local/share/paddock/last-good.json")
    assert any(
        f"/releases/{name}/" in last_good for name in as_dev(converged, "ls ~/.local/share/paddock/releases").split()
    )


def test_a_wrong_body_from_the_hub_never_gets_the_models_name(
    converged: LabHost, hub: Hub, deploy_lab: Lab, folder: Path
) -> None:
    inventory = write_inventory(folder, [target("one", model_revision="next")])
    hub.fault("corrupt", at=10_000_000, times=None)
    try:
        run = deploy(deploy_lab, inventory, "-y")
    finally:
        hub.reset()
    assert run.code == 1
    assert "what came of tiny-moe-Q4_K_M.gguf has sha256" in run.last_words[-1]
    assert "it came twice so" in run.last_words[-1]
    assert complete(converged)["tokens_predicted"] == 8
    models = as_dev(converged, "find ~/.local/share/paddock/models -name '*.gguf'").split()
    assert len(models) == 1, models


def test_a_download_that_breaks_off_is_resumed(converged: LabHost, hub: Hub, deploy_lab: Lab, folder: Path) -> None:
    inventory = write_inventory(folder, [target("one", model_revision="next")])
    as_dev(converged, "rm -rf ~/.local/share/paddock/models/*/*/*.part")
    hub.fault("drop", at=8_000_000, times=2)  # the header of before, where it is not kept yet, is shorter
    try:
        run = deploy(deploy_lab, inventory, "-y")
        sent = sum(hub.counters()["cdn"]["bytes"].values())
    finally:
        hub.reset()
    assert run.code == 0, run.text
    header = 4 << 20  # at most, where it is not kept from the test before
    assert sent < 19_314_496 * 1.1 + 1_000_000 + header


def steal_port(host: LabHost) -> None:
    """Somebody's server on port 8099, as the user dev's unit `thief`; it listens."""
    as_dev(host, "systemd-run --user --unit=thief --collect python3 -m http.server --bind 127.0.0.1 8099")
    wait_until(host, "ss -ltn | grep -q 127.0.0.1:8099")


@contextmanager
def build_gets(host: LabHost, name: str, line: str = r"^\[") -> Iterator[None]:
    """A signal for all of the next build, once its log has such a line. The host itself sends it: with a warm compiler
    cache a build takes three seconds."""
    log = "~/.local/share/paddock/jobs/build.log"
    there = f"systemctl --user -q is-active paddock-build && grep -q '{line}' {log}"
    watch = f"until {there}; do sleep 0.05; done; systemctl --user kill --signal={name} paddock-build"
    as_dev(host, f"systemd-run --user --quiet --unit=lab-signal --collect sh -c {shlex.quote(watch)}")
    try:
        yield
    finally:
        as_dev(host, "systemctl --user stop lab-signal 2>/dev/null || true")


def held_in_a_build(lab: Lab, host: LabHost, inventory: Path, *words: str) -> subprocess.Popen[str]:
    """A run that follows a build, which is stopped so that what comes next finds it."""
    with build_gets(host, "STOP"):
        process = start(lab, inventory, *words)
        wait_until(host, "! systemctl --user -q is-active lab-signal", seconds=300, run=process)
    return process


def rejoined(lab: Lab, host: LabHost, inventory: Path, *words: str) -> Run:
    """The next run, which finds the build that is held; it goes on as soon as that run has come to it."""
    as_dev(host, "touch /tmp/before")
    process = start(lab, inventory, *words)
    wait_until(host, "test ~/.local/share/paddock/jobs/build.lock -nt /tmp/before", run=process)
    as_dev(host, "systemctl --user kill --signal=CONT paddock-build")
    out, err = process.communicate(timeout=900)
    return Run(process.returncode, out, err)


def wait_until(host: LabHost, script: str, seconds: float = 60, run: subprocess.Popen[str] | None = None) -> None:
    """Until a script of the user dev succeeds; in vain once `run` has ended."""
    end = time.monotonic() + seconds
    while host.sh(script, user="dev", check=False).returncode:
        assert run is None or run.poll() is None, run.communicate()
        assert time.monotonic() < end, f"not within {seconds} s: {script}"
        time.sleep(0.2)
