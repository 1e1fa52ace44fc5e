"""The service on the newer Debian, of the user and of the system: sandbox, drop-ins, reboots, keys, removal."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roles.remote import stdin
from roles.service import sandbox
from tests.lab import recipe
from tests.lab.base import base_root
from tests.lab.common import Lab, processes
from tests.lab.deploying import Run, deploy, target, write_inventory
from tests.lab.host import LabHost, boot
from tests.lab.hub.server import Hub
from tests.lab.quiet import quiet
from tests.lab.taken_back import UNITS
from tests.lab.test_benchmark_history import SLOW
from tests.lab.test_main_job import UNIT, as_dev, complete

pytestmark = pytest.mark.timeout(2700)

KEY = "sk-lab-c0ffee"
OWN = f"/home/dev/.config/systemd/user/{UNIT}.service.d/own.conf"


class Newer:
    """A host of the newer Debian, on which the user lingers before Paddock comes, and its inventory."""

    def __init__(self, lab: Lab, host: LabHost, folder: Path) -> None:
        self.lab, self.host, self.folder = lab, host, folder

    def deploy(self, *words: str, to: str = "deploy.py", **changes: Any) -> Run:
        data = {"benchmark_depths": [], **changes}
        inventory = write_inventory(self.folder, [target(self.host.name, **data)])
        run = deploy(self.lab, inventory, "-y", *words, seconds=2400, to=to)
        assert run.code == 0, run.text
        return run

    def unit(self, manager: str) -> str:
        """Its text, of which systemd has nothing to say."""
        flag = f"--{manager}"
        said = self.host.sh(f"systemd-analyze {flag} verify {UNITS[manager]}", user="dev", timeout=120)
        assert (said.stdout, said.stderr) == ("", "")
        return self.host.sh(f"cat {UNITS[manager]}").stdout


@pytest.fixture(scope="module")
def newer(deploy_lab: Lab, hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newer]:
    host = boot("newer", base_root(deploy_lab, recipe.NEWER), lab=deploy_lab)
    # In a session, as a login of 257 asks for: a command from outside of the host is in none.
    host.sh("until sudo loginctl enable-linger dev; do sleep 0.5; done", user="dev")
    yield Newer(deploy_lab, host, tmp_path_factory.mktemp("newer"))
    host.destroy()


def test_the_unit_of_the_older_systemd_says_nothing_that_it_does_not_know(converged: LabHost) -> None:
    said = converged.sh(f"systemd-analyze --user verify {UNITS['user']}", user="dev", timeout=120)
    assert (said.stdout, said.stderr) == ("", "")


def test_the_newer_systemd_has_the_whole_sandbox_and_longer_pauses(newer: Newer) -> None:
    newer.deploy()
    text = newer.unit("user")
    for line in ("RestartSteps=5", "NoNewPrivileges=yes", "PrivateUsers=yes", "ProtectSystem=strict"):
        assert f"\n{line}\n" in text
    status = as_dev(newer.host, f"cat /proc/$(systemctl --user show -p MainPID --value {UNIT})/status")
    assert re.search(r"^NoNewPrivs:\s1$", status, re.M)
    assert re.search(r"^Seccomp:\s2$", status, re.M)


def test_no_variable_and_no_file_of_the_users_changes_what_is_served(newer: Newer) -> None:
    as_dev(newer.host, "mkdir -p ~/.config/llama.cpp ~/.config/environment.d")
    as_dev(newer.host, "printf '[*]\\nalias = from-the-file\\nn-predict = 1\\n' >~/.config/llama.cpp/config.ini")
    names = "LLAMA_ARG_N_PREDICT=1 LLAMA_ARG_ALIAS=from-a-variable LLAMA_API_KEY=from-a-variable HF_TOKEN=hf_x"
    as_dev(newer.host, f"systemctl --user set-environment {names}")
    as_dev(newer.host, f"systemctl --user restart {UNIT}")
    assert complete(newer.host)["tokens_predicted"] == 8
    assert "from-" not in as_dev(newer.host, "curl -s http://127.0.0.1:8091/v1/models")
    told = as_dev(newer.host, f"tr '\\0' '\\n' </proc/$(systemctl --user show -p MainPID --value {UNIT})/environ")
    assert not [line for line in told.splitlines() if line.startswith(("LLAMA", "HF_"))]
    as_dev(newer.host, f"systemctl --user unset-environment {re.sub('=[^ ]*', '', names)}; rm -r ~/.config/llama.cpp")


def test_where_no_namespaces_can_be_made_the_service_has_the_other_half_of_its_sandbox(newer: Newer) -> None:
    """A filter on the user's manager: each of its units gets EPERM, as where the kernel forbids them."""
    place = "/etc/systemd/system/user@.service.d"
    newer.host.sh(f"mkdir -p {place} && printf '[Service]\\nRestrictNamespaces=~user\\n' >{place}/lab.conf")
    newer.host.sh("systemctl daemon-reload && systemctl restart user@1000", timeout=120)
    as_dev(newer.host, "rm ~/.local/share/paddock/sandbox.json")
    newer.deploy()
    text = newer.unit("user")
    assert "\nNoNewPrivileges=yes\n" in text
    assert "PrivateUsers" not in text
    assert complete(newer.host)["tokens_predicted"] == 8
    newer.host.sh(f"rm -r {place} && systemctl daemon-reload && systemctl restart user@1000", timeout=120)
    as_dev(newer.host, "rm ~/.local/share/paddock/sandbox.json")


# A card is a node in /dev to what lists the devices; here a tunnel's, which this machine has.
CARD = "#!/bin/sh\necho Available devices:\ntest ! -c /dev/net/tun || echo '  CUDA0: a card (1 MiB)'\n"


def test_a_directive_that_hides_the_card_is_found_and_left_out(newer: Newer) -> None:
    program = newer.host.root / "usr/local/bin/lists-a-card"
    program.write_text(CARD)
    program.chmod(0o755)
    groups = {"calls": sandbox.CALLS, "files": ["PrivateDevices=yes", *sandbox.FILES]}
    ask = {"server": "/usr/local/bin/lists-a-card", "groups": groups, "digest": "d", "path": "/var/tmp/found.json"}
    script = sandbox.by_root(json.dumps({**ask, "flags": sandbox.FLAGS["system"]}))
    (newer.host.root / "var/tmp/trial.sh").write_text(stdin(replace(script, root=False)))
    newer.host.sh("sh /var/tmp/trial.sh", timeout=180)
    found = json.loads((newer.host.root / "var/tmp/found.json").read_text())
    assert found == {"digest": "d", "groups": ["calls"], "why": "llama-server sees other devices in it: none"}


def test_a_drop_in_has_the_last_word_and_is_left_as_it_is(newer: Newer) -> None:
    as_dev(newer.host, f"mkdir -p $(dirname {OWN}) && printf '[Service]\\nMemoryMax=1G\\nNice=3\\n' >{OWN}")
    as_dev(newer.host, "systemctl --user daemon-reload")
    newer.deploy()
    assert as_dev(newer.host, f"systemctl --user show -p MemoryMax --value {UNIT}") == str(1 << 30)
    assert as_dev(newer.host, f"cat {OWN}") == "[Service]\nMemoryMax=1G\nNice=3"


def test_the_systems_service_takes_over_with_a_key_that_nobody_sees(newer: Newer) -> None:
    file = newer.host.root / "home/dev/llama.key"  # not by a command: its words would be in the journal
    file.write_text(KEY + "\n")
    file.chmod(0o600)
    os.chown(file, 1000, 1000)
    newer.deploy(service_scope="system", host=newer.host.address, api_key_file="~/llama.key")
    text = newer.unit("system")
    assert "\nDynamicUser=yes\n" in text
    assert "/home/" not in text.replace("LoadCredential=api-keys:/home/dev/llama.key", "")
    level = newer.host.sh(f"systemd-analyze security --no-pager {UNIT} | tail -n 1").stdout
    assert float(re.findall(r"\d+\.\d+", level)[0]) < 5.0, level
    pid = newer.host.sh(f"systemctl show -p MainPID --value {UNIT}").stdout.strip()
    program = newer.host.sh(f"readlink /proc/{pid}/exe; stat -c %u /proc/{pid}").stdout.split()
    assert program[0].startswith("/opt/paddock/releases/")
    assert int(program[1]) > 60000, "an account of systemd's own making"
    assert newer.host.sh(f"test -e {UNITS['user']}", check=False).returncode != 0
    seen = newer.host.sh(
        f"cat /proc/{pid}/environ {UNITS['system']} /var/lib/paddock/*.json; journalctl --no-pager"
    ).stdout
    assert KEY not in seen
    assert not [argv for argv in processes().values() if KEY in " ".join(argv)]


def test_it_answers_after_a_reboot_and_only_to_who_has_the_key(newer: Newer) -> None:
    newer.host.reboot()
    ask = f"curl -s --retry 60 --retry-delay 1 --retry-all-errors -f http://{newer.host.address}:8091/health"
    assert "ok" in newer.host.sh(ask, timeout=120).stdout
    url = f"http://{newer.host.address}:8091/props"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url, timeout=30)
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def test_a_slower_release_of_the_systems_is_taken_back_by_root(newer: Newer) -> None:
    wanted: dict[str, Any] = {
        "service_scope": "system",
        "benchmark_depths": [0],
        "benchmark_on_regression": "rollback",
    }
    with quiet(newer.host):
        newer.deploy(**wanted)
        before = newer.unit("system")
        worse = newer.deploy(**wanted, **SLOW)
    assert "was measured slower than" in "\n".join(worse.last_words), worse.text
    assert newer.unit("system") == before
    assert complete(newer.host)["tokens_predicted"] == 8
    assert "stays as it was before: release" in newer.deploy(**wanted, **SLOW).text


def test_the_users_service_takes_over_again(newer: Newer) -> None:
    newer.deploy()
    assert complete(newer.host)["tokens_predicted"] == 8
    left = newer.host.sh("ls -d /opt/paddock /var/lib/paddock /etc/systemd/system/paddock-* 2>/dev/null", check=False)
    assert left.stdout == ""
    newer.host.reboot()
    assert complete(newer.host)["tokens_predicted"] == 8


def test_a_removal_leaves_the_users_drop_in_and_a_lingering_that_was_there(newer: Newer) -> None:
    run = newer.deploy(to="roles.remove")
    assert f"your own {UNIT}.service.d" in run.text
    assert newer.host.sh(f"cat {OWN}; ls /var/lib/systemd/linger").stdout.split()[-1] == "dev"
