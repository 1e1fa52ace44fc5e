"""What happens to a service between deploys, and what a deploy makes of it."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.lab.common import Lab, processes
from tests.lab.deploying import deploy, target, write_inventory
from tests.lab.host import LabHost
from tests.lab.hub.server import Hub
from tests.lab.test_main_job import UNIT, as_dev, complete, show

pytestmark = pytest.mark.timeout(1500)

KEY = "sk-lab-7f3a9c"


@pytest.fixture
def host(life: LabHost) -> LabHost:
    return life


@pytest.fixture
def place(life_folder: Path) -> Path:
    """The folder of this host's inventory; the host is as it wants it."""
    return life_folder


@pytest.mark.parametrize(("stop", "start"), [("stop", "start"), ("disable --now", "enable --now")])
def test_a_service_that_somebody_stopped_stays_stopped(
    stop: str, start: str, host: LabHost, deploy_lab: Lab, place: Path
) -> None:
    inventory = write_inventory(place, [target("life")])
    as_dev(host, f"systemctl --user {stop} {UNIT}")
    run = deploy(deploy_lab, inventory, "-y")
    assert run.code == 0, run.text
    assert any(f"somebody stopped {UNIT}.service, and it stays so" in line for line in run.last_words)
    assert show(host, "ActiveState") == "inactive"
    as_dev(host, f"systemctl --user {start} {UNIT}")
    complete(host)
    assert deploy(deploy_lab, inventory, "-y").code == 0
    assert show(host, "ActiveState") == "active"


def test_a_model_that_was_damaged_is_fetched_again_and_served(host: LabHost, deploy_lab: Lab, place: Path) -> None:
    pid, before = show(host, "MainPID"), complete(host)["content"]
    model = as_dev(host, "ls ~/.local/share/paddock/models/*/*/*.gguf")
    as_dev(host, f"dd if=/dev/zero of={model} bs=1M count=8 seek=4 conv=notrunc status=none")
    run = deploy(deploy_lab, write_inventory(place, [target("life")]), "-y")
    assert run.code == 0, run.text
    assert show(host, "MainPID") != pid
    assert complete(host)["content"] == before


def test_a_touched_model_is_not_fetched_again(host: LabHost, hub: Hub, deploy_lab: Lab, place: Path) -> None:
    as_dev(host, "touch ~/.local/share/paddock/models/*/*/*.gguf")
    hub.reset()
    run = deploy(deploy_lab, write_inventory(place, [target("life")]), "-y")
    assert run.code == 0, run.text
    assert sum(hub.counters()["cdn"]["bytes"].values()) == 0


def test_a_release_that_lost_a_file_is_built_again(host: LabHost, deploy_lab: Lab, place: Path) -> None:
    as_dev(host, "rm ~/.local/share/paddock/current/lib/libllama.so*")
    run = deploy(deploy_lab, write_inventory(place, [target("life")]), "-y", seconds=900)
    assert run.code == 0, run.text
    as_dev(host, f"systemctl --user restart {UNIT}")
    assert complete(host)["tokens_predicted"] == 8


def test_a_release_that_was_cut_or_mislabelled_is_built_again(host: LabHost, deploy_lab: Lab, place: Path) -> None:
    inventory = write_inventory(place, [target("life")])
    for damage in ("truncate -s 3000 lib/libllama.so.0.*", "echo '{' >stamp.json"):
        as_dev(host, f"cd ~/.local/share/paddock/current && {damage}")
        run = deploy(deploy_lab, inventory, "-y", seconds=900)
        assert run.code == 0, run.text
        assert complete(host)["tokens_predicted"] == 8


def test_a_change_that_does_not_work_gives_way_to_what_did(host: LabHost, deploy_lab: Lab, place: Path) -> None:
    on_the_cpu = target("life", server_args=["--device", "none"])
    run = deploy(deploy_lab, write_inventory(place, [on_the_cpu]), "-y")
    assert run.code == 1
    assert "llama-server answers on the CPU: no layer is on a RPC device" in run.last_words[-1]
    assert "the former service was started again and answers" in run.last_words[-1]
    assert complete(host)["tokens_predicted"] == 8
    assert "--device none" not in as_dev(host, f"cat ~/.config/systemd/user/{UNIT}.service")
    again = deploy(deploy_lab, write_inventory(place, [target("life")]), "-y")
    assert again.code == 0, again.text


def test_a_device_that_is_away_is_no_reason_to_stop_what_works(host: LabHost, deploy_lab: Lab, place: Path) -> None:
    pid = show(host, "MainPID")
    run = deploy(deploy_lab, write_inventory(place, [target("life", rpc_servers=["127.0.0.1:1"])]), "-y")
    assert run.code == 1
    assert "the RPC server 127.0.0.1:1 does not answer; nothing was changed" in run.last_words[-1]
    assert show(host, "MainPID") == pid
    again = deploy(deploy_lab, write_inventory(place, [target("life")]), "-y")
    assert again.code == 0, again.text


def test_beyond_loopback_only_who_has_the_key_is_answered(host: LabHost, deploy_lab: Lab, place: Path) -> None:
    file = host.root / "home/dev/llama.key"  # not by a command: its words would be in the journal
    file.write_text(f"# for the lab\n\n{KEY}\n")
    file.chmod(0o600)
    os.chown(file, 1000, 1000)
    open_to_all = target("life", host=host.address, api_key_file="~/llama.key")
    run = deploy(deploy_lab, write_inventory(place, [open_to_all]), "-y", "-vvv")
    assert run.code == 0, run.text
    url = f"http://{host.address}:8091/completion"
    body = json.dumps({"prompt": "Hello", "n_predict": 2}).encode()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(urllib.request.Request(url, body), timeout=30)
    with urllib.request.urlopen(
        urllib.request.Request(url, body, {"Authorization": f"Bearer {KEY}"}), timeout=30
    ) as answer:
        assert json.load(answer)["tokens_predicted"] == 2
    assert KEY not in run.text
    assert KEY not in as_dev(host, f"cat ~/.config/systemd/user/{UNIT}.service; cat ~/.local/share/paddock/*.json*")
    assert KEY not in as_dev(host, f"cat /proc/{show(host, 'MainPID')}/environ; systemctl --user show-environment")
    assert KEY not in host.sh("journalctl --no-pager").stdout
    assert not [argv for argv in processes().values() if KEY in " ".join(argv)]


def test_a_new_key_takes_the_old_ones_place(host: LabHost, deploy_lab: Lab, place: Path) -> None:
    (host.root / "home/dev/llama.key").write_text("sk-lab-another\n")
    run = deploy(
        deploy_lab, write_inventory(place, [target("life", host=host.address, api_key_file="~/llama.key")]), "-y"
    )
    assert run.code == 0, run.text
    old = urllib.request.Request(f"http://{host.address}:8091/props", headers={"Authorization": f"Bearer {KEY}"})
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(old, timeout=30)


def test_a_key_that_others_can_read_is_refused(host: LabHost, deploy_lab: Lab, place: Path) -> None:
    as_dev(host, "chmod 0644 ~/llama.key")
    run = deploy(deploy_lab, write_inventory(place, [target("life", api_key_file="~/llama.key")]), "-y")
    assert run.code == 1
    assert "can be read by others; it must be dev's own with mode 0600" in run.last_words[-1]
