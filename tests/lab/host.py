"""A lab host, and what a test does with it: run a script, reboot, cut the power, take a snapshot."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.lab import machine, network, root, services, state
from tests.lab.base import base_root
from tests.lab.common import Lab, LabError, locked, run, the_lab

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from subprocess import CompletedProcess

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class LabHost:
    """One running (or just rebooting) host. `index` is the last byte of its address."""

    lab: Lab
    name: str
    index: int
    host_key: str

    @property
    def address(self) -> str:
        return f"{self.lab.net}.{self.index}"

    @property
    def root(self) -> Path:
        """The host's root directory on this machine."""
        return self.lab.work / "roots" / self.name

    def ssh_data(self, user: str = "dev") -> dict[str, object]:
        """pyinfra's inventory data for this host: its key is known beforehand, and no other is accepted."""
        return {
            "ssh_hostname": self.address,
            "ssh_user": user,
            "ssh_key": str(self.lab.key),
            "ssh_known_hosts_file": str(self.lab.known_hosts),
            "ssh_strict_host_key_checking": "yes",
        }

    def sh(self, script: str, user: str = "root", check: bool = True, timeout: float = 60) -> CompletedProcess[str]:
        """Run a shell script on the host, without SSH; for a user in a login session of its own, as machinectl does.

        Raises LabError when the script fails (unless `check` is off) or takes longer than `timeout` seconds.
        """
        inside = ["/usr/bin/env", "-i", f"PATH={PATH}", "HOME=/root", "LANG=C.UTF-8"]
        argv = ["timeout", "-k", "5", f"{timeout}", "/bin/sh", "-c", script]
        if user != "root":
            place = ["-p", "PAMName=login", "-p", f"User={user}", "-p", "WorkingDirectory=~"]
            settings = ["-E", f"PATH={PATH}", "-E", "LANG=C.UTF-8"]
            # systemd expands $VARIABLES in a command line; the shell is to see them.
            argv = [part.replace("$", "$$") for part in argv]
            argv = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", *place, *settings, *argv]
        done = run(["nsenter", "-t", str(self.leader()), "-a", *inside, *argv], check=False, timeout=timeout + 15)
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing")[-2000:]
        if done.returncode in (124, 137):
            raise LabError(f"On {self.name}, `{script.strip()}` was not done within {timeout} seconds: {said}")
        if check and done.returncode != 0:
            raise LabError(f"On {self.name}, as {user}, `{script.strip()}` ended with {done.returncode}: {said}")
        return done

    def leader(self) -> int:
        """The pid of the host's PID 1 on this machine; fails while the host is down."""
        pid = machine.leader(self.lab, self.name)
        if pid is None:
            raise LabError(f"The lab host {self.name} is not running; `python -m tests.lab up {self.name}` starts it.")
        return pid

    def remote_commands(self) -> int:
        """How many commands sshd has started on this host so far, over all its boots."""
        script = "journalctl --sync; journalctl -t sshd -o cat --no-pager | grep -c 'Starting session: command' || true"
        return int(self.sh(script).stdout)

    def reboot(self) -> None:
        """Reboot from inside, and return when sshd answers again."""
        before = self.leader()
        self.sh("systemctl --no-block reboot", timeout=30)
        end = time.monotonic() + machine.STOP_SECONDS
        while machine.leader(self.lab, self.name) == before:
            if time.monotonic() > end:
                raise LabError(f"The host {self.name} did not shut down within {machine.STOP_SECONDS} seconds.")
            time.sleep(0.05)
        machine.wait_for_sshd(self.lab, self.name, self.address, but_not=before)

    def power_cut(self) -> None:
        """Kill everything on the host at once, and boot it again."""
        machine.kill(self.lab, self.name)
        self.power_on()

    def power_off(self) -> None:
        """Shut the host down cleanly and leave it down, with its address and its root."""
        if machine.leader(self.lab, self.name) is not None:
            self.sh("systemctl --no-block poweroff", timeout=30)
        if not machine.wait_until_gone(self.lab, self.name, machine.STOP_SECONDS):
            raise LabError(f"The host {self.name} did not shut down within {machine.STOP_SECONDS} seconds.")
        machine.sweep_groups(self.lab.unit(self.name))

    def power_on(self) -> None:
        """Boot a host that is down, and return when sshd answers."""
        root.prepare(self.lab, self.root)
        machine.start(self.lab, self.name, self.root)
        machine.wait_for_sshd(self.lab, self.name, self.address)

    def snapshot(self, name: str) -> Path:
        """Copy this host's disk while it is cleanly shut down, boot it again, and return the copy for `boot`."""
        target = self.lab.work / "snapshots" / name
        self.power_off()
        root.copy_root(self.root, target)
        self.power_on()
        return target

    def destroy(self) -> None:
        """Take this host and its disk away; what it downloaded with apt stays in the cache."""
        with locked(self.lab.run_dir / "lock"):
            take_down(self.lab, self.name, self.index)

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


def boot(name: str, source: Path | None = None, lab: Lab | None = None) -> LabHost:
    """A running host of this name: the one there is, or a new one from the base root or from a snapshot `source`.

    Needs root. Makes whatever of the lab is missing: base root, network, keys.
    """
    lab = lab or the_lab()
    if not name.replace("-", "").isalnum() or not name[0].isalpha() or len(name) > 20 or name != name.lower():
        raise LabError(f"{name!r} is no name for a host: take up to 20 small letters, digits and hyphens.")
    with locked(lab.run_dir / "lock"):
        there = hosts(lab).get(name)
        if there and machine.leader(lab, name) is not None:
            machine.wait_for_sshd(lab, name, there.address)
            return there
        network.ensure(lab)  # first, for it refuses to work on another's lab
        sweep(lab)
        if there:
            take_down(lab, name, there.index)
        state.ensure_key(lab)
        root.keep_debs(lab)
        host = LabHost(lab, name, state.free_index(lab), "")
        state.remember(lab, state.Record(name, host.index, ""))
        try:
            return bring_up(host, source or base_root(lab))
        except BaseException:
            take_down(lab, name, host.index)
            raise


def bring_up(host: LabHost, source: Path) -> LabHost:
    """Copy, personalise, connect and boot; the key of its sshd is on record before anyone can ask for it."""
    lab = host.lab
    root.copy_root(source, host.root)
    host = replace(host, host_key=root.personalise(host.name, host.root))
    state.remember(lab, state.Record(host.name, host.index, host.host_key))
    root.write_hosts_files(lab)
    network.attach(lab, host.name, host.index)
    host.power_on()
    return host


def hosts(lab: Lab | None = None) -> dict[str, LabHost]:
    """The hosts of this lab by name, in the order of their addresses; cheap, and no need to be root."""
    lab = lab or the_lab()
    return {record.name: LabHost(lab, record.name, record.index, record.host_key) for record in state.records(lab)}


def sweep(lab: Lab) -> None:
    """Take away what a killed process left half made; the caller holds the lab's lock, so nobody is at it."""
    roots = {path.name.removesuffix(".partial") for path in (lab.work / "roots").glob("*/")}
    known = hosts(lab)
    for host in known.values():
        if not host.host_key or host.name not in roots:
            take_down(lab, host.name, host.index)
    for name in roots - set(known):
        take_down(lab, name, 0)


def take_down(lab: Lab, name: str, index: int) -> None:
    """Everything of one host, however far it came; the caller holds the lab's lock."""
    machine.kill(lab, name)
    network.detach(lab, name, index)
    root.keep_debs(lab)
    root.remove(lab, name)
    state.forget(lab, name)
    root.write_hosts_files(lab)


def down(lab: Lab | None = None, names: Sequence[str] = ()) -> list[str]:
    """Take the whole lab of this environment away, also one whose owner was killed; only the hosts with these `names`
    while there are others. Returns the names of those that were taken down.

    The caches (base root, packages, compiler cache, llama.cpp) stay.
    """
    lab = lab or the_lab()
    if not lab.run_dir.exists() and not lab.work.exists():
        return []
    with locked(lab.run_dir / "lock"):
        records = state.records(lab)
        gone = [record for record in records if not names or record.name in names]
        if len(gone) == len(records):
            services.stop_all(lab)
        for record in gone:
            take_down(lab, record.name, record.index)
        if len(gone) < len(records):
            return [record.name for record in gone]
        sweep(lab)
        network.remove(lab)
        shutil.rmtree(lab.work, ignore_errors=True)
        shutil.rmtree(lab.run_dir)
    return [record.name for record in gone]
