"""A lab host that plays Arch or Fedora: the real pacman or dnf, a repository of its own, and tiny packages in it.

No mirror of either is in reach of every machine that tests, and their packages would not run on Debian. So each package
is as many lines of shell as the probe needs to see; what installs them, and all that it says, is real.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.lab import planted
from tests.lab.host import LabHost

POOL, REPOSITORY = "/srv/pool", "/srv/repository"
NEWER = ("git", "curl")  # there is a second version of these
BUNDLE = "etc/ssl/certs/ca-certificates.crt"
STARTED = "/run/slow-installation"
LOCK = "/var/lib/pacman/db.lck"
INSTALL = {"pacman": "pacman -S --noconfirm", "dnf": "dnf -y install"}
TOOLS = "pacman-package-manager makepkg fakeroot libarchive-tools dnf createrepo-c rpm"


@dataclass(frozen=True)
class Tiny:
    """A package: the text of its files by path, what it needs, and the seconds that its installation takes."""

    name: str
    files: dict[str, str] = field(default_factory=dict)
    depends: tuple[str, ...] = ()
    seconds: int = 0


def program(name: str) -> dict[str, str]:
    return {f"usr/bin/{name}": f"#!/bin/sh\necho {name}\n"}


def compiler(name: str, version: str) -> dict[str, str]:
    return {f"usr/bin/{name}": f'#!/bin/sh\ntest "$1" = -dumpfullversion && echo {version}\n'}


def wait(one: Tiny) -> str:
    """The script of a package's installation."""
    return f"touch {STARTED}; sleep {one.seconds}" if one.seconds else "true"


CUDA = {
    "opt/cuda/bin/nvcc": planted.NVCC.format(version="13.2"),
    "opt/cuda/include/crt/host_config.h": planted.HOST_CONFIG.format(newest=15),
}
EVERYWHERE = (
    *(Tiny(name, program(name)) for name in ("git", "cmake", "ccache", "curl")),
    Tiny("slow", {"usr/share/slow": "\n"}, seconds=8),
)
PACKAGES = {
    "pacman": (
        *EVERYWHERE,
        Tiny("ca-certificates", {BUNDLE: "none\n"}),
        Tiny("ninja", program("ninja")),
        Tiny("gcc", compiler("g++", "16.1.1")),
        Tiny("gcc15", compiler("g++-15", "15.2.1")),
        Tiny("cuda", CUDA, depends=("gcc15",)),
    ),
    "dnf": (
        *EVERYWHERE,
        Tiny("ca-certificates", {"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": "none\n"}),
        Tiny("ninja-build", program("ninja")),
        Tiny("gcc-c++", compiler("g++", "15.2.1")),
    ),
}
OS_RELEASE = {
    "arch": 'NAME="Arch Linux"\nPRETTY_NAME="Arch Linux"\nID=arch\nBUILD_ID=rolling\n',
    "cachyos": 'NAME="CachyOS Linux"\nPRETTY_NAME="CachyOS"\nID=cachyos\nID_LIKE=arch\nBUILD_ID=rolling\n',
    "fedora": 'NAME="Fedora Linux"\nVERSION_ID=43\nPRETTY_NAME="Fedora Linux 43 (Server Edition)"\nID=fedora\n',
}

PACMAN_CONF = f"""
[options]
Architecture = auto
SigLevel = Never
[core]
Server = file://{REPOSITORY}
"""
DNF_REPOSITORY = f"""
[fedora]
name=Fedora
baseurl=file://{REPOSITORY}
gpgcheck=0
metadata_expire=0
"""


def become(host: LabHost, os_id: str) -> None:
    (host.root / "etc/os-release").unlink()  # at first a link into /usr/lib
    (host.root / "etc/os-release").write_text(OS_RELEASE[os_id])


def managers(host: LabHost) -> None:
    """Both package managers, as Debian has them."""
    install = "apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io"
    host.sh(f"apt-get update && {install} {TOOLS}", timeout=300)


@dataclass(frozen=True)
class Distribution:
    """One that a host plays. `tool`: pacman or dnf."""

    host: LabHost
    tool: str

    def set_up(self) -> None:
        """Every package, a newer version of some, and the manager told of the repository."""
        self.host.sh(f"mkdir -p {POOL}; chown dev {POOL}")
        make = self._make_for_pacman if self.tool == "pacman" else self._make_for_dnf
        make("1", PACKAGES[self.tool])
        make("2", tuple(one for one in PACKAGES[self.tool] if one.name in NEWER))
        if self.tool == "pacman":
            self._write("etc/pacman.conf", PACMAN_CONF)
        else:
            self._write("etc/yum.repos.d/fedora.repo", DNF_REPOSITORY)
            self._write("etc/dnf/vars/releasever", "43\n")
            self._write("etc/dnf/dnf.conf", "[main]\nbest=True\n")  # RHEL's, and what dnf 5 does unasked

    def publish(self, newer: Sequence[str] = (), without: Sequence[str] = (), keep: bool = False) -> None:
        """What the mirror has from now on; the host has not looked. `newer`: what is there in a newer version; `keep`:
        the old files stay for those who ask for them."""
        names = [one.name for one in PACKAGES[self.tool] if one.name not in without]
        files = " ".join(f"{POOL}/{name}-{2 if name in newer else 1}-1*" for name in names)
        index = f"repo-add -q {REPOSITORY}/core.db.tar.gz {REPOSITORY}/*.pkg.tar"
        if self.tool == "dnf":
            index = f"createrepo_c -q {REPOSITORY}"
        clean = f"rm -f {REPOSITORY}/core*" if keep else f"rm -rf {REPOSITORY}; mkdir {REPOSITORY}"
        self.host.sh(f"{clean}; cp {files} {REPOSITORY}; {index}")

    def refresh(self) -> None:
        """What the host's owner does before anything else: a look at the mirror."""
        self.host.sh("pacman -Syy" if self.tool == "pacman" else "dnf clean all")

    def bare(self) -> None:
        """None of the packages, and a fresh look at a mirror that has all of them."""
        self.clear()
        self.host.sh(f"rm -f /{BUNDLE}")  # a lab host gets this machine's at every boot
        self.publish()
        self.refresh()

    def clear(self) -> None:
        """As if nothing had ever been installed by this manager."""
        if self.tool == "pacman":
            remove = "pacman -Qq | xargs -r pacman -Rdd --noconfirm"
            self.host.sh(f"rm -rf {LOCK} /var/cache/pacman/pkg; {remove}")
        else:
            self.host.sh("rpm -qa --qf '%{name}\\n' | xargs -r rpm -e --nodeps")

    def install(self, *names: str) -> None:
        """As the host's owner does."""
        self.host.sh(f"{INSTALL[self.tool]} {' '.join(names)}")

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Somebody's installation, which takes its time; it holds the manager's lock on entry, and is over after."""
        inside = ["nsenter", "-t", str(self.host.leader()), "-a", "--", *INSTALL[self.tool].split(), "slow"]
        process = subprocess.Popen(inside, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            self.host.sh(f"until test -e {STARTED}; do sleep 0.1; done; rm {STARTED}", timeout=30)
            yield
        finally:
            process.communicate(timeout=60)

    def installed(self) -> dict[str, str]:
        """Version by name, as the manager itself tells."""
        ask = "pacman -Q || true" if self.tool == "pacman" else "rpm -qa --qf '%{name} %{version}\\n'"
        told = (line.split() for line in self.host.sh(ask).stdout.splitlines())
        return {name: version.partition("-")[0] for name, version in told}

    def _make_for_pacman(self, version: str, packages: Sequence[Tiny]) -> None:
        place = self._trees(version, packages)
        parts = "".join(
            f"package_{one.name}() {{ depends=({' '.join(one.depends)}); install={one.name}.install;"
            f' cp -a "$startdir/{one.name}/." "$pkgdir/"; }}\n'
            for one in packages
        )
        for one in packages:
            self._write(f"{place}/{one.name}.install", f"post_install() {{\n  {wait(one)}\n}}\n")
        names = " ".join(one.name for one in packages)
        build = f"pkgbase=tiny\npkgname=({names})\npkgver={version}\npkgrel=1\narch=(any)\noptions=(!strip)\n{parts}"
        self._write(f"{place}/PKGBUILD", build)
        self.host.sh(f"chown -R dev /{place}")
        self.host.sh(f"cd /{place} && PKGDEST={POOL} PKGEXT=.pkg.tar makepkg --nodeps", user="dev", timeout=120)

    def _make_for_dnf(self, version: str, packages: Sequence[Tiny]) -> None:
        place = self._trees(version, packages)
        head = f"Summary: tiny\nVersion: {version}\nRelease: 1\nLicense: MIT\nBuildArch: noarch\nAutoReqProv: no\n"
        spec = f"Name: tiny\n{head}%description\ntiny\n%install\ncp -a /{place}/*/. %{{buildroot}}/\n"
        for one in packages:
            needs = "".join(f"Requires: {name}\n" for name in one.depends)
            needs += "Provides: /bin/sh\n" if one.seconds else ""  # its script asks for it, and here Debian has it
            spec += f"%package -n {one.name}\nSummary: tiny\nAutoReqProv: no\n{needs}%description -n {one.name}\ntiny\n"
            spec += f"%files -n {one.name}\n" + "".join(f"/{path}\n" for path in one.files)
            if one.seconds:
                spec += f"%post -n {one.name}\n{wait(one)}\n"
        self._write("srv/tiny.spec", spec)
        self.host.sh(f"rpmbuild -bb --quiet --define '_rpmdir {POOL}' /srv/tiny.spec; mv {POOL}/noarch/* {POOL}/")

    def _trees(self, version: str, packages: Sequence[Tiny]) -> str:
        """A folder with a folder per package, as its files will lie."""
        place = f"srv/{self.tool}-{version}"
        for one in packages:
            for path, text in one.files.items():
                self._write(f"{place}/{one.name}/{path}", text)
        return place

    def _write(self, path: str, text: str) -> None:
        target = self.host.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
        target.chmod(0o755 if text.startswith("#!") else 0o644)
