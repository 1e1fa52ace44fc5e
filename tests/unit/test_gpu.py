"""What is made of an NVIDIA driver's words, over transcripts: tests/unit/nvidia, each with its source."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from roles.gpu.classify import CODES, Gpu, Holder, Nvidia, State, classify
from roles.gpu.observe import GpuSeen, Tool
from roles.gpu.parse import loaded_version

FILES = sorted((Path(__file__).parent / "nvidia").glob("*.yaml"))
TRANSCRIPTS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in FILES}


def seen(name: str, **changes: Any) -> GpuSeen:
    return GpuSeen.model_validate({**TRANSCRIPTS[name]["seen"], **changes})


# transcript: the state, and what its sentence must say
STATES: dict[str, tuple[State, str]] = {
    "laptop": ("healthy", ""),
    "chrome_with_model": ("healthy", ""),
    "chrome_without_model": ("healthy", ""),
    "two_gpus": ("healthy", ""),
    "suspended": ("healthy", ""),
    "not_available": ("healthy", ""),
    "not_supported": ("healthy", ""),
    "comma_in_name": ("healthy", ""),
    "warning_first": ("healthy", ""),
    "uvm_missing": ("healthy", ""),
    "next_boot_without": ("healthy", ""),
    "next_boot_other": ("healthy", ""),
    "wsl2": ("healthy", ""),
    "none": ("none", ""),
    "mismatch": ("mismatch", "module is 580.173.02 and the driver's libraries are 580.178.04"),
    "mismatch_595": ("mismatch", "module is 595.80 and the driver's libraries are 595.84"),
    "mismatch_unnamed": ("mismatch", "are of different versions"),
    "mismatch_cuda_alone": ("mismatch", "module is 570.124.06 and CUDA's library, libcuda.so.1, is 580.65.06"),
    "not_loaded": ("not loaded", "kernel module is not loaded"),
    "not_loaded_no_module": ("not loaded", "kernel 5.15.0-138-generic has no NVIDIA module; `dkms status`"),
    "nouveau": ("not loaded", "nouveau drives the card"),
    "nouveau_with_driver": ("not loaded", "nouveau drives the card"),
    "card_without_driver": ("not loaded", "an NVIDIA card and no driver; install"),
    "wsl2_no_driver": ("not loaded", "driver of Windows does not answer"),
    "no_device": ("no devices", "finds no GPU that works"),
    "switched_off": ("no devices", "no NVIDIA card is on the bus"),
    "lost": ("lost", "fallen off the bus"),
    "lost_hangs": ("lost", "nvidia-smi hangs"),
    "lost_one_of_two": ("unknown", "ended with 255: Unable to determine the device handle for GPU 0000:0B:00.0"),
    "lost_while_asked": ("unknown", "no GPU that can be read: [GPU is lost]"),
    "mig": ("mig", "NVIDIA A100-SXM4-40GB is split by MIG"),
    "old_driver": ("unknown", "needs a driver newer than 470"),
    "no_tool": ("unknown", "module 550.90.07 is loaded, and nvidia-smi is not installed"),
    "wsl2_blocked": ("unknown", "ended with 255: Failed to initialize NVML: GPU access blocked"),
}
DRIVERS = {
    "laptop": "575.51.02",
    "wsl2": "510.06",  # told by the table alone
    "no_tool": "550.90.07",  # told by /proc alone
    "mismatch_595": "595.80",
    "not_loaded": None,
    "none": None,
}
UUID = "GPU-5f0c3b2e-6a4f-4f0e-9a51-0c1f5b7d9e11"
RTX_3050 = Gpu(0, UUID, "NVIDIA GeForce RTX 3050 6GB Laptop GPU", "8.6", 6144, 472, (1, 4), (8, 8), False, False)
RTX_2070 = Gpu(
    0, "GPU-12345678-aaaa-bbbb-cccc-0123456789ab", "NVIDIA GeForce RTX 2070", "7.5", 8192, 1, (1, 3), (8, 16), False,
    False,
)  # fmt: skip
GPUS: dict[str, tuple[Gpu, ...]] = {
    "laptop": (
        Gpu(
            0, "GPU-529b3263-c96d-b557-bc75-697f04917eda", "NVIDIA GeForce RTX 4070 Laptop GPU", "8.9", 8188, 2026,
            (2, 4), (8, 8), False, True,
        ),
    ),
    "chrome_with_model": (replace(RTX_3050, memory_used=3544, pcie_gen=(4, 4)),),
    "chrome_without_model": (RTX_3050,),
    "two_gpus": (RTX_2070, replace(RTX_2070, index=1, uuid="GPU-12345678-aaaa-bbbb-cccc-0123456789cd")),
    "comma_in_name": (replace(RTX_3050, name="NVIDIA GeForce RTX 3050, 6GB, Laptop GPU"),),
    "not_available": (
        Gpu(
            0, "GPU-e24bed87-5853-1036-cbfc-b54eac6acda1", "NVIDIA GB10", "12.1", None, None, (1, 1), (1, 1), False,
            False,
        ),
    ),
    "not_supported": (
        Gpu(
            None, "GPU-09cb2925-9d01-5ca4-810b-6cdebe86b71a", "NVIDIA GeForce GT 730", None, None, None, (None, None),
            (None, None), False, False,
        ),
    ),
    "mig": (
        Gpu(
            0, "GPU-27b94a00-ed54-5c24-b1fd-1054085de32a", "NVIDIA A100-SXM4-40GB", "8.0", 40960, 38, (4, 4), (16, 16),
            True, False,
        ),
    ),
}  # fmt: skip
XORG, CHROME = "/usr/lib/xorg/Xorg", "/opt/google/chrome/chrome"
NIX_CHROME = "/nix/store/iy92fqcbwk30f5cjr0cd9g6wljkks27a-google-chrome-139.0.7258.154/share/google/chrome/chrome"
LAPTOP = GPUS["laptop"][0].uuid
HOLDERS = {
    "laptop": (
        Holder(1802, "G", "/run/current-system/sw/bin/Hyprland", 1448, "", LAPTOP),
        Holder(40230, "G", NIX_CHROME, 130, "gpu-process", LAPTOP),
        Holder(1890, "G", "Xwayland", 23, "", LAPTOP),
        Holder(26307, "C+G", "gjs", 9, "", LAPTOP),
    ),
    "chrome_with_model": (
        Holder(6702, "C+G", CHROME, 3072, "on_device_model.mojom.OnDeviceModelService", UUID),
        Holder(1813, "G", XORG, 329, "", UUID),
        Holder(6635, "G", CHROME, 120, "gpu-process", UUID),
    ),
    "chrome_without_model": (
        Holder(1813, "G", XORG, 329, "", UUID),
        Holder(6635, "G", CHROME, 120, "gpu-process", UUID),
    ),
    "two_gpus": (Holder(4711, "C", "python train.py", None, "", "GPU-12345678-aaaa-bbbb-cccc-0123456789cd"),),
    "not_available": (
        Holder(1784176, "C", "/usr/local/lib/ollama/llama-server", 67012, "", GPUS["not_available"][0].uuid),
    ),
    "warning_first": (Holder(1676, "G", XORG, 293, "", "GPU-c7b57be0-94ff-d352-a59b-d0ee00aeed43"),),
    "wsl2": (Holder(23, "G", "/Xwayland", None, "", "GPU-b5e386b4-3e71-5837-aca5-80c5914cf07f"),),
}
NEXT_BOOT = {
    "next_boot_without": "kernel 5.15.0-138-generic has no NVIDIA module",
    "next_boot_other": "kernel 5.14.0-570.el9_6.x86_64 has the NVIDIA module 575.64 on disk and",
    "mismatch_595": "has the NVIDIA module 595.80 on disk and the driver's libraries are 595.84",
    "mismatch_cuda_alone": "module 570.124.06 on disk and the driver's libraries are 580.65.06",
}
WARNINGS = {"uvm_missing": "/dev/nvidia-uvm is missing", "warning_first": "(infoROM) is corrupt"}


def test_every_transcript_has_its_line_and_tells_where_it_is_from() -> None:
    assert TRANSCRIPTS.keys() == STATES.keys()
    for name, transcript in TRANSCRIPTS.items():
        assert transcript.keys() == {"source", "seen"}, name
        assert re.match(r"(recorded|built from documentation): ", transcript["source"]), name
        assert transcript["seen"].keys() <= GpuSeen.model_fields.keys(), name


@pytest.mark.parametrize("name", STATES)
def test_a_transcript_is_classified(name: str) -> None:
    nvidia = classify(seen(name))
    state, why = STATES[name]
    assert nvidia.state == state
    assert why in nvidia.why if why else not nvidia.why
    assert nvidia.present == (name != "none")
    assert bool(nvidia.gpus) == (state in ("healthy", "mig"))
    assert NEXT_BOOT.get(name, "") in nvidia.next_boot
    assert bool(nvidia.next_boot) == (name in NEXT_BOOT)
    assert len(nvidia.warnings) == (name in WARNINGS)
    assert WARNINGS.get(name, "") in "".join(nvidia.warnings)
    assert nvidia.holders == HOLDERS.get(name, ())
    assert "\n" not in nvidia.why + nvidia.next_boot + "".join(nvidia.warnings)


@pytest.mark.parametrize("name", GPUS)
def test_its_cards_are_read_to_the_last_value(name: str) -> None:
    assert classify(seen(name)).gpus == GPUS[name]


@pytest.mark.parametrize("name", DRIVERS)
def test_the_driver_is_that_of_the_module_that_runs(name: str) -> None:
    assert classify(seen(name)).driver == DRIVERS[name]


@pytest.mark.parametrize("text", ["", "完全に別の言葉", "No devices were found\n", "Driver/library version mismatch"])
@pytest.mark.parametrize("name", [name for name in STATES if (seen(name).table or Tool(rc=0)).rc not in (0, 14, None)])
def test_the_wording_does_not_matter(name: str, text: str) -> None:
    original = seen(name)
    assert original.table is not None
    table = Tool(rc=original.table.rc, out=text, err=text)
    assert classify(original.model_copy(update={"table": table})).state == STATES[name][0]


@pytest.mark.parametrize("code", CODES)
def test_every_exit_code_has_a_sentence(code: int) -> None:
    nvidia = classify(seen("comma_in_name", table={"rc": code, "out": "some words"}, loaded=None, wsl=code == 9))
    assert nvidia.state == CODES[code][0]
    assert nvidia.why


def test_the_power_state_is_that_before_nvidia_smi_woke_the_card() -> None:
    assert [card.power for card in seen("suspended").cards] == ["suspended"]


def test_secure_boot_is_named_where_it_can_be_the_cause() -> None:
    assert "Secure Boot" in classify(seen("not_loaded"), secure_boot=True).why
    assert "Secure Boot" not in classify(seen("not_loaded"), secure_boot=False).why
    assert "Secure Boot" not in classify(seen("not_loaded_no_module"), secure_boot=True).why, "there is none to refuse"
    assert classify(seen("laptop"), secure_boot=True) == classify(seen("laptop"))


def test_a_module_that_is_loaded_and_cannot_be_reached_is_not_called_unloaded() -> None:
    nvidia = classify(seen("no_device", table={"rc": 9}))
    assert (nvidia.state, nvidia.driver) == ("unknown", "570.144")
    assert "cannot reach it" in nvidia.why


def test_a_tool_that_cannot_be_run_does_not_hang() -> None:
    nvidia = classify(seen("laptop", table={"rc": None, "err": "[Errno 13] Permission denied: 'nvidia-smi'"}))
    assert (nvidia.state, nvidia.why) == (
        "unknown",
        "nvidia-smi cannot be run: [Errno 13] Permission denied: 'nvidia-smi'",
    )


@pytest.mark.parametrize(
    ("modules", "told"),
    [
        ({}, False),  # no modinfo
        ({"5.15.0-94-generic": None, "5.15.0-138-generic": None}, False),  # a name that was not looked for
        ({"5.15.0-138-generic": None}, True),  # the running kernel's folder is gone, as after an update on Arch
        ({"5.15.0-138-generic": "570.124.06"}, False),
    ],
)
def test_the_next_boot_is_judged_by_what_can_be_known(modules: dict[str, str | None], told: bool) -> None:
    nvidia = classify(seen("next_boot_without", modules=modules))
    assert (nvidia.state, bool(nvidia.next_boot)) == ("healthy", told)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.173.02  Tue Jun 23 08:38:17 UTC 2026", "580.173.02"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.77  Release Build  (nixbld@)", "565.77"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module  570.86.15  Release Build", "570.86.15"),
        ("NVRM version: NVIDIA UNIX aarch64 Kernel Module  595.58.03  Release Build  (dvs-builder@U22)", "595.58.03"),
        ("NVRM version: something else altogether", None),
        ("", None),
    ],
)
def test_proc_tells_the_version_where_sysfs_does_not(line: str, version: str | None) -> None:
    assert loaded_version(GpuSeen(proc_version=line)) == version
    assert loaded_version(GpuSeen(proc_version=line, loaded="570.124.06")) == "570.124.06"
    assert loaded_version(GpuSeen(proc_version=line, loaded="(unreadable)")) == version


def test_present_is_whatever_is_not_none() -> None:
    assert [Nvidia("none").present, Nvidia("not loaded").present] == [False, True]
