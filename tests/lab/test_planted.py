"""The probe on a real host with a planted NVIDIA driver: update, reboot, trouble; and the disks below it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from roles import observation
from roles.gpu.classify import Nvidia, classify
from roles.gpu.observe import GPU, GpuSeen
from roles.machine import CACHE, DATA, MACHINE
from roles.observation import Observation
from tests.lab import planted
from tests.lab.common import Lab
from tests.lab.host import LabHost, boot

NEW = "570.133.07"
FRAGMENTS = (GPU, MACHINE)


@pytest.fixture(scope="module")
def bare(deploy_lab: Lab) -> Iterator[LabHost]:
    host = boot("planted", lab=deploy_lab)
    yield host
    host.destroy()


@pytest.fixture
def host(bare: LabHost) -> Iterator[LabHost]:
    """With a driver that is healthy, taken away afterwards."""
    planted.healthy(bare)
    yield bare
    planted.remove(bare)


def look(host: LabHost) -> Observation:
    """The probe's program, as an ordinary user."""
    (host.root / "var/tmp/probe.py").write_text(observation.program(FRAGMENTS, None), "utf-8")
    done = host.sh("LC_ALL=C python3 -ISB - </var/tmp/probe.py", user="dev", timeout=40)
    return observation.parse(done.stdout, FRAGMENTS)


def gpu(host: LabHost) -> tuple[GpuSeen, Nvidia]:
    seen = look(host)
    return seen[GPU], classify(seen[GPU], seen[MACHINE].secure_boot)


def test_a_bare_host_has_nothing_of_nvidias(bare: LabHost) -> None:
    seen, nvidia = gpu(bare)
    assert (nvidia.state, nvidia.present, seen.cards, seen.table) == ("none", False, (), None)


def test_a_healthy_laptop_is_seen_whole(host: LabHost) -> None:
    planted.plug(host, power="suspended")
    model = "/opt/google/chrome/chrome --type=utility --utility-sub-type=on_device_model.mojom.OnDeviceModelService"
    planted.hold(host, planted.Process(1813, "G", 329, "/usr/lib/xorg/Xorg"), planted.Process(42, "C+G", 3000, model))
    seen, nvidia = gpu(host)
    assert [(card.address, card.power) for card in seen.cards] == [("0000:01:00.0", "suspended")]
    assert seen.nodes == ("nvidia0", "nvidiactl", "nvidia-uvm")
    assert (nvidia.state, nvidia.driver, nvidia.next_boot, nvidia.warnings) == ("healthy", planted.DRIVER, "", ())
    assert [(card.name, card.compute_cap, card.memory_total) for card in nvidia.gpus] == [
        ("NVIDIA GeForce RTX 3050 6GB Laptop GPU", "8.6", 6144)
    ]
    assert [(holder.pid, holder.used) for holder in nvidia.holders] == [(42, 3000), (1813, 329)]
    assert nvidia.holders[0].purpose == "on_device_model.mojom.OnDeviceModelService"


def test_an_update_breaks_the_driver_until_the_reboot(host: LabHost) -> None:
    planted.update_libraries(host, NEW)
    seen, nvidia = gpu(host)
    assert seen.table is not None
    assert (seen.table.rc, seen.loaded, set(seen.libraries.values())) == (18, planted.DRIVER, {NEW})
    assert (nvidia.state, nvidia.driver, nvidia.next_boot) == ("mismatch", planted.DRIVER, "")
    assert nvidia.why == f"the loaded NVIDIA module is {planted.DRIVER} and the driver's libraries are {NEW}"
    host.reboot()
    seen, nvidia = gpu(host)
    assert (nvidia.state, nvidia.driver, seen.libraries["libcuda.so.1"]) == ("healthy", NEW, NEW)
    planted.reboot_into(host, "595.80")
    assert gpu(host)[1].driver == "595.80"


def test_a_kernel_without_a_module_is_trouble_at_the_next_boot(host: LabHost) -> None:
    planted.kernel_on_disk(host, "99.1.0-138-generic", None)
    seen, nvidia = gpu(host)
    assert (seen.kernel_newest, nvidia.state) == ("99.1.0-138-generic", "healthy")
    assert nvidia.next_boot == "kernel 99.1.0-138-generic has no NVIDIA module: after a boot into it there is no GPU"
    planted.kernel_on_disk(host, "99.1.0-138-generic", planted.DRIVER)
    assert gpu(host)[1].next_boot == ""


def test_a_card_can_be_taken_away_and_another_be_there(host: LabHost) -> None:
    planted.unplug(host)
    seen, nvidia = gpu(host)
    assert (seen.cards, seen.nodes) == ((), ("nvidiactl", "nvidia-uvm"))
    assert (nvidia.state, nvidia.driver) == ("no devices", planted.DRIVER)
    planted.plug(host, {"name": "NVIDIA GeForce GTX 1060 6GB", "compute_cap": "6.1", "uuid": "GPU-other"})
    assert [(card.name, card.compute_cap) for card in gpu(host)[1].gpus] == [("NVIDIA GeForce GTX 1060 6GB", "6.1")]


def test_a_card_that_does_not_answer_costs_ten_seconds(host: LabHost) -> None:
    planted.answer(host, 0, delay=300)
    begin = time.monotonic()
    seen, nvidia = gpu(host)
    assert 10 < time.monotonic() - begin < 20, "and not ten for each question"
    assert (nvidia.state, seen.xml) == ("lost", None)
    planted.answer(host, 15, "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.\n")
    assert gpu(host)[1].state == "lost"
    planted.answer_freely(host)
    assert gpu(host)[1].state == "healthy"


def test_a_toolkit_tells_its_version_and_its_newest_gcc(host: LabHost) -> None:
    folder = planted.toolkit(host, "12.8")
    assert "release 12.8, V12.8." in host.sh(f"{folder}/bin/nvcc --version", user="dev").stdout
    assert "#if __GNUC__ > 14" in host.sh(f"cat {folder}/include/crt/host_config.h", user="dev").stdout


def test_the_disks_that_paddock_writes_to_are_seen(bare: LabHost) -> None:
    before = look(bare)[MACHINE].places
    assert (before[DATA].noexec, before[DATA].read_only) == (False, False)
    folder = DATA.replace("~", "/home/dev")
    mount = f"mount -t tmpfs -o size=8m,nr_inodes=100,noexec,uid=1000 tmpfs {folder}"
    bare.sh(f"mkdir -p {folder}; {mount}")
    places = look(bare)[MACHINE].places
    bare.sh(f"umount {folder}; rmdir {folder}")
    assert (places[DATA].type, places[DATA].noexec, places[DATA].free) == ("tmpfs", True, 8 << 20)
    assert 0 < (places[DATA].inodes_free or 0) < 100
    assert places[CACHE].type == before[CACHE].type
