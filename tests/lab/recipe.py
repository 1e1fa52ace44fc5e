"""What the root of every lab host is made of: packages, users and the files that are baked in.

A plain Debian server of the kind people rent, plus fish (a login shell that mangles quoting) and a stand-in GPU. A
change here changes the digest, and with it the name of the cached root.
"""

from __future__ import annotations

import hashlib
import json
import os

SUITE = os.environ.get("PADDOCK_LAB_SUITE", "bookworm")  # another Debian to try things on
NEWER = "trixie"  # the Debian after it, on which the service is tested too
MIRROR = os.environ.get("PADDOCK_LAB_MIRROR", "http://deb.debian.org/debian")
PACKAGES = ",".join(
    (
        "systemd",
        "systemd-sysv",
        "dbus",
        "dbus-user-session",
        "libpam-systemd",
        "openssh-server",
        "sudo",
        "python3",
        "iproute2",
        "ca-certificates",
        "fish",
    )
)
MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "man-db.timer",
    "console-getty.service",
    "getty.target",
)

# Runs inside the new root, as root. Passwords stay locked except pat's: the others log in by key alone.
SETUP = """
set -eu
useradd --create-home --uid 1000 --shell /bin/bash dev
useradd --create-home --uid 1001 --shell /usr/bin/fish fisher
useradd --create-home --uid 1002 --shell /bin/bash pat
useradd --create-home --uid 1003 --shell /bin/bash guest
echo 'pat:correct horse battery' | chpasswd
rm -f /etc/ssh/ssh_host_*
ln -sf /etc/machine-id /var/lib/dbus/machine-id
mkdir -p /var/log/journal /var/cache/lab-ccache /etc/systemd/user/default.target.wants
ln -s ../stand-in-gpu.path /etc/systemd/user/default.target.wants/stand-in-gpu.path
apt-get clean
"""

SSHD = """
# The tests count remote commands by the "Starting session" lines of this level.
LogLevel VERBOSE
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
MaxStartups 100:30:200
MaxSessions 100
"""

GPU_PATH = """
[Unit]
Description=Waits for a release that can stand in for a GPU

[Path]
PathExistsGlob=%h/.local/share/paddock/releases/*/bin/ggml-rpc-server
"""

GPU_SERVICE = """
[Unit]
Description=Stand-in GPU: a device that takes layers as a card does, made of memory
# Without a release it ends calmly, and the path unit waits for the next one.
ConditionPathExistsGlob=%h/.local/share/paddock/releases/*/bin/ggml-rpc-server
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/local/lib/lab/stand-in-gpu
Restart=always
RestartSec=1
"""

# Only the newest release plays the card; it goes on with its open file when that release is removed.
GPU_SCRIPT = """#!/bin/sh
newest=$(ls -td "$HOME"/.local/share/paddock/releases/*/bin/ggml-rpc-server | head -n 1)
exec "$newest" -H 127.0.0.1 -p 50052
"""

CCACHE = """
cache_dir = /var/cache/lab-ccache
umask = 000
base_dir = /home
hash_dir = false
max_size = 5G
"""

FILES: dict[str, tuple[int, str]] = {
    "etc/ccache.conf": (0o644, CCACHE.lstrip()),
    "etc/fstab": (0o644, "# a lab host lives in a directory\n"),
    "etc/ssh/sshd_config.d/lab.conf": (0o644, SSHD.lstrip()),
    "etc/sudoers.d/lab": (0o440, "dev,fisher ALL=(ALL:ALL) NOPASSWD: ALL\npat ALL=(ALL:ALL) ALL\n".replace(",", ", ")),
    "etc/systemd/journald.conf.d/lab.conf": (
        0o644,
        "[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\nSystemMaxUse=200M\n",
    ),
    "etc/systemd/user/stand-in-gpu.path": (0o644, GPU_PATH.lstrip()),
    "etc/systemd/user/stand-in-gpu.service": (0o644, GPU_SERVICE.lstrip()),
    "usr/local/lib/lab/stand-in-gpu": (0o755, GPU_SCRIPT),
}


def files(suite: str) -> dict[str, tuple[int, str]]:
    """The mode and the text of every file, by its path."""
    sources = [f"deb {MIRROR} {suite} main", f"deb {MIRROR} {suite}-updates main"]
    sources += [f"deb {MIRROR}-security {suite}-security main", ""]
    return {"etc/apt/sources.list": (0o644, "\n".join(sources)), **FILES}


def digest(suite: str) -> str:
    """Twelve hexadecimal digits that change whenever the root would come out differently."""
    recipe = [suite, MIRROR, PACKAGES, MASKED, SETUP, files(suite)]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:12]
