"""paddock-switch on a real host: what does not pass gives way to what did, whoever dies meanwhile; and the watchdog."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roles.service.command import WATCHDOG
from tests.lab import planted
from tests.lab.common import Lab
from tests.lab.deploying import deploy, start, target, write_inventory
from tests.lab.host import LabHost
from tests.lab.prober import Prober
from tests.lab.test_main_job import UNIT, as_dev, complete, show
from tests.lab.test_trouble import wait_until

pytestmark = pytest.mark.timeout(1500)

DATA = "/home/dev/.local/share/paddock"
SWITCH = f"{DATA}/bin/paddock-switch"
BACK = "; the former service was started again and answers"
RPC = "stand-in-gpu"


@pytest.fixture(scope="module", autouse=True)
def as_wanted(life: LabHost, deploy_lab: Lab, life_folder: Path) -> None:
    """Whatever other tests have left there, as with a key or at another address."""
    run = deploy(deploy_lab, write_inventory(life_folder, [target("life")]), "-y")
    assert run.code == 0, run.text


@pytest.fixture(autouse=True)
def no_other_look(life: LabHost) -> Iterator[None]:
    """The watchdog's own timer is stopped meanwhile: every two minutes it would look, or mend, before the test does."""
    as_dev(life, f"systemctl --user stop {WATCHDOG}.timer {WATCHDOG}.service")
    yield
    as_dev(life, f"systemctl --user start {WATCHDOG}.timer")


def kept(host: LabHost, name: str) -> Any:
    return json.loads((host.root / DATA[1:] / name).read_text())


def switch(host: LabHost, stamp: str, *changes: tuple[str, str], **fields: Any) -> str:
    """What paddock-switch says of the present service with changes in its unit, under another stamp."""
    record = {**kept(host, "proved.json"), **fields}
    for old, new in (*changes, (record["stamp"], stamp)):
        assert old in record["text"]
        record["text"] = record["text"].replace(old, new)
    record["stamp"] = stamp
    (host.root / "home/dev/candidate.json").write_text(json.dumps(record))
    done = host.sh(f"{SWITCH} switch /home/dev/candidate.json", user="dev", check=False, timeout=180)
    assert done.stderr == ""
    assert (done.returncode == 0) is ("\npaddock: " not in "\n" + done.stdout), done.stdout
    return done.stdout.splitlines()[-1]


def test_an_update_costs_one_restart_and_nothing_else(life: LabHost, deploy_lab: Lab, life_folder: Path) -> None:
    with Prober(life) as prober:
        run = deploy(deploy_lab, write_inventory(life_folder, [target("life", context=5120)]), "-y")
    assert run.code == 0, run.text
    loaded = kept(life, "switch.json")["loaded"]
    print(f"update: away for {prober.outages} s; from restart to answer {loaded} s")
    assert len(prober.outages) == 1
    assert prober.outages[0] < loaded + 1.5


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (("-lv 4", "-lv 4 --gone-option"), "--gone-option is no option of this release; take it out of server_args"),
        (("-ngl 99", "-ngl 99 --device none"), "llama-server answers on the CPU: no layer is on a RPC device"),
        (("-ngl 99", "-ngl 3"), "3 of 7 layers are on the device, and 7 were planned"),
        (("tiny-moe-Q4_K_M.gguf -c", "cut.gguf -c"), "the model's file is damaged or not whole"),
        (("--port 8091", "--port 8099"), "port 8099 at 127.0.0.1 is taken"),
    ],
    ids=["a wrong option", "on the CPU", "fewer layers", "a corrupt model", "a stolen port"],
)
def test_what_does_not_pass_gives_way_to_what_did(life: LabHost, changes: tuple[str, str], sentence: str) -> None:
    as_dev(life, f"cd {DATA}/models/*/*/; head -c 5000000 tiny-moe-Q4_K_M.gguf >cut.gguf")
    as_dev(life, "systemd-run --user --unit=thief --collect python3 -m http.server --bind 127.0.0.1 8099")
    wait_until(life, "ss -ltn | grep -q 127.0.0.1:8099")
    before = kept(life, "proved.json")
    fields = {"url": "http://127.0.0.1:8099"} if "8099" in changes[1] else {}
    with Prober(life) as prober:
        told = switch(life, "feedbeef00000000", changes, **fields)
    as_dev(life, f"systemctl --user stop thief; rm {DATA}/models/*/*/cut.gguf")
    assert sentence in told
    assert told.endswith(BACK)
    print(f"rollback: away for {prober.outages} s")
    assert len(prober.outages) in (1, 2), "its own start and that of the last good, at most"
    assert kept(life, "proved.json") == before
    assert kept(life, "switch.json")["why"] == told.removeprefix("paddock: ")
    assert complete(life)["tokens_predicted"] == 8


def test_a_server_that_is_killed_comes_back_as_it_was(life: LabHost) -> None:
    pid = show(life, "MainPID")
    as_dev(life, f"systemctl --user kill --signal=KILL {UNIT}")
    complete(life)
    assert show(life, "MainPID") != pid
    assert as_dev(life, f"{SWITCH} check") == ""


def test_after_too_many_starts_the_watchdog_starts_it_once_and_proves_it(life: LabHost) -> None:
    as_dev(life, f"for i in 1 2 3 4 5 6 7; do systemctl --user restart {UNIT} || exit 0; done", seconds=120)
    assert show(life, "Result") == "start-limit-hit"
    told = as_dev(life, f"{SWITCH} watch", seconds=120)
    assert told.startswith("paddock: llama-server has failed (start-limit-hit)")
    assert told.endswith("; it was started again and answers")
    assert complete(life)["tokens_predicted"] == 8


def test_a_lost_device_is_told_and_a_start_waits_until_it_is_back(
    life: LabHost, deploy_lab: Lab, life_folder: Path
) -> None:
    as_dev(life, f"systemctl --user stop {RPC}.path {RPC}.service")
    told = as_dev(life, f"{SWITCH} watch", seconds=120)
    gone = "the RPC server 127.0.0.1:50052 does not answer"
    assert told.endswith(f"; a start would not help: {gone}")
    run = deploy(deploy_lab, write_inventory(life_folder, [target("life", context=5120)]), "--dry")
    assert run.code == 0, run.text
    assert as_dev(life, f"{SWITCH} wait-device 1 /none 127.0.0.1:50052 || true") == f"paddock: {gone}"
    as_dev(life, f"systemctl --user start {RPC}.path {RPC}.service")
    told = as_dev(life, f"{SWITCH} watch", seconds=120)
    assert told.endswith("; it was started again and answers")
    assert complete(life)["tokens_predicted"] == 8


def test_a_service_that_somebody_stopped_is_not_watched(life: LabHost) -> None:
    as_dev(life, f"systemctl --user stop {UNIT}")
    assert as_dev(life, f"{SWITCH} watch") == ""
    assert show(life, "ActiveState") == "inactive"
    as_dev(life, f"systemctl --user start {UNIT}")
    complete(life)


def test_a_driver_that_needs_a_reboot_is_neither_waited_for_nor_started_against(life: LabHost) -> None:
    planted.healthy(life)
    planted.update_libraries(life, "580.65.06")
    unfit = f"the loaded NVIDIA module is {planted.DRIVER} and the driver's libraries are 580.65.06"
    file, record = life.root / DATA[1:] / "proved.json", kept(life, "proved.json")
    try:
        began = time.monotonic()
        assert as_dev(life, f"{SWITCH} wait-device 60 /bin/true CUDA0 || true") == f"paddock: {unfit}; reboot"
        assert time.monotonic() - began < 20
        file.write_text(json.dumps({**record, "devices": ["CUDA0"]}))
        pid = show(life, "MainPID")
        told = as_dev(life, f"{SWITCH} watch")
        assert told.startswith("paddock: reboot: nvidia-smi does not answer, so whether llama-server has its device")
        assert told.endswith(unfit)
        assert show(life, "MainPID") == pid
    finally:
        file.write_text(json.dumps(record))
        planted.remove(life)
    as_dev(life, f"{SWITCH} watch")


def test_a_controller_and_its_connection_may_die_in_the_middle_of_a_switch(
    life: LabHost, deploy_lab: Lab, life_folder: Path
) -> None:
    before = kept(life, "proved.json")["stamp"]
    inventory = write_inventory(life_folder, [target("life", context=6144)])
    process = start(deploy_lab, inventory, "-y")
    wait_until(life, f"test -e {DATA}/candidate.json", run=process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    sessions = "loginctl list-sessions --no-legend | awk '$3 == \"dev\" { print $1 }'"
    # One that has just ended by itself cannot be killed.
    life.sh(f"for session in $({sessions}); do loginctl kill-session --signal=KILL $session || true; done")
    wait_until(life, f"test ! -e {DATA}/candidate.json", seconds=120)
    served = kept(life, "proved.json")
    assert served["stamp"] not in ("", before)
    assert f"PADDOCK_STAMP={served['stamp']}" in as_dev(life, f"cat ~/.config/systemd/user/{UNIT}.service")
    assert kept(life, "switch.json")["why"] == ""
    life.sh(f"rm -f {shlex.quote(DATA)}/run.lock")
    run = deploy(deploy_lab, inventory, "-y")
    assert run.code == 0, run.text
    assert kept(life, "proved.json") == served, "the rerun found nothing to switch"


def test_a_reboot_waits_for_a_device_that_comes_late_and_serves_on_it(life: LabHost) -> None:
    late = life.root / f"etc/systemd/user/{RPC}.service.d/late.conf"
    late.parent.mkdir()
    late.write_text("[Service]\nExecStartPre=/bin/sleep 6\n")
    life.reboot()
    complete(life)
    late.unlink()
    late.parent.rmdir()
    begun, started = (int(show(life, f"{name}TimestampMonotonic")) for name in ("InactiveExit", "ExecMainStart"))
    assert started - begun > 3_000_000, "microseconds between the start of the wait and that of the server"
    assert show(life, "NRestarts") == "0"
    assert as_dev(life, f"{SWITCH} check") == ""
    log = life.sh(f"journalctl --boot _SYSTEMD_USER_UNIT={UNIT}.service -o cat --no-pager").stdout
    assert "offloaded 7/7 layers to GPU" in log
    assert as_dev(life, f"systemctl --user is-active {WATCHDOG}.timer") == "active"
