"""A removal gives the host back as it was; and where the controller is killed, the same command comes to the end.

PADDOCK_SOAK=1 kills at 50 moments, and PADDOCK_SEED chooses others.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator

import pytest

from tests.lab.common import Lab
from tests.lab.deploying import Run, deploy, start
from tests.lab.host import LabHost, boot
from tests.lab.hub.server import Hub
from tests.lab.taken_back import Campaign, changed, state

SOAK = os.environ.get("PADDOCK_SOAK") == "1"
MOMENTS = 50 if SOAK else 8
SEED = int(os.environ.get("PADDOCK_SEED", "7"))

pytestmark = pytest.mark.timeout(MOMENTS * 240)


@pytest.fixture(scope="module")
def bare(deploy_lab: Lab, first: Run, hub: Hub) -> Iterator[LabHost]:
    """`first`: the compiler's cache is warm by then."""
    host = boot("gone", lab=deploy_lab)
    yield host
    host.destroy()


@pytest.fixture(scope="module")
def campaign(bare: LabHost, deploy_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return Campaign(deploy_lab, bare, tmp_path_factory.mktemp("gone"), random.Random(SEED))


@pytest.mark.parametrize("scope", ["system", "user"])
def test_a_host_is_after_the_removal_as_it_was_before_the_first_deploy(
    bare: LabHost, campaign: Campaign, scope: str
) -> None:
    before, campaign.scope = state(bare), scope
    campaign.whole("first")
    assert len(changed(before, state(bare))) > 1000, "a deploy leaves its traces where the test looks"
    run = campaign.whole("removal", "--data", "remove_packages=true")
    assert run.last_words[-1] == "paddock: gone: removed"
    assert changed(before, state(bare)) == []


def test_one_more_removal_says_that_nothing_is_there(bare: LabHost, campaign: Campaign) -> None:
    commands = bare.remote_commands()
    run = deploy(campaign.lab, campaign.inventory(), "-y", to="roles.remove")
    assert (run.code, run.last_words[-1]) == (0, "paddock: gone: nothing of Paddock's is on this host")
    assert bare.remote_commands() - commands == 1


def test_ctrl_c_while_packages_go_says_that_they_go_on_and_the_same_command_finishes(
    bare: LabHost, campaign: Campaign
) -> None:
    words = ("-y", "--data", "remove_packages=true")
    right = deploy(campaign.lab, campaign.inventory(), "-y", "--data", "only=packages", seconds=900)
    assert right.code == 0, right.text
    process = start(campaign.lab, campaign.inventory(), *words, to="roles.remove")
    bare.sh("for i in $(seq 600); do pgrep -x dpkg >/dev/null && exit; sleep 0.05; done; exit 1", timeout=60)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == (
        "paddock: gone: interrupted in the middle of: take back what root made; it goes on there, and the same command"
        " waits for it and removes the rest; run it again"
    )
    again = deploy(campaign.lab, campaign.inventory(), *words, seconds=300, to="roles.remove")
    assert (again.code, again.last_words[-1]) == (0, "paddock: gone: removed"), again.text
    assert bare.sh("command -v cmake || true").stdout == ""


def test_a_run_that_lost_its_controller_anywhere_converges_when_it_is_run_again(campaign: Campaign) -> None:
    try:
        for at in range(MOMENTS):
            kind = ("first", "update", "update", "removal")[at % 4]
            while not campaign.killed(kind):
                if kind != "update":  # once more from where it began
                    campaign.whole("removal" if kind == "first" else "first")
    finally:
        print(f"\nseed {SEED}, {len(campaign.outcomes)} moments:", *campaign.outcomes, sep="\n  ")
