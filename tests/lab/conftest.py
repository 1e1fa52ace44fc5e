"""The hosts of the deploy tests, in a lab of their own: booted bare, deployed once, shared by the session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import chromium, services
from tests.lab.common import DEPLOY_LAB, Lab, the_lab
from tests.lab.deploying import Run, deploy, target, write_inventory
from tests.lab.host import LabHost, boot, down
from tests.lab.hub.__main__ import RENAMES, repositories
from tests.lab.hub.server import Hub
from tests.lab.model_lab import ROOT, Bench, as_dev

SERVED = "systemctl --user show -p MainPID --value paddock-llama-server"
ASK = """curl -sf http://127.0.0.1:8091/completion -d '{"prompt": "Hello", "n_predict": 4, "ignore_eos": true}'"""
COLD_SECONDS = 2400  # packages, a whole build of llama.cpp, a model: on two cores without any cache


@pytest.fixture(scope="session")
def deploy_lab() -> Iterator[Lab]:
    """A lab beside any other on this machine; gone afterwards, with everything that it made."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root: network namespaces and systemd-nspawn")
    with pytest.MonkeyPatch.context() as patch:
        for key, value in DEPLOY_LAB.items():
            patch.setenv(key, value)
        down()
        yield the_lab()
        down()


@pytest.fixture(scope="session")
def hub(deploy_lab: Lab, one: LabHost) -> Iterator[Hub]:
    """The lab's Hub in this process, so that a test can ask for faults. `one`: the bridge must exist first."""
    with Hub(repositories(), (deploy_lab.gateway, 8010), (deploy_lab.cdn, 8011), renames=RENAMES) as hub:
        yield hub
        assert hub.failures == []


@pytest.fixture(scope="session")
def one(deploy_lab: Lab) -> LabHost:
    """A bare host, with llama.cpp's source in reach."""
    host = boot("one", lab=deploy_lab)
    services.start_upstream(deploy_lab)
    return host


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the inventory of `one` and its lock lie, for the whole session."""
    return tmp_path_factory.mktemp("one")


@pytest.fixture(scope="session")
def first(deploy_lab: Lab, one: LabHost, hub: Hub, folder: Path) -> Run:
    """The first deploy of a bare host."""
    inventory = write_inventory(folder, [target("one")])
    return deploy(deploy_lab, inventory, "-y", seconds=COLD_SECONDS)


@pytest.fixture
def converged(first: Run, one: LabHost, folder: Path) -> LabHost:
    """The host `one`, deployed; its inventory file is in `folder`."""
    assert first.code == 0, first.text
    write_inventory(folder, [target("one")])
    return one


@pytest.fixture(scope="session")
def converged_image(first: Run, one: LabHost, deploy_lab: Lab, folder: Path) -> Path:
    """The disk of a deployed host, for more of its kind."""
    assert first.code == 0, first.text
    return one.snapshot("converged")


@pytest.fixture(scope="session")
def life(converged_image: Path, hub: Hub, deploy_lab: Lab) -> LabHost:
    """A deployed host for what happens to a service between deploys."""
    return boot("life", converged_image, lab=deploy_lab)


@pytest.fixture(scope="session")
def life_folder(tmp_path_factory: pytest.TempPathFactory, folder: Path, life: LabHost, deploy_lab: Lab) -> Path:
    """The folder of its inventory; the host is as that wants it."""
    place = tmp_path_factory.mktemp("life")
    (place / "inventory.lock.yml").write_text((folder / "inventory.lock.yml").read_text())
    run = deploy(deploy_lab, write_inventory(place, [target("life")]), "-y")
    assert run.code == 0, run.text
    return place


@pytest.fixture(scope="session")
def unbrowsed(deploy_lab: Lab) -> LabHost:
    """A host without a GPU, without llama.cpp, and at first without a browser. Root's umask is as strict as may be."""
    host = boot("browser", lab=deploy_lab)
    strict = host.root / "etc/sudoers.d/strict"
    strict.write_text("Defaults umask=0077, umask_override\n")
    strict.chmod(0o440)
    return host


@pytest.fixture(scope="session")
def with_chromium(unbrowsed: LabHost) -> LabHost:
    """The same, with Debian's Chromium and its driver."""
    chromium.install(unbrowsed, "guest")
    return unbrowsed


@pytest.fixture(scope="module")
def deployed(
    first: Run, one: LabHost, deploy_lab: Lab, hub: Hub, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """A deployed host for downloads, with an inventory and a lock of its own; other tests find no more than theirs."""
    assert first.code == 0, first.text
    yield Bench(deploy_lab, one, hub, tmp_path_factory.mktemp("model"))
    as_dev(one, f"cd {ROOT} && ls | grep -vx paddock--tiny-moe | xargs -r rm -rf")


@pytest.fixture
def bench(deployed: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """The service of before runs, and runs on as the same process through all of the test."""
    deployed.hub.reset()
    monkeypatch.setenv("HF_HOME", str(deployed.folder / "no-token"))
    pid = as_dev(deployed.host, SERVED)
    yield deployed
    deployed.hub.reset()
    assert as_dev(deployed.host, SERVED) == pid
    assert '"tokens_predicted":4' in deployed.host.sh(ASK, timeout=120).stdout
