"""Who may do what: a fish login shell, sudo that wants a password, no sudo at all."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.lab.common import PAT_PASSWORD, Lab, processes
from tests.lab.deploying import Run, deploy, target, write_inventory
from tests.lab.host import LabHost, boot
from tests.lab.hub.server import Hub
from tests.lab.test_main_job import complete

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(scope="module")
def fishy(deploy_lab: Lab, hub: Hub) -> LabHost:
    return boot("fishy", lab=deploy_lab)


@pytest.fixture(scope="module")
def strict(deploy_lab: Lab, hub: Hub) -> LabHost:
    return boot("strict", lab=deploy_lab)


class Watch(threading.Thread):
    """Samples the command lines and environments of all processes, the hosts' included, for a secret."""

    def __init__(self, secret: str) -> None:
        super().__init__(daemon=True)
        self.secret, self.over, self.found, self.samples = secret, threading.Event(), list[str](), 0

    def run(self) -> None:
        while not self.over.is_set():
            self.samples += 1
            for pid, argv in processes().items():
                words = " ".join(argv)
                if self.secret in words or self.secret in environ(pid):
                    self.found.append(words)
            time.sleep(0.02)


def environ(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


@pytest.fixture(scope="module")
def deployed(
    deploy_lab: Lab, first: Run, fishy: LabHost, strict: LabHost, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Run, Watch, Path]:
    """Both users in one run. `first`: the compiler cache is warm by then."""
    inventory = write_inventory(
        tmp_path_factory.mktemp("users"),
        [target("fishy", "fisher"), target("strict", "pat", _sudo_password=PAT_PASSWORD)],
    )
    # The password is in the inventory file alone, and no process gets that as an argument.
    watch = Watch(PAT_PASSWORD)
    watch.start()
    run = deploy(deploy_lab, inventory, "-y", "-vvv", seconds=1200)
    watch.over.set()
    watch.join()
    return run, watch, inventory


def test_a_login_shell_that_mangles_quoting_makes_no_difference(
    deployed: tuple[Run, Watch, Path], fishy: LabHost
) -> None:
    assert any(line.startswith("paddock: fishy: serving") for line in deployed[0].last_words), deployed[0].text
    assert complete(fishy, "fisher")["tokens_predicted"] == 8


def test_sudo_with_a_password_does_the_whole_job(deployed: tuple[Run, Watch, Path], strict: LabHost) -> None:
    assert any(line.startswith("paddock: strict: serving") for line in deployed[0].last_words), deployed[0].text
    assert complete(strict, "pat")["tokens_predicted"] == 8
    assert strict.sh("ls /var/lib/systemd/linger").stdout.split() == ["pat"]


def test_the_sudo_password_is_in_no_process_and_in_no_output(deployed: tuple[Run, Watch, Path]) -> None:
    run, watch, _ = deployed
    assert watch.samples > 500
    assert watch.found == []
    assert PAT_PASSWORD not in run.text


def test_a_converged_host_with_a_sudo_password_costs_at_most_three_commands(
    deployed: tuple[Run, Watch, Path], deploy_lab: Lab, strict: LabHost
) -> None:
    before = strict.remote_commands()
    run = deploy(deploy_lab, deployed[2], "-y")
    assert run.code == 0, run.text
    assert strict.remote_commands() - before <= 3


def test_a_wrong_sudo_password_is_one_sentence_and_nothing_is_changed(
    deploy_lab: Lab, hub: Hub, tmp_path: Path
) -> None:
    host = boot("wrong", lab=deploy_lab)
    inventory = write_inventory(tmp_path, [target("wrong", "pat", _sudo_password="not it")])
    run = deploy(deploy_lab, inventory, "-y")
    assert run.code == 1
    assert run.last_words[-1].startswith("paddock: wrong: install packages: root is needed and sudo refused it: sudo: ")
    assert host.sh("command -v cmake", check=False).returncode != 0
    host.destroy()


def test_sudo_that_wants_a_password_nobody_gave_says_how_to_give_it(deploy_lab: Lab, hub: Hub, tmp_path: Path) -> None:
    host = boot("silent", lab=deploy_lab)
    run = deploy(deploy_lab, write_inventory(tmp_path, [target("silent", "pat")]), "-y")
    assert run.code == 1
    assert "packages git cmake ninja-build g++ curl are missing: root is needed" in run.last_words[-1]
    assert "--same-sudo-password" in run.last_words[-1]
    host.destroy()


def test_a_user_without_sudo_gets_everything_else_and_hears_what_was_left_out(
    deployed: tuple[Run, Watch, Path], deploy_lab: Lab, fishy: LabHost, tmp_path: Path
) -> None:
    fishy.sh("rm -r /etc/opt/chrome")
    # A session of theirs stays open, as somebody's at the machine would: nobody else may let them linger.
    fishy.sh("systemctl start user@1003.service")
    target_ = target("fishy", "guest", backend="cpu", rpc_servers=[], n_cpu_moe=None, port=8092)
    run = deploy(deploy_lab, write_inventory(tmp_path, [target_]), "-y", seconds=900)
    assert run.code == 0, run.text
    left_out = "\n".join(run.last_words)
    assert (
        "guest does not linger, so the service stops at logout and does not start at boot: root is needed" in left_out
    )
    assert "the policy against the local AI model of chrome is not set: root is needed" in left_out
    assert complete(fishy, "guest", 8092)["tokens_predicted"] == 8
