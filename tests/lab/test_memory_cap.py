"""The unit's cap on a machine with cgroup v2: what outgrows it is killed, and nothing beside it suffers.

On a machine under emulation, since the lab's containers cap what the kernel below them caps, which may be nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from roles.service.command import UNIT
from roles.service.unit import wanted_unit
from tests.lab import vm
from tests.lab.common import the_lab
from tests.lab.deploying import deploy
from tests.unit import hosts

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a root of Debian is made with debootstrap"),
    pytest.mark.timeout(900),
]

CAP_MIB = 96
DATA = {
    **hosts.DATA,
    "backend": "cpu",
    "model_path": "/home/dev/some.gguf",
    "service_memory_max": f"{CAP_MIB}M",
    "cache_ram_mib": 0,
}
# Not how a server computes matters here, but how much it takes: whatever it gets, until somebody says it is enough.
HOG = """#!/usr/bin/python3
import os, time
held = []
while len(held) < 500 and not os.path.exists("/home/dev/enough"):
    held.append(b"x" * (1 << 20))
    time.sleep(0.05)
print("held", len(held), flush=True)
while True:
    time.sleep(60)
"""
# Somebody who works on the same machine meanwhile; the longest pause between two looks at the clock is in a file.
NEIGHBOUR = """
import os, time
last, longest = time.monotonic(), 0
while True:
    time.sleep(0.1)
    now = time.monotonic()
    longest, last = max(longest, now - last), now
    with open("/home/dev/longest.new", "w") as file:
        file.write("%.2f" % longest)
    os.replace("/home/dev/longest.new", "/home/dev/longest")  # a reader never meets it half written
"""
MOST_PAUSE = 5.0  # seconds; the emulated cores are shared with everything else on this machine


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[vm.Machine]:
    """With the unit that Paddock renders, and a server that outgrows its cap."""
    wishes = hosts.wishes(DATA)
    unit = wanted_unit(wishes, hosts.converged(wishes))
    files = {
        f".local/share/paddock/releases/{unit.release}/bin/llama-server": (0o755, HOG),
        f".config/systemd/user/{UNIT}": (0o644, unit.text),
        "neighbour.py": (0o644, NEIGHBOUR),
    }
    with vm.machine(the_lab(), tmp_path_factory.mktemp("vm"), files) as machine:
        machine.sh("systemd-run --user --quiet python3 neighbour.py", user="dev")
        machine.sh("until test -s longest; do sleep 0.2; done", user="dev")
        machine.sh(f"systemctl --user start {UNIT}", user="dev")
        yield machine


def show(machine: vm.Machine, name: str) -> str:
    return machine.sh(f"systemctl --user show --property={name} --value {UNIT}", user="dev")


def test_a_server_that_outgrows_its_cap_is_killed_and_comes_back(machine: vm.Machine) -> None:
    assert show(machine, "MemoryMax") == str(CAP_MIB << 20)
    killed = f"journalctl --user --quiet --no-pager -o cat USER_UNIT={UNIT} UNIT_RESULT=oom-kill"
    machine.sh(f"until {killed} | grep .; do sleep 0.2; done; touch enough", user="dev", timeout=120)
    active = f"systemctl --user --quiet is-active {UNIT}"
    machine.sh(f"until {active}; do sleep 0.5; done", user="dev", timeout=120)
    assert machine.sh(killed, user="dev").startswith(f"{UNIT}: Failed with result 'oom-kill'.")
    assert int(show(machine, "NRestarts")) > 0
    assert "held 500" not in machine.sh(f"journalctl --user --no-pager -o cat _SYSTEMD_USER_UNIT={UNIT}", user="dev")
    kernel = machine.sh("journalctl -k -o cat --no-pager | grep oom-kill:").splitlines()
    mine = rf"constraint=CONSTRAINT_MEMCG\S*task_memcg=/user.slice/\S*/{UNIT},task=llama-server"
    assert [line for line in kernel if not re.search(mine, line)] == []  # nobody else was killed


def test_whoever_works_beside_it_hardly_notices(machine: vm.Machine) -> None:
    look = "cat longest; echo; systemctl is-system-running; systemctl --user is-system-running"
    longest, *managers = machine.sh(look, user="dev").split()
    assert float(longest) < MOST_PAUSE
    assert managers == ["running", "running"]


def test_status_names_the_kill(machine: vm.Machine, tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.py"
    data = {**DATA, **machine.ssh_data()}
    inventory.write_text(f"machines = [('vm', {data!r})]\n", "utf-8")
    run = deploy(the_lab(), inventory, "-y", to="roles.overview.status", seconds=120)
    assert run.code == 0, run.text
    serves = " ".join(line.split("│")[2].strip() for line in run.err.splitlines() if line.count("│") == 5)
    told = r" [1-9]\d* restarts? outgrew its cap, and the kernel killed it \(oom-kill\): 20"
    assert re.search(told, serves), run.text
