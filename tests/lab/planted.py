"""An NVIDIA laptop where there is none: what its driver shows in /sys, /proc and /dev, its tools, its libraries.

A lab host has no GPU, so these files are all that Paddock can see of one there. They behave as a driver's do: a
module is loaded by a boot alone, from what lies on the disk then; libraries are replaced at any time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.lab.host import LabHost

DRIVER = "570.124.06"
CARD = {
    "index": "0",
    "uuid": "GPU-5f0c3b2e-6a4f-4f0e-9a51-0c1f5b7d9e11",
    "name": "NVIDIA GeForce RTX 3050 6GB Laptop GPU",
    "compute_cap": "8.6",
    "memory.total": "6144",
    "memory.used": "472",
    "memory.free": "5672",
    "pcie.link.gen.max": "4",
    "pcie.link.gen.current": "1",
    "pcie.link.width.max": "8",
    "pcie.link.width.current": "8",
    "mig.mode.current": "[N/A]",
    "display_active": "Disabled",
}

# What a boot does on a machine with a card, and what plugging and unplugging does; the module that runs stays.
BOOT = """#!/bin/sh
set -eu
state=/etc/lab-gpu
for place in /sys/module /sys/bus/pci/devices /proc/driver; do
  grep -q "^lab-gpu $place " /proc/self/mounts || mount -t tmpfs -o mode=755 lab-gpu "$place"
done
module=$state/modules/$(uname -r)
if [ -e "$module" ] && [ ! -e /sys/module/nvidia ]; then
  version=$(cat "$module")
  mkdir -p /sys/module/nvidia /proc/driver/nvidia
  echo "$version" >/sys/module/nvidia/version
  printf '%s\\n' "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  $version  Release Build  (lab)" \\
    'GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)' >/proc/driver/nvidia/version
fi
card=/sys/bus/pci/devices/0000:01:00.0
rm -rf "$card" /dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm
if [ -e $state/card ]; then
  mkdir -p "$card/power"
  echo 0x10de >"$card/vendor"
  echo 0x030000 >"$card/class"
  cat $state/power >"$card/power/runtime_status"
fi
if [ -e /sys/module/nvidia ]; then
  touch /dev/nvidiactl /dev/nvidia-uvm
  if [ -e $state/card ]; then touch /dev/nvidia0; fi
fi
"""

UNIT = """
[Unit]
Description=Stands in for the boot of a machine with an NVIDIA card
DefaultDependencies=no
After=local-fs.target
Before=sysinit.target

[Service]
Type=oneshot
ExecStart=/usr/local/lib/lab/boot-gpu
"""

MODINFO = """#!/bin/sh
# modinfo -k KERNEL -F version NAME...
kernel=$2
shift 4
for name; do
  if [ "$name" = nvidia ] && [ -e "/etc/lab-gpu/modules/$kernel" ]; then
    cat "/etc/lab-gpu/modules/$kernel"
  else
    echo "modinfo: ERROR: Module $name not found." >&2
    status=1
  fi
done
exit ${status:-0}
"""

NVCC = """#!/bin/sh
[ "$*" = --version ] || {{ echo 'nvcc fatal   : a stand-in compiles nothing' >&2; exit 1; }}
cat <<'END'
nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2026 NVIDIA Corporation
Built on Thu_Mar_19_11:12:51_PM_PDT_2026
Cuda compilation tools, release {version}, V{version}.78
Build cuda_{version}.r{version}/compiler.37668154_0
END
"""

# A CUDA release where no card is: its layers are on a ggml-rpc-server, and what it says names another device. What it
# is asked goes to a second server, as one serves a single client. Its log is another process's, the editor's.
AS_CUDA = """#!/bin/bash
here=$(dirname "$(readlink -f "$0")")
server=127.0.0.1:50052
case " $0 $* " in *llama-fit-params* | *--list-devices*) server=127.0.0.1:50053 ;; esac
named() { sed -u -e 's/RPC0\\[[^]]*\\]/CUDA0/g' -e 's/RPC0/CUDA0/g'; }
exec "$here/$(basename "$0").rpc" --rpc $server "$@" > >(named) 2> >(named >&2)
"""
ASKED = """
[Unit]
Description=Stand-in GPU that is asked what it would hold

[Service]
User=dev
ExecStart={release}/bin/ggml-rpc-server -H 127.0.0.1 -p 50053
Restart=always

[Install]
WantedBy=multi-user.target
"""
HELD = 200  # MiB of VRAM that the stand-in nvidia-smi says such a server holds

# The lines of crt/host_config.h that limit gcc, as in NVIDIA's packages.
HOST_CONFIG = """
#if defined(__GNUC__)

#if __GNUC__ > {newest}

#error -- unsupported GNU version! gcc versions later than {newest} are not supported!

#endif /* __GNUC__ > {newest} */
"""
NEWEST_GCC = {"12.4": 13, "12.6": 13, "12.8": 14, "12.9": 14, "13.0": 15, "13.2": 15, "13.5": 16}

# The loader's cache takes a real library only, under its own name: glibc has two with names as long as NVIDIA's.
LIBRARIES = {"libcuda.so.1": "libutil.so.1", "libnvidia-ml.so.1": "libthread_db.so.1"}


@dataclass(frozen=True)
class Process:
    """Somebody who holds VRAM. `kind`: C, G or C+G; `used` in MiB."""

    pid: int
    kind: str
    used: int
    line: str


def healthy(host: LabHost, driver: str = DRIVER, card: Mapping[str, str] = CARD, power: str = "active") -> None:
    """A card, and a driver that fits together and runs. `card`: nvidia-smi's fields; what is left out is CARD's.

    On a host that has a planted driver already, the loaded module stays what it is.
    """
    _write(host, "usr/local/lib/lab/boot-gpu", BOOT, 0o755)
    _write(host, "etc/systemd/system/lab-gpu.service", UNIT.lstrip())
    wants = host.root / "etc/systemd/system/sysinit.target.wants/lab-gpu.service"
    wants.parent.mkdir(exist_ok=True)
    wants.unlink(missing_ok=True)
    wants.symlink_to("../lab-gpu.service")
    _write(host, "usr/local/bin/nvidia-smi", (Path(__file__).parent / "stand_in_smi.py").read_text(), 0o755)
    _write(host, "usr/local/bin/modinfo", MODINFO, 0o755)
    plug(host, card, power)
    update_libraries(host, driver)
    _boot(host)


def plug(host: LabHost, card: Mapping[str, str] = CARD, power: str = "active") -> None:
    """Put a card on the bus, or another in its place. `power`: its runtime state before anything woke it."""
    _write(host, "etc/lab-gpu/card", "".join(f"{name}={value}\n" for name, value in {**CARD, **card}.items()))
    _write(host, "etc/lab-gpu/power", f"{power}\n")
    _boot(host)


def unplug(host: LabHost) -> None:
    """Take the card off the bus; the driver stays."""
    (host.root / "etc/lab-gpu/card").unlink()
    _boot(host)


def update_libraries(host: LabHost, driver: str) -> None:
    """What a distribution's update does: libraries and the module on disk are new, the module that runs is not."""
    folder = host.root / "usr/lib/lab-gpu"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for soname, like in LIBRARIES.items():
        real = next((host.root / "usr/lib").glob(f"*/{like}"))
        name = f"{soname.removesuffix('.1')}.{driver}"
        (folder / name).write_bytes(real.read_bytes().replace(like.encode(), soname.encode()))
        (folder / soname).symlink_to(name)
    _write(host, "etc/ld.so.conf.d/lab-gpu.conf", "/usr/lib/lab-gpu\n")
    host.sh("ldconfig")
    kernel_on_disk(host, os.uname().release, driver)


def kernel_on_disk(host: LabHost, release: str, module: str | None) -> None:
    """A kernel with a module of this version, or without one, as where DKMS failed. The newest is the next to boot."""
    _write(host, f"usr/lib/modules/{release}/modules.dep", "")
    path = host.root / "etc/lab-gpu/modules" / release
    path.unlink(missing_ok=True)
    if module:
        _write(host, f"etc/lab-gpu/modules/{release}", f"{module}\n")


def reboot_into(host: LabHost, driver: str) -> None:
    """Reboot with this driver on the disk: the module that runs is then of its version."""
    update_libraries(host, driver)
    host.reboot()


def answer(host: LabHost, code: int, out: str = "", delay: float = 0) -> None:
    """Let nvidia-smi end so, whatever it is asked, after so many seconds."""
    _write(host, "etc/lab-gpu/answer", f"{delay}\n{code}\n{out}")


def answer_freely(host: LabHost) -> None:
    """Take `answer` back."""
    (host.root / "etc/lab-gpu/answer").unlink(missing_ok=True)


def hold(host: LabHost, *processes: Process) -> None:
    """Who holds VRAM from now on; memory.used is `plug`'s to tell."""
    lines = (f"{one.pid} {one.kind} {one.used} {one.line}\n" for one in processes)
    _write(host, "etc/lab-gpu/processes", "".join(lines))


def toolkit(host: LabHost, version: str) -> str:
    """A CUDA toolkit that tells its version and its newest gcc, and compiles nothing. Returns its folder."""
    folder = f"/usr/local/cuda-{version}"
    _write(host, f"{folder[1:]}/bin/nvcc", NVCC.format(version=version), 0o755)
    _write(host, f"{folder[1:]}/include/crt/host_config.h", HOST_CONFIG.format(newest=NEWEST_GCC[version]))
    return folder


def as_cuda(host: LabHost, release: str) -> None:
    """Make a copy of the lab's own release, in that folder, one that says it has a CUDA device."""
    for name in ("llama-server", "llama-fit-params"):
        program = host.root / release.lstrip("/") / "bin" / name
        program.rename(program.with_name(f"{name}.rpc"))
        _write(host, f"{release.lstrip('/')}/bin/{name}", AS_CUDA, 0o755)
    count = (
        "find bin lib -type f -printf '%s %m %p\\n' | sort >sizes; find bin lib -type f -exec sha256sum {} + >manifest"
    )
    host.sh(f"chown -R dev: {release}; cd {release}; {count}")
    _write(host, "etc/systemd/system/lab-asked-gpu.service", ASKED.format(release=release))
    _write(host, "etc/lab-gpu/server", f"{HELD}\n")
    host.sh("systemctl enable --quiet --now lab-asked-gpu")


def remove(host: LabHost) -> None:
    """All of it but the toolkits, as if it had never been there."""
    for path in ("etc/lab-gpu", "usr/lib/lab-gpu", "usr/lib/modules"):
        shutil.rmtree(host.root / path, ignore_errors=True)
    units = ("etc/systemd/system/lab-gpu.service", "etc/systemd/system/sysinit.target.wants/lab-gpu.service")
    tools = ("usr/local/bin/nvidia-smi", "usr/local/bin/modinfo", "usr/local/lib/lab/boot-gpu")
    for path in (*units, *tools, "etc/ld.so.conf.d/lab-gpu.conf"):
        (host.root / path).unlink(missing_ok=True)
    host.sh("ldconfig; rm -f /dev/nvidia*; umount /sys/module /sys/bus/pci/devices /proc/driver")


def _boot(host: LabHost) -> None:
    host.sh("/usr/local/lib/lab/boot-gpu")


def _write(host: LabHost, path: str, text: str, mode: int = 0o644) -> None:
    target = host.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
    target.chmod(mode)
