"""The lab itself, with real boots, in a lab of its own beside any other on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab import hosts, network, services, upstream
from tests.lab.common import PAT_PASSWORD, TEST_LAB, Lab, LabError, run, the_lab
from tests.lab.host import LabHost, boot, down

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root: network namespaces and systemd-nspawn")

REPOSITORY = Path(__file__).parents[2]

FAKE_RELEASE = """
set -eu
cd ~; mkdir -p .local/share/paddock/tmp/bin
printf '#!/bin/sh\\nexec python3 -m http.server --bind "$2" "$4"\\n' > .local/share/paddock/tmp/bin/ggml-rpc-server
chmod +x .local/share/paddock/tmp/bin/ggml-rpc-server
mkdir -p .local/share/paddock/releases
mv .local/share/paddock/tmp .local/share/paddock/releases/one
"""
LISTENING = "for i in $(seq 50); do ss -ltn | grep -q 127.0.0.1:50052 && exit; sleep 0.2; done; exit 1"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with pytest.MonkeyPatch.context() as patch:
        for key, value in TEST_LAB.items():
            patch.setenv(key, value)
        down()
        yield the_lab()
        down()


@pytest.fixture(scope="module")
def first(lab: Lab) -> LabHost:
    return boot("first", lab=lab)


@pytest.fixture(scope="module")
def second(lab: Lab) -> LabHost:
    return boot("second", lab=lab)


def ssh(host: LabHost, user: str, command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """OpenSSH's client, as strict about the host's key as `ssh_data` asks pyinfra to be."""
    data = host.ssh_data(user)
    options = [f"UserKnownHostsFile={data['ssh_known_hosts_file']}", "StrictHostKeyChecking=yes", "BatchMode=yes"]
    flags = [part for option in options for part in ("-o", option)]
    argv = ["ssh", "-F", "none", "-i", str(data["ssh_key"]), *flags, f"{user}@{data['ssh_hostname']}", command]
    return run(argv, stdin=stdin, timeout=60)


def ip_forward() -> str:
    return Path("/proc/sys/net/ipv4/ip_forward").read_text().strip()


def traces(lab: Lab) -> list[str]:
    """Whatever on this machine still belongs to this lab."""
    listings = {
        "links": run(["ip", "-br", "link"]).stdout,
        "namespaces": run(["ip", "netns"]).stdout,
        "tables": run(["nft", "list", "tables"]).stdout,
        "processes": run(["ps", "-eo", "args"]).stdout,
        "mounts": Path("/proc/self/mounts").read_text(),
        # It fails where a group of another's ends while it looks.
        "groups": run(["find", "/sys/fs/cgroup", "-maxdepth", "3", "-type", "d"], check=False).stdout,
        "nspawn": run(["find", "/run/systemd/nspawn"], check=False).stdout,
    }
    own = re.compile(rf"{lab.bridge}\b")  # another checkout's lab has the same name and a number
    found = [f"{name}: {line}" for name, text in listings.items() for line in text.splitlines() if own.search(line)]
    return found + [str(path) for path in (lab.run_dir, lab.work) if path.exists()]


def test_the_four_users_log_in_and_may_what_their_sudo_says(first: LabHost) -> None:
    assert ssh(first, "dev", "sudo -n id -u").stdout == "0\n"
    assert ssh(first, "fisher", "echo $version; sudo -n id -u").stdout.split()[1] == "0"
    assert ssh(first, "fisher", "echo $version").stdout.startswith("3.")  # fish, not a POSIX shell
    assert ssh(first, "pat", "sudo -k -S -p '' id -u", stdin=f"{PAT_PASSWORD}\n").stdout == "0\n"
    for user in ("pat", "guest"):
        with pytest.raises(LabError, match="failed with status 1"):
            ssh(first, user, "sudo -n id -u")


def test_the_host_counts_remote_commands_and_nothing_else(first: LabHost) -> None:
    before = first.remote_commands()
    ssh(first, "dev", "true")
    ssh(first, "fisher", "true")
    first.sh("true", user="dev")
    assert first.remote_commands() == before + 2


def test_a_script_runs_without_ssh_in_a_session_with_its_users_systemd(first: LabHost) -> None:
    done = first.sh('name=$(id -un); echo "$name $HOME" $PWD; systemctl --user is-active default.target', user="fisher")
    assert done.stdout == "fisher /home/fisher /home/fisher\nactive\n"
    assert first.sh("exit 3", user="dev", check=False).returncode == 3
    with pytest.raises(LabError, match="not done within 1 seconds"):
        first.sh("sleep 30", user="dev", timeout=1)


def test_two_hosts_reach_each_other_and_the_registries(first: LabHost, second: LabHost) -> None:
    script = "import socket; print(socket.create_connection(('{}', 22), 5).recv(4))"
    for host, other in ((first, second), (second, first)):
        assert "SSH-" in host.sh(f'python3 -c "{script.format(other.name)}"').stdout
    first.sh("apt-get update -q && apt-get install -q -y --no-install-recommends git", timeout=200)
    assert second.sh("command -v git", check=False).returncode != 0


def test_a_host_fetches_any_commit_of_llama_cpp(lab: Lab, first: LabHost) -> None:
    services.start_upstream(lab)
    first.sh("command -v git || apt-get install -q -y --no-install-recommends git", timeout=200)
    wanted = upstream.commit_id(lab, "b1000")
    fetch = f"git init -q ~/it; cd ~/it; git fetch -q --depth 1 git://upstream.paddock.test/llama.cpp {wanted}"
    done = first.sh(f"{fetch} && git show FETCH_HEAD:CMakeLists.txt | head -n 3", user="dev", timeout=120)
    assert "cmake_minimum_required" in done.stdout
    listed = run(["git", "ls-remote", f"git://{lab.gateway}/llama.cpp"]).stdout
    for name in ("refs/tags/b1000", "refs/tags/b1001", "refs/heads/broken"):
        assert f"{upstream.commit_id(lab, name)}\t{name}" in listed


def test_a_rebooted_host_is_reachable_again(first: LabHost) -> None:
    uptime = first.sh("cat /proc/sys/kernel/random/boot_id; stat -c %Y /run/systemd").stdout
    before = first.remote_commands()
    first.reboot()
    assert ssh(first, "dev", "systemctl is-system-running --wait").stdout == "running\n"
    assert first.sh("cat /proc/sys/kernel/random/boot_id; stat -c %Y /run/systemd").stdout != uptime
    assert first.remote_commands() == before + 1
    assert first.sh("getent hosts deb.debian.org", check=False).returncode == 0


def test_the_stand_in_gpu_wakes_with_the_first_release_and_after_a_reboot(second: LabHost) -> None:
    second.sh("loginctl enable-linger dev")
    assert second.sh("systemctl --user is-active stand-in-gpu.path", user="dev").stdout == "active\n"
    second.sh(FAKE_RELEASE, user="dev")
    second.sh(LISTENING)
    second.power_cut()
    second.sh(LISTENING)
    second.sh("rm -r ~/.local/share/paddock/releases/one; systemctl --user kill -s KILL stand-in-gpu", user="dev")
    second.sh(FAKE_RELEASE.replace("/one", "/two") + LISTENING, user="dev")


def test_a_host_from_a_snapshot_has_the_disk_and_an_identity_of_its_own(lab: Lab, second: LabHost) -> None:
    second.sh("echo kept > ~/note", user="dev")
    copy = boot("copy", second.snapshot("with-note"), lab)
    assert copy.sh("cat /home/dev/note; hostname").stdout == "kept\ncopy\n"
    assert second.sh("cat /home/dev/note; hostname").stdout == "kept\nsecond\n"
    assert copy.host_key != second.host_key
    assert copy.sh("cat /etc/machine-id").stdout != second.sh("cat /etc/machine-id").stdout
    assert copy.remote_commands() == 0
    ssh(copy, "dev", "true")
    copy.destroy()
    assert "copy" not in hosts(lab)
    assert not [trace for trace in traces(lab) if "copy" in trace]


def test_a_host_that_is_up_is_left_alone(lab: Lab, first: LabHost) -> None:
    pid = first.leader()
    assert boot("first", lab=lab) == first
    assert first.leader() == pid


def test_a_second_lab_on_the_same_bridge_is_refused_in_one_sentence(lab: Lab, first: LabHost, tmp_path: Path) -> None:
    other = Lab(run_dir=tmp_path / "run", cache=lab.cache, bridge=lab.bridge, net="198.18.54")
    with pytest.raises(LabError, match="another lab runs on this machine"):
        boot("intruder", lab=other)
    first.leader()  # fails if it is gone


def test_down_leaves_no_trace_even_after_the_owner_was_killed(lab: Lab) -> None:
    down()
    before = ip_forward()
    script = "from tests.lab import services, the_lab; from tests.lab.host import boot; boot('orphan')\n"
    script += "services.start_upstream(the_lab()); print('up', flush=True); boot('half')"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        env={**os.environ, **TEST_LAB},
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        time.sleep(1)  # somewhere in the middle of the second host
        owner.send_signal(signal.SIGKILL)
    assert "orphan" in hosts(lab)
    assert ip_forward() == "1"
    assert network.bridge_exists(lab)
    done = run(
        [sys.executable, "-m", "tests.lab", "down"], env={**TEST_LAB, "PYTHONPATH": str(REPOSITORY)}, timeout=120
    )
    assert "orphan" in done.stdout
    assert traces(lab) == []
    assert ip_forward() == before


def test_the_command_line_says_errors_in_one_sentence(lab: Lab) -> None:
    for words, error in ((["reboot", "nobody"], "No host nobody"), (["up", "Not_A_Name"], "is no name for a host")):
        done = run([sys.executable, "-m", "tests.lab", *words], check=False, env={"PYTHONPATH": str(REPOSITORY)})
        assert done.returncode == 1
        assert done.stderr.startswith("lab: ")
        assert error in done.stderr
        assert len(done.stderr.splitlines()) == 1
