"""The service's sandbox: what a host may have of it, what a trial keeps, what the unit says then."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roles.observation import Observation
from roles.overview.status import row
from roles.service import sandbox
from roles.service.decide import running
from roles.service.directives import held
from roles.service.observe import SERVICE
from roles.service.observe_sandbox import look_at_sandbox
from roles.service.reasons import changes
from roles.service.unit import wanted_unit
from tests.unit import hosts, local, machines, seed, services
from tests.unit.deciding import acting, resting
from tests.unit.programs import ROLES, assert_old_python_can_run, definitions

MODPROBE = {"modprobe": "/usr/bin/nvidia-modprobe"}
NONE = {"trial": None}
NO_NAMESPACES = {**machines.machine(), "user_namespaces": False}


def laptop(**changes: dict[str, Any]) -> Observation:
    return hosts.parsed(seed.laptop_answers(**changes))


@pytest.mark.parametrize(
    ("wanted", "seen", "groups", "lacks"),
    [
        (hosts.wishes(), hosts.bare(), ["calls", "files"], None),
        (hosts.wishes(), hosts.bare(machine=NO_NAMESPACES), ["calls"], "users may make no namespaces"),
        (hosts.wishes(), hosts.bare(sandbox=MODPROBE), ["calls", "files"], None),
        (seed.wishes(), laptop(), ["calls", "files"], None),
        (seed.wishes(), laptop(sandbox=MODPROBE), [], "/usr/bin/nvidia-modprobe, which becomes root"),
        (seed.wishes(), laptop(sandbox={**MODPROBE, "uvm_at_boot": True}), ["calls", "files"], None),
    ],
)
def test_what_would_cost_the_gpu_or_be_ignored_is_left_out_and_that_is_said(
    wanted: Any, seen: Observation, groups: list[str], lacks: str | None
) -> None:
    found, told = sandbox.offered(wanted, seen)
    assert list(found) == groups
    assert (told is None) if lacks is None else lacks in (told or "")


def test_a_card_keeps_its_nodes_and_may_make_code_at_run_time() -> None:
    cuda = {line for lines in sandbox.offered(seed.wishes(), laptop())[0].values() for line in lines}
    assert not [line for line in cuda if line.startswith(("PrivateDevices", "Device", "ProtectClock", "MemoryDeny"))]
    assert "CacheDirectory=paddock/cuda" in cuda
    assert sandbox.NO_JIT in sandbox.offered(hosts.wishes(), hosts.bare())[0]["calls"]


def test_what_the_inventory_lets_the_server_write_can_be_written() -> None:
    wanted = hosts.wishes(server_args=["--slot-save-path", "/srv/slots", "--no-warmup"])
    assert "ReadWritePaths=/srv/slots" in sandbox.offered(wanted, hosts.bare())[0]["files"]


def test_a_folder_with_blanks_is_one_folder() -> None:
    wanted = hosts.wishes(server_args=["--slot-save-path", '/srv/my "slots" 5%'])
    assert 'ReadWritePaths="/srv/my \\"slots\\" 5%%"' in sandbox.offered(wanted, hosts.bare())[0]["files"]


def test_that_there_can_be_no_sandbox_is_told_when_the_service_comes_to_be_and_not_at_every_run() -> None:
    assert not sandbox.sandboxed(seed.wishes(), laptop(sandbox=MODPROBE)).steps
    assert "/etc/modules-load.d" in (sandbox.smaller(seed.wishes(), "r", laptop(sandbox=MODPROBE)) or "")
    less = trial(groups=["calls"], why="it does not start (status 226)")
    for wanted in (hosts.wishes(), hosts.wishes(context=65536)):
        decision = running(wanted, hosts.converged(sandbox=less, service=services.absent()))
        assert decision.left_out == "the service's sandbox is smaller than it could be: it does not start (status 226)"
    seen = hosts.converged(sandbox=less)
    unit = wanted_unit(hosts.wishes(), seen)
    there: dict[str, Any] = {"unit": unit.text, "running_stamp": unit.stamp, "proved": unit.stamp}
    properties = {**seen[SERVICE].properties, **held(unit.text)}
    resting(
        partial(running, hosts.wishes()), hosts.converged(sandbox=less, service={**there, "properties": properties})
    )


def test_the_status_tells_what_a_trial_found_wrong() -> None:
    found = "llama-server sees other devices in it: none"
    told = row(hosts.wishes(), hosts.converged(sandbox=trial(groups=["calls"], why=found)))[0]
    assert f"({found})" in told


def test_a_release_that_cannot_list_devices_is_not_tried_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = '{"devices": null, "said": "error: invalid argument: --list-devices"}'
    monkeypatch.setenv("PATH", local.tool(tmp_path / "bin", "systemd-run", f"echo '{said}'\n"))
    ask = {"server": "/r/llama-server", "groups": {"calls": []}, "digest": "d", "path": str(tmp_path / "found")}
    definitions("service/sandbox_program.py").main({**ask, "flags": []})
    told = {"digest": "d", "groups": [], "why": "error: invalid argument: --list-devices"}
    assert json.loads((tmp_path / "found").read_text()) == told
    monkeypatch.setenv("PATH", local.tool(tmp_path / "busy", "systemd-run", "exit 1\n"))
    with pytest.raises(SystemExit, match="cannot be tried: it does not start"):
        definitions("service/sandbox_program.py").main({**ask, "flags": []})


TRIED = partial(sandbox.sandboxed, hosts.wishes())


def trial(**fields: Any) -> dict[str, Any]:
    """A finding of the converged host's trial, some of it changed."""
    return {"trial": {**hosts.converged_answers()["sandbox"]["trial"], **fields}}


def test_a_release_is_tried_once_before_its_unit_is_written() -> None:
    resting(TRIED, hosts.converged())
    decision = acting(TRIED, hosts.converged(sandbox={"trial": None}))
    [step] = decision.steps
    assert step.minor, "a service without a sandbox is better than none"
    ask = json.loads(step.script.args[0])
    assert ask["server"].endswith("/bin/llama-server")
    assert set(ask["groups"]) == {"calls", "files"}
    acting(TRIED, hosts.converged(sandbox=trial(digest="another")))


@pytest.mark.parametrize("fields", [{"host": {"user_manager": False}}, {"llama_cpp": {"releases": {}}}])
def test_where_nothing_can_run_nothing_is_tried(fields: dict[str, Any]) -> None:
    resting(TRIED, hosts.converged(**fields, sandbox={"trial": None}))


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (hosts.converged(), "sandbox: system calls, files"),
        (hosts.converged(sandbox=trial(groups=["calls"])), "sandbox: system calls"),
        (hosts.converged(sandbox=trial(groups=[])), "sandbox: none"),
        (hosts.converged(sandbox={"trial": None}), "sandbox: none"),
        (hosts.converged(sandbox=trial(digest="another")), "sandbox: none"),
    ],
)
def test_the_unit_says_what_passed_and_nothing_untried(seen: Observation, told: str) -> None:
    assert sandbox.told(wanted_unit(hosts.wishes(), seen).text) == told


def test_another_sandbox_is_one_reason_and_not_one_for_each_directive() -> None:
    old, new = (wanted_unit(hosts.wishes(), seen).text for seen in (hosts.converged(sandbox=NONE), hosts.converged()))
    assert changes(old, new) == "sandbox none -> system calls, files"
    edited = new.replace("ProtectHome=read-only", "ProtectHome=no")
    assert changes(edited, new) == "ProtectHome no -> read-only"


def test_a_torn_finding_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "found").write_text("[1")
    assert look_at_sandbox({"path": "~/found"})["trial"] is None


def test_an_old_python_can_run_the_trial() -> None:
    assert_old_python_can_run((ROLES / "service/sandbox_program.py").read_text("utf-8"))


# The kernel's part and systemd's are played: which groups would take the device, be ignored, or not start at all.
RUN = """
directives=$(printf '%s\\n' "$@")
inside() { printf '%s' "$directives" | grep -q -- "--property=$1"; }
if inside Broken=yes; then exit 226; fi
calls=false files=false devices='"CUDA0: Some card"'
if inside NoNewPrivileges=yes; then calls=true; fi
if inside ProtectSystem=strict; then files=true; fi
if inside PrivateDevices=yes; then devices=; fi
printf '{"calls": %s, "files": %s, "devices": [%s], "said": "x"}' "$calls" "$files" "$devices"
"""


@pytest.mark.parametrize(
    ("calls", "files", "kept", "why"),
    [
        ("NoNewPrivileges=yes", "ProtectSystem=strict", ["calls", "files"], ""),
        ("NoNewPrivileges=yes", "Broken=yes", ["calls"], "it does not start (status 226)"),
        ("Broken=yes", "ProtectSystem=strict", ["files"], "it does not start (status 226)"),
        ("NoNewPrivileges=yes", "PrivateDevices=yes", ["calls"], "llama-server sees other devices in it: none"),
        ("NoNewPrivileges=yes", "PrivateTmp=yes", ["calls"], "files would be ignored by this systemd"),
        ("Broken=yes", "PrivateDevices=yes", [], "it does not start (status 226)"),
    ],
)
def test_a_trial_keeps_the_most_that_is_in_force_and_hides_no_device(
    calls: str, files: str, kept: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", local.tool(tmp_path / "bin", "systemd-run", RUN))
    path, groups = tmp_path / "data/found", {"calls": [calls], "files": [files]}
    ask = {"server": "/r/llama-server", "groups": groups, "digest": "d", "path": str(path), "flags": ["--user"]}
    definitions("service/sandbox_program.py").main(ask)
    assert json.loads(path.read_text()) == {"digest": "d", "groups": kept, "why": why}


def test_systemd_knows_every_directive(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not on this machine")
    lines = (*sandbox.CALLS, *sandbox.FILES, sandbox.NO_JIT, *sandbox.CUDA_CACHE)
    unit = tmp_path / "some.service"
    unit.write_text("\n".join(["[Service]", "ExecStart=/bin/true", *lines, ""]))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
