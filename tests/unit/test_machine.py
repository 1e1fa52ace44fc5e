"""What the probe sees of the machine below the roles: this one, and one whose files are made up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from roles import machine
from roles.machine import MACHINE, MachineSeen, look_at_machine

GIB = 1 << 30
EFI = "/sys/firmware/efi/efivars"
SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
CPU = "processor\t: {}\nmodel name\t: AMD Ryzen 5 5600H with Radeon Graphics \n"


class Files(dict[str, str]):
    """The only files that can be read."""

    def look(self, *places: str) -> MachineSeen:
        return MachineSeen.model_validate(look_at_machine({"places": places}))


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Files:
    files = Files()

    def entries(folder: str) -> list[str]:
        return sorted(Path(path).name for path in files if path.startswith(folder + "/"))

    monkeypatch.setattr(machine, "read", lambda path, most=0: files.get(path))
    monkeypatch.setattr(machine, "entries", entries)
    return files


def test_this_machine_can_be_looked_at() -> None:
    seen = MachineSeen.model_validate(look_at_machine(MACHINE.ask(None)))
    assert seen.kernel == os.uname().release
    assert seen.places.keys() == {machine.DATA, machine.CACHE, machine.MODELS}
    for place in seen.places.values():
        assert place.free > 0
        assert place.type
        assert not place.read_only


def test_a_processor_is_told_by_its_name(files: Files) -> None:
    files["/proc/cpuinfo"] = "\n".join(CPU.format(number) for number in range(12))
    assert files.look().cpu == "AMD Ryzen 5 5600H with Radeon Graphics"
    files["/proc/cpuinfo"] = "processor\t: 0\nBogoMIPS\t: 48.00\n"
    assert files.look().cpu == ""


@pytest.mark.parametrize(("text", "on"), [("\x06\0\0\0\x01", True), ("\x06\0\0\0\0", False), (None, None)])
def test_secure_boot_is_a_byte_of_the_firmwares(files: Files, text: str | None, on: bool | None) -> None:
    if text is not None:
        files[f"{EFI}/{SECURE_BOOT}"] = text
    assert files.look().secure_boot is on


MOUNTS = """\
/dev/nvme0n1p2 / ext4 rw,relatime 0 0
tmpfs /tmp tmpfs rw,nosuid,nodev,noexec,size=8388608k 0 0
systemd-1 {0} autofs rw,relatime,fd=29 0 0
/dev/nvme0n1p4 {0} btrfs rw,relatime,subvol=/@home 0 0
/dev/sdb1 {0}/a\\040disk vfat ro,noexec 0 0
/dev/sdc1 {0}/a xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        ("", ("btrfs", False, False)),
        ("models/of/mine", ("btrfs", False, False)),
        ("a disk", ("vfat", True, True)),
        ("a disk/models", ("vfat", True, True)),
        ("a", ("xfs", False, False)),
        ("another", ("btrfs", False, False)),
    ],
)
def test_a_place_is_on_the_innermost_mount(files: Files, tmp_path: Path, below: str, expected: Any) -> None:
    files["/proc/self/mounts"] = MOUNTS.format(tmp_path)
    for folder in ("a disk", "a", "another"):
        (tmp_path / folder).mkdir()
    path = str(tmp_path / below)
    place = files.look(path).places[path]
    assert (place.type, place.noexec, place.read_only) == expected
    assert place.free > 0


def test_a_place_that_is_a_link_is_where_it_leads(files: Files, tmp_path: Path) -> None:
    files["/proc/self/mounts"] = MOUNTS.format(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    path = str(tmp_path / "link")
    assert files.look(path).places[path].type == "xfs"


def test_a_file_system_that_counts_no_inodes_has_no_lack_of_them(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(tmp_path)
    fields = list(real)
    fields[5] = fields[6] = fields[7] = 0
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(fields))
    assert files.look(str(tmp_path)).places[str(tmp_path)].inodes_free is None


def test_the_home_is_the_users_own(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files["/proc/self/mounts"] = MOUNTS.format(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert files.look("~/models").places["~/models"].type == "btrfs"
