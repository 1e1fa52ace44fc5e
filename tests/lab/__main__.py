"""`python -m tests.lab`: start, look at, enter and remove the lab's hosts."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from tests.lab import host, machine, network, recipe, services
from tests.lab.common import DEPLOY_LAB, TEST_LAB, Lab, LabError, run, the_lab

# What the lab calls, and the Debian package that has it.
TOOLS = {
    "debootstrap": "debootstrap",
    "systemd-nspawn": "systemd-container",
    "nft": "nftables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "git": "git",
    "ssh-keygen": "openssh-client",
}
# Debian's signing keys, which debootstrap on a relative of Debian may come without.
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def main() -> int:
    """Run one command; 0 when it worked, 1 with one sentence on stderr when not, or the status of an `sh` script."""
    try:
        return dispatch(arguments())
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
    except OSError as error:
        print(f"lab: {error.filename or 'a file'}: {error.strerror or error}.", file=sys.stderr)
    except KeyboardInterrupt:
        print("lab: interrupted; `python -m tests.lab down` takes everything back.", file=sys.stderr)
    return 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description="Throwaway systemd hosts on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start hosts, and llama.cpp's source for them")
    up.add_argument("--hub", action="store_true", help="start the model hub too")
    up.add_argument("--no-upstream", action="store_true", help="leave llama.cpp's source out")
    up.add_argument("names", nargs="*", metavar="NAME", default=["demo"])
    down = commands.add_parser("down", help="remove everything that the lab made, except its caches")
    down.add_argument("names", nargs="*", metavar="NAME", help="only these, while others are up")
    down.add_argument("--all", action="store_true", help="the labs of the tests too, whoever left them")
    commands.add_parser("list", help="show the hosts")
    commands.add_parser("reboot", help="reboot a host").add_argument("name", metavar="NAME")
    shell = commands.add_parser("sh", help="run a shell script on a host")
    shell.add_argument("name", metavar="NAME")
    shell.add_argument("-u", "--user", default="root", help="as this user, in a login session (default: root)")
    shell.add_argument("script", metavar="SCRIPT")
    return parser.parse_args()


def dispatch(options: argparse.Namespace) -> int:
    lab = the_lab()
    if options.command == "list":
        return show(lab)
    if os.geteuid() != 0:
        raise LabError(f"`{options.command}` needs root: it works with network namespaces and systemd-nspawn.")
    if options.command == "up":
        return up(lab, options)
    if options.command == "down":
        names = host.down(lab, options.names)
        for other in (DEPLOY_LAB, TEST_LAB) if options.all else ():
            os.environ.update(other)
            names += host.down(the_lab())
        print(f"Removed {', '.join(names)}." if names else "No such host was up.")
        if left := host.hosts(lab):
            print(f"Left alone: {', '.join(left)}; `python -m tests.lab down` removes everything.")
        return 0
    there = host.hosts(lab)
    if options.name not in there:
        raise LabError(f"No host {options.name}; there is {', '.join(there) or 'none'}.")
    if options.command == "reboot":
        there[options.name].reboot()
        return 0
    done = there[options.name].sh(options.script, user=options.user, check=False, timeout=3600)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


def up(lab: Lab, options: argparse.Namespace) -> int:
    """Say what will be made, make what is missing, and print the addresses."""
    announce(lab)
    install_tools()
    for name in options.names:
        there = host.hosts(lab).get(name)
        if there and machine.leader(lab, name):
            print(f"{there} is up already; left alone.", flush=True)
        else:
            print(f"{host.boot(name, lab=lab)} is up.", flush=True)
    if not options.no_upstream:
        services.start_upstream(lab)
        print(f"llama.cpp's source: git://{lab.gateway}/llama.cpp", flush=True)
    if options.hub:
        services.start_hub(lab)
        print(f"Model hub: http://{lab.gateway}:8010", flush=True)
    if warning := network.firewall_warning(lab):
        print(f"lab: {warning}", file=sys.stderr)
    print(f"Log in: ssh -i {lab.key} -o UserKnownHostsFile={lab.known_hosts} dev@ADDRESS", flush=True)
    return 0


def announce(lab: Lab) -> None:
    print(
        "The lab makes on this machine, and `python -m tests.lab down` removes:\n"
        f"  the bridge {lab.bridge} with {lab.gateway} and {lab.cdn}, and a network namespace per host\n"
        f"  the nft table {lab.table} (masquerades {lab.subnet}), and net.ipv4.ip_forward=1\n"
        f"  {lab.run_dir} (keys, state) and {lab.work} (the hosts' disks)\n"
        f"It keeps in {lab.cache}: a Debian {recipe.SUITE} root, packages, a compiler cache, llama.cpp's source.",
        flush=True,
    )


def install_tools() -> None:
    """Install what is missing with apt-get; fails where that is not possible."""
    missing = [tool for tool in TOOLS if not shutil.which(tool, path=host.PATH)]
    packages = sorted({TOOLS[tool] for tool in missing})
    if not KEYRING.exists():
        missing.append(str(KEYRING))
        packages.append("debian-archive-keyring")
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise LabError(f"This machine has no {', '.join(missing)} and no apt-get; install them and run this again.")
    print(f"Installing {', '.join(packages)} with apt-get.", flush=True)
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-q"], timeout=300, env=quiet)
    run(["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages], timeout=900, env=quiet)


def show(lab: Lab) -> int:
    """Name, address and state of every host."""
    there = host.hosts(lab)
    for each in there.values():
        state = "up" if machine.outside_pids(lab, each.name) else "down"
        print(f"{each.name:20} {each.address:16} {state}")
    if not there:
        print("No host is up.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
