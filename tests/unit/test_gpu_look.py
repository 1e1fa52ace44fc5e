"""What the probe sees of NVIDIA's driver: real tools of this machine, and stand-ins on its PATH and in its files."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from roles import observation
from roles.gpu import observe
from roles.gpu.classify import classify
from roles.gpu.observe import FIELDS, GPU, GpuSeen, look_at_gpu
from roles.machine import MACHINE
from tests.unit import local
from tests.unit.programs import assert_old_python_can_run
from tests.unit.test_gpu import GPUS, TRANSCRIPTS, UUID

ROW = TRANSCRIPTS["chrome_without_model"]["seen"]["table"]["out"]
XML = TRANSCRIPTS["chrome_without_model"]["seen"]["xml"]["out"]
RUNNING = os.uname().release
BUS = "/sys/bus/pci/devices"


class Machine:
    """A machine with the given tools and the given files; no other file can be read."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bin, self.files, self.patch = folder / "bin", dict[str, str](), monkeypatch
        self.newest = RUNNING
        monkeypatch.setattr(observe, "read", lambda path, most=0: self.files.get(path))
        monkeypatch.setattr(observe, "entries", lambda folder: sorted({
            path[len(folder) + 1 :].split("/")[0] for path in self.files if path.startswith(folder + "/")
        }))  # fmt: skip
        monkeypatch.setattr(observe, "newest_kernel", lambda: self.newest)
        real = os.path.exists
        monkeypatch.setattr(os.path, "exists", lambda path: path in self.files or real(path))

    def tool(self, name: str, text: str) -> None:
        self.patch.setenv("PATH", local.tool(self.bin, name, text), prepend=":")

    def look(self) -> GpuSeen:
        return GpuSeen.model_validate(json.loads(json.dumps(look_at_gpu(GPU.ask(None)))))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def plant_card(machine: Machine, address: str, vendor: str = "0x10de", kind: str = "0x030000") -> None:
    for name, text in (("vendor", vendor), ("class", kind), ("power/runtime_status", "suspended")):
        machine.files[f"{BUS}/{address}/{name}"] = text + "\n"


def plant_laptop(machine: Machine, folder: Path, version: str = "570.124.06") -> None:
    plant_card(machine, "0000:01:00.0")
    machine.files["/sys/module/nvidia/version"] = version + "\n"
    machine.files[f"/lib/modules/{RUNNING}/modules.dep"] = ""
    listed = ""
    for name in ("libcuda", "libnvidia-ml"):
        (folder / f"{name}.so.{version}").touch()
        (folder / f"{name}.so.1").symlink_to(f"{name}.so.{version}")
        listed += f"\t{name}.so.1 (libc6) => /usr/lib32/{name}.so.1\n"  # an older one, for games
        listed += f"\t{name}.so.1 (libc6,x86-64) => {folder}/{name}.so.1\n"
    machine.tool("ldconfig", f"cat <<'END'\n{listed}END\n")
    machine.tool("modinfo", f"echo {version}; echo 'modinfo: ERROR: Module nvidia-current not found.' >&2; exit 1\n")
    (folder / "row").write_text(ROW)
    (folder / "xml").write_text(XML.replace("<processes>", "<supported_clocks>9 MHz\n</supported_clocks><processes>"))
    query = "--query-gpu=" + ",".join(FIELDS) + " --format=csv,noheader,nounits"
    machine.tool(
        "nvidia-smi",
        f"case $* in\n'{query}') cat {folder}/row ;;\n'-q -x') cat {folder}/xml ;;\n*) exit 2 ;;\nesac\n",
    )


def test_this_machine_can_be_looked_at() -> None:
    seen = GpuSeen.model_validate(look_at_gpu(GPU.ask(None)))
    assert seen.kernel == RUNNING
    assert classify(seen).state


def test_a_laptop_is_seen_whole(machine: Machine, tmp_path: Path) -> None:
    plant_laptop(machine, tmp_path)
    plant_card(machine, "0000:00:02.0", vendor="0x8086")
    plant_card(machine, "0000:01:00.1", kind="0x040300")  # the sound that goes with the card
    seen = machine.look()
    assert [(card.address, card.power) for card in seen.cards] == [("0000:01:00.0", "suspended")]
    assert seen.libraries == {"libcuda.so.1": "570.124.06", "libnvidia-ml.so.1": "570.124.06"}
    assert seen.modules == {RUNNING: "570.124.06"}
    assert seen.xml is not None
    assert "supported_clocks" not in seen.xml.out
    nvidia = classify(seen)
    assert (nvidia.state, nvidia.driver, nvidia.next_boot) == ("healthy", "570.124.06", "")
    assert nvidia.gpus == GPUS["chrome_without_model"]
    assert [(holder.pid, holder.gpu) for holder in nvidia.holders] == [(1813, UUID), (6635, UUID)]


def test_the_newest_kernel_is_looked_at_too(machine: Machine, tmp_path: Path) -> None:
    plant_laptop(machine, tmp_path)
    machine.newest = "99.1.0-new"
    machine.files["/lib/modules/99.1.0-new/modules.dep"] = ""
    machine.tool("modinfo", f'test "$2" = {RUNNING} && echo 570.124.06\n')
    seen = machine.look()
    assert seen.modules == {RUNNING: "570.124.06", "99.1.0-new": None}
    assert "kernel 99.1.0-new has no NVIDIA module" in classify(seen).next_boot


def test_debians_name_of_the_module_is_known(machine: Machine, tmp_path: Path) -> None:
    plant_laptop(machine, tmp_path)
    machine.tool("modinfo", 'test "$6" = nvidia-current && echo 570.124.06; echo not found >&2; exit 1\n')
    assert machine.look().modules == {RUNNING: "570.124.06"}


def test_without_modinfo_or_a_kernels_folder_nothing_is_known_of_modules(machine: Machine, tmp_path: Path) -> None:
    plant_laptop(machine, tmp_path)
    del machine.files[f"/lib/modules/{RUNNING}/modules.dep"]
    seen = machine.look()
    assert seen.modules == {}
    assert classify(seen).next_boot == ""


def test_a_hanging_nvidia_smi_costs_its_time_once(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    asked.touch()
    path = local.tool(tmp_path / "bin", "nvidia-smi", f"echo once >>{asked}; exec sleep 60\n")
    hasty = replace(GPU, ask=lambda _: {**GPU.ask(None), "seconds": 0.5})
    done = subprocess.run(
        ["python3", "-ISB", "-"],
        input=observation.program((hasty,), None),
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert asked.read_text() in ("once\n", ""), "it may not even come to say so"
    seen = observation.parse(done.stdout, (GPU,))[GPU]
    assert seen.table is not None
    assert (seen.table.rc, seen.xml) == (None, None)
    assert classify(seen).state == "lost"


def test_ten_seconds_are_what_it_may_take() -> None:
    assert GPU.ask(None)["seconds"] == 10


@pytest.mark.parametrize("code", [9, 14, 18])
def test_its_exit_code_and_words_are_kept(machine: Machine, tmp_path: Path, code: int) -> None:
    plant_laptop(machine, tmp_path)
    machine.tool("nvidia-smi", f"echo some words; exit {code}\n")
    seen = machine.look()
    assert seen.table is not None
    assert (seen.table.rc, seen.table.out) == (code, "some words\n")
    assert (seen.xml is not None) == (code == 14), "a table may stand beside that warning"


def test_a_file_that_is_no_program_is_told_from_a_card_that_hangs(machine: Machine, tmp_path: Path) -> None:
    plant_laptop(machine, tmp_path)
    (machine.bin / "nvidia-smi").write_bytes(b"\x7fELF")
    nvidia = classify(machine.look())
    assert nvidia.state == "unknown"
    assert "cannot be run: [Errno 8] Exec format error" in nvidia.why


def test_a_machine_of_another_vendor_has_none(machine: Machine) -> None:
    plant_card(machine, "0000:03:00.0", vendor="0x1002")
    machine.tool("ldconfig", "exit 0\n")
    seen = machine.look()
    if seen.table is None:  # this machine has no driver of NVIDIA's itself
        assert classify(seen).state == "none"
    assert seen.cards == ()


def test_it_runs_on_old_python() -> None:
    assert_old_python_can_run(observation.program((GPU, MACHINE), None))
