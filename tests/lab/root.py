"""Makes a copy of a root into one particular host: its identity, and what it must know about this machine.

What a host needs to get out from here is copied, not configured: name servers, certificate authorities and apt's
acquisition settings of the machine that runs the lab.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

from tests.lab.common import MORTAL, USERS, Lab, LabError, run
from tests.lab.state import records

DEBS = Path("var/cache/apt/archives")
CERTIFICATES = Path("usr/local/share/ca-certificates")
BUNDLE = Path("etc/ssl/certs/ca-certificates.crt")


def copy_root(source: Path, target: Path) -> None:
    """Copy a root with owners, modes and hard links, under its name only when complete; shares blocks where it can."""
    partial = target.with_name(f"{target.name}.partial")
    for old in (partial, target):
        if old.exists():
            shutil.rmtree(old)
    target.parent.mkdir(parents=True, exist_ok=True)
    run([*MORTAL, "cp", "-a", "--reflink=auto", "-T", str(source), str(partial)], timeout=900)
    partial.rename(target)


def remove(lab: Lab, name: str) -> None:
    """Remove a host's root, and the locks that nspawn keeps for it."""
    path = lab.work / "roots" / name
    if path.exists():
        at = path.stat()
        Path(f"/run/systemd/nspawn/locks/inode-{at.st_dev}:{at.st_ino}").unlink(missing_ok=True)
    for leftover in (path, path.with_name(f"{name}.partial")):
        shutil.rmtree(leftover, ignore_errors=True)
    path.with_name(f".#{name}.lck").unlink(missing_ok=True)


def personalise(name: str, root: Path) -> str:
    """Give a copied root a new identity, and return the public key of its sshd."""
    for journal in (root / "var/log/journal").iterdir():
        shutil.rmtree(journal)
    (root / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
    (root / "etc/hostname").write_text(f"{name}\n")
    key = root / "etc/ssh/ssh_host_ed25519_key"
    for old in (root / "etc/ssh").glob("ssh_host_*"):
        old.unlink()
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)])
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


def prepare(lab: Lab, root: Path) -> None:
    """Bring a stopped host's root up to date with this machine, before every boot."""
    be_reached(root, lab.key.with_suffix(".pub").read_text())
    reach_out(root)
    for deb in (lab.cache / "apt").glob("*.deb"):
        link(deb, root / DEBS / deb.name)


def be_reached(root: Path, public: str) -> None:
    """Every user lets the holder of this key in."""
    for user, uid in USERS.items():
        ssh = root / ("root" if user == "root" else f"home/{user}") / ".ssh"
        ssh.mkdir(mode=0o700, exist_ok=True)
        (ssh / "authorized_keys").write_text(public)
        for path in (ssh, ssh / "authorized_keys"):
            os.chown(path, uid, uid)


def reach_out(root: Path) -> None:
    """Name servers, apt's settings and authorities of this machine."""
    resolv = root / "etc/resolv.conf"
    resolv.unlink(missing_ok=True)
    resolv.write_text(name_servers())
    (root / "etc/apt/apt.conf.d/90lab").write_text(apt_settings())
    copy_certificates(root)


def name_servers() -> str:
    """This machine's resolv.conf, or the one behind it where a local stub answers: a host cannot reach a loopback."""
    for path in (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf")):
        text = path.read_text() if path.exists() else ""
        if re.search(r"^nameserver\s+(?!127\.|::1)", text, re.M):
            return text
    raise LabError(
        "This machine's /etc/resolv.conf names only a resolver on its own loopback, which a lab host cannot reach; "
        "add a name server that other machines can reach."
    )


def apt_settings() -> str:
    """apt's proxies and lenience about dates on this machine; a proxy on the loopback is of no use to a host."""
    wanted = re.compile(r'Acquire::(?:(?:http|https|ftp)::.*|Check-Valid-Until|Check-Date|Retries) "[^"]+";')
    dump = run(["apt-config", "dump", "Acquire"], check=False).stdout if shutil.which("apt-config") else ""
    lines = [line for line in dump.splitlines() if wanted.fullmatch(line)]
    for scheme in ("http", "https"):
        proxy = os.environ.get(f"{scheme}_proxy")
        if proxy:
            lines.append(f'Acquire::{scheme}::Proxy "{proxy}";')
    return "".join(f"{line}\n" for line in lines if not re.search(r"//(127\.|localhost|\[::1\])", line))


def copy_certificates(root: Path) -> None:
    """The authorities that this machine trusts, where TLS is intercepted on the way out."""
    for own in Path("/", CERTIFICATES).glob("*.crt"):
        shutil.copyfile(own, root / CERTIFICATES / own.name)
    if Path("/", BUNDLE).exists():
        shutil.copyfile(Path("/", BUNDLE), root / BUNDLE)


def write_hosts_files(lab: Lab) -> None:
    """/etc/hosts of every host, in place: a running one sees it at once."""
    lines = [
        "127.0.0.1 localhost",
        "::1 localhost ip6-localhost",
        f"{lab.gateway} hub.paddock.test upstream.paddock.test",
        f"{lab.cdn} cdn.paddock.test",
        *(f"{lab.net}.{record.index} {record.name} {record.name}.paddock.test" for record in records(lab)),
    ]
    for record in records(lab):
        path = lab.work / "roots" / record.name / "etc/hosts"
        if path.parent.exists():
            path.write_text("\n".join(lines) + "\n")


def keep_debs(lab: Lab) -> None:
    """Share the packages that hosts downloaded with the hosts to come. By link: apt locks its own directory only."""
    (lab.cache / "apt").mkdir(parents=True, exist_ok=True)
    for deb in (lab.work / "roots").glob(f"*/{DEBS}/*.deb"):
        link(deb, lab.cache / "apt" / deb.name)


def link(source: Path, target: Path) -> None:
    """A second name for a file that nobody changes in place; one that is there already stays.

    A file that vanishes meanwhile is no loss: apt would fetch it again.
    """
    with suppress(FileExistsError, FileNotFoundError):
        os.link(source, target)
