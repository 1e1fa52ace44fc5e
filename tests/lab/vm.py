"""A virtual machine under emulation, of the same Debian as the lab's hosts: there a memory cap is really enforced.

In a container it depends on the machine below whether the kernel heeds MemoryMax; here the kernel is the test's own,
with cgroup v2 alone. It needs no KVM, and boots in one to two minutes. SSH to it is on this machine's loopback.
"""

from __future__ import annotations

import lzma
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.lab import root
from tests.lab.base import base_root
from tests.lab.common import MORTAL, Lab, LabError, locked, run

BOOT_SECONDS = 240
MEMORY = "1G"
QEMU = "qemu-system-x86_64"
TOOLS = {QEMU: "qemu-system-x86", "mkfs.ext4": "e2fsprogs", "dpkg-deb": "dpkg", "gzip": "gzip"}
# In the order of what needs what; ext4 is in the kernel itself.
MODULES = (
    *("virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "virtio_blk"),
    *("failover", "net_failover", "virtio_net"),
)
INIT = """#!/bin/busybox sh
busybox mount -t devtmpfs none /dev
busybox mount -t proc none /proc
for module in {modules}; do busybox insmod /$module.ko; done
until busybox test -b /dev/vda; do busybox sleep 0.1; done
busybox mount -t ext4 /dev/vda /root
busybox ip link set lo up
busybox ip link set eth0 up
busybox ip address add 10.0.2.15/24 dev eth0
busybox umount /proc /dev
exec busybox switch_root /root /lib/systemd/systemd
"""


@dataclass(frozen=True)
class Machine:
    """A machine that runs; `port` is its sshd on 127.0.0.1."""

    folder: Path
    port: int
    key: Path

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def ssh_data(self, user: str = "dev") -> dict[str, object]:
        """pyinfra's inventory data for it."""
        return {
            "ssh_hostname": "127.0.0.1",
            "ssh_port": self.port,
            "ssh_user": user,
            "ssh_key": str(self.key),
            "ssh_known_hosts_file": str(self.known_hosts),
            "ssh_strict_host_key_checking": "yes",
        }

    def sh(self, script: str, user: str = "root", check: bool = True, timeout: float = 60) -> str:
        """What a shell script prints there. Raises LabError where it fails or is late."""
        options = [f"UserKnownHostsFile={self.known_hosts}", "StrictHostKeyChecking=yes", "BatchMode=yes"]
        argv = ["ssh", "-q", "-i", str(self.key), "-p", str(self.port), f"{user}@127.0.0.1"]
        argv += [word for option in options for word in ("-o", option)]
        return run([*argv, "sh -s"], stdin=script, check=check, timeout=timeout).stdout.strip()


def install_tools() -> None:
    """What is missing on this machine, with apt-get."""
    missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool)})
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise LabError(f"This machine has no {', '.join(missing)} and no apt-get; install them and run this again.")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-q"], timeout=300, env=quiet)
    run(["apt-get", "install", "-q", "-y", "--no-install-recommends", *missing], timeout=900, env=quiet)


def kernel(lab: Lab, tree: Path) -> Path:
    """A folder with `vmlinuz` and `initrd`: Debian's cloud kernel, from the mirror that `tree` uses; cached."""
    final = lab.cache / f"kernel-{base_root(lab).name.removeprefix('base-')}"
    with locked(lab.cache / "kernel.lock"):
        if not final.exists():
            building = final.with_name(f"{final.name}.partial")
            shutil.rmtree(building, ignore_errors=True)
            building.mkdir()
            _fetch(tree, building)
            _initrd(building)
            building.rename(final)
            for old in lab.cache.glob("kernel-*/"):
                if old != final:
                    shutil.rmtree(old)
    return final


def _fetch(tree: Path, folder: Path) -> None:
    """Kernel and busybox, unpacked beside each other and not installed: only their files are wanted."""
    script = """set -e
    apt-get update -q
    cd /root
    kernel=$(apt-cache depends linux-image-cloud-amd64 | grep -o 'linux-image-[0-9].*' | head -n 1)
    apt-get -o APT::Sandbox::User=root download -q "$kernel" busybox-static
    """
    path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    run(["chroot", str(tree), "/bin/sh", "-s"], stdin=script, timeout=300, env=path)
    for deb in (tree / "root").glob("*.deb"):
        run(["dpkg-deb", "-x", str(deb), str(folder / "files")], timeout=120)
        deb.unlink()
    [image] = (folder / "files/boot").glob("vmlinuz-*")
    image.rename(folder / "vmlinuz")


def _initrd(folder: Path) -> None:
    """What finds the disk and the network, and goes on into systemd."""
    inside, files = folder / "inside", folder / "files"
    for name in ("bin", "dev", "proc", "root"):
        (inside / name).mkdir(parents=True)
    [busybox] = files.rglob("bin/busybox")
    shutil.copy(busybox, inside / "bin/busybox")
    for module in MODULES:
        [found] = files.rglob(f"{module}.ko*")
        packed = found.read_bytes()
        (inside / f"{module}.ko").write_bytes(lzma.decompress(packed) if found.suffix == ".xz" else packed)
    (inside / "init").write_text(INIT.format(modules=" ".join(MODULES)))
    (inside / "init").chmod(0o755)
    pack = f"cd '{inside}' && find . | '{busybox}' cpio -o -H newc 2>/dev/null | gzip -1 > '{folder}/initrd'"
    run(["sh", "-c", pack], timeout=120)
    for done in (inside, files):
        shutil.rmtree(done)


@contextmanager
def machine(lab: Lab, folder: Path, files: dict[str, tuple[int, str]]) -> Iterator[Machine]:
    """A machine that booted, gone at the end. `files`: mode and text of what lies in the home of `dev` beforehand."""
    install_tools()
    key = folder / "id_ed25519"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "paddock-vm", "-f", str(key)])
    tree = folder / "tree"
    root.copy_root(base_root(lab), tree)
    try:
        public = root.personalise("vm", tree)
        _prepare(tree, key, files)
        parts = kernel(lab, tree)
        _image(tree, folder / "disk.img")
    finally:
        shutil.rmtree(tree)
    port = _free_port()  # as late as possible: until it is taken, it may be anybody's
    made = Machine(folder, port, key)
    made.known_hosts.write_text(f"[127.0.0.1]:{port} {public}\n")
    process = _start(parts, folder, port)
    try:
        _wait(made, process)
        yield made
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        (folder / "disk.img").unlink()


def _prepare(tree: Path, key: Path, files: dict[str, tuple[int, str]]) -> None:
    """Who may log in, what lies in dev's home, and that its services run without it."""
    root.be_reached(tree, key.with_suffix(".pub").read_text())
    root.reach_out(tree)
    linger = tree / "var/lib/systemd/linger/dev"
    linger.parent.mkdir(parents=True, exist_ok=True)
    linger.touch()
    for name, (mode, text) in files.items():
        path = tree / "home/dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
    run(["chroot", str(tree), "/bin/chown", "-R", "dev:", "/home/dev"])


def _image(tree: Path, image: Path) -> None:
    with image.open("wb") as file:
        file.truncate(2 << 30)
    run([*MORTAL, "mkfs.ext4", "-q", "-m", "0", "-d", str(tree), str(image)], timeout=300)


def _start(parts: Path, folder: Path, port: int) -> subprocess.Popen[bytes]:
    words = "root=/dev/vda rw console=ttyS0 systemd.log_color=no"
    argv = [*MORTAL, QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", MEMORY, "-nographic"]
    argv += ["-no-reboot", "-kernel", str(parts / "vmlinuz"), "-initrd", str(parts / "initrd"), "-append", words]
    argv += ["-drive", f"file={folder / 'disk.img'},format=raw,if=virtio,cache=unsafe"]
    network = f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"
    argv += ["-netdev", network, "-device", "virtio-net-pci,netdev=net"]
    with (folder / "console.log").open("wb") as log:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def _wait(made: Machine, process: subprocess.Popen[bytes]) -> None:
    """Until a session of dev's own is possible."""
    end = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < end and process.poll() is None:
        # QEMU takes the connection long before there is an sshd, and one that came too early may never be answered.
        with suppress(LabError):
            if "running" in made.sh("systemctl --user is-system-running", user="dev", check=False, timeout=30):
                return
        time.sleep(1)
    said = (made.folder / "console.log").read_text(errors="replace").split("\n")
    raise LabError(f"The virtual machine did not come up within {BOOT_SECONDS} s: {' | '.join(said[-6:])}")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
