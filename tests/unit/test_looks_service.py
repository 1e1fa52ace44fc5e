"""What the probe sees of a service: its unit, its port, its keys."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from roles import probe_tools
from roles.benchmark.observe import HISTORY
from roles.host import HOST
from roles.service import way_back
from roles.service.observe import ask_for_service, look_at_service
from roles.service.scope import SYSTEM, USER
from tests.unit import hosts, local

UNIT = "paddock-llama-server.service"
ASK = {
    "unit": UNIT,
    "properties": ["UMask"],
    "watchdog": "paddock-watchdog",
    "benchmark": "paddock-benchmark",
    "manager": "user",
    "units": USER.units,
    "state": USER.state,
    "kept": USER.state,
    "elsewhere": "/nonexistent",
    "away": "/nonexistent",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(params=["127.0.0.1", "::1"])
def listening(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """An address on loopback that this process listens on."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    try:
        server = socket.create_server((request.param, 0), family=family)
    except OSError as error:
        pytest.skip(f"this machine has no {request.param}: {error}")
    with server:
        yield request.param, server.getsockname()[1]


def test_a_port_is_taken_by_whoever_listens(home: Path, listening: tuple[str, int]) -> None:
    seen = look_at_service({**ASK, "key_file": None, "port": listening[1]})
    comm = Path("/proc/self/comm").read_text().strip()
    assert (seen["port_taken"], seen["port_holder"]) == (True, {"pid": os.getpid(), "name": comm})


def test_a_port_of_another_users_process_is_told_by_its_user(
    home: Path, listening: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose socket it is the kernel tells everybody; which process has it, only its owner."""
    monkeypatch.setattr("roles.service.observe.entries", lambda folder: [])
    seen = look_at_service({**ASK, "key_file": None, "port": listening[1]})
    name = probe_tools.user_name(os.getuid())
    assert (seen["port_taken"], seen["port_holder"], seen["port_owner"]) == (True, None, name)


def test_a_user_without_a_name_is_a_number() -> None:
    assert probe_tools.user_name(0) == "root"
    assert probe_tools.user_name(4_242_424) == "uid 4242424"


def test_a_port_that_only_a_client_uses_is_free(home: Path, listening: tuple[str, int]) -> None:
    with socket.create_connection(listening) as client:
        port = client.getsockname()[1]
        seen = look_at_service({**ASK, "key_file": None, "port": port})
    assert (seen["port_taken"], seen["port_holder"], seen["port_owner"]) == (False, None, None)


def test_the_unit_its_properties_and_its_process_are_seen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home / ".config/systemd/user"
    folder.mkdir(parents=True)
    (folder / UNIT).write_text("[Service]\n")
    stamped = {**os.environ, "PADDOCK_STAMP": "0123456789abcdef"}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=stamped, stdin=subprocess.PIPE) as process:
        said = f"echo ActiveState=active; echo MainPID={process.pid}; echo Odd=a=b\n"
        monkeypatch.setenv("PATH", local.tool(home / "bin", "systemctl", said))
        seen = look_at_service({**ASK, "key_file": None, "port": 1})
        process.communicate(b"\n")
    assert seen["unit"] == "[Service]\n"
    assert seen["properties"] == {"ActiveState": "active", "MainPID": str(process.pid), "Odd": "a=b"}
    assert seen["running_stamp"] == "0123456789abcdef"


@pytest.mark.parametrize(
    ("properties", "when"),
    [
        ("NRestarts=1 Result=success", "2026-11-30T18:06:40+0000"),
        ("NRestarts=0 Result=oom-kill", "2026-11-30T18:06:40+0000"),
        ("NRestarts=0 Result=success", None),  # nothing ended, so that nobody needs to be asked
    ],
)
def test_a_service_that_outgrew_its_cap_is_seen_after_it_came_back(
    home: Path, monkeypatch: pytest.MonkeyPatch, properties: str, when: str | None
) -> None:
    local.tool(home / "bin", "systemctl", f"printf '%s\\n' {properties}\n")
    line = f"2026-11-30T18:06:40+0000 vm systemd[168]: {UNIT}: Failed with result 'oom-kill'."
    asked = f'case "$*" in *"USER_UNIT={UNIT} UNIT_RESULT=oom-kill") echo "{line}";; esac\n'
    monkeypatch.setenv("PATH", local.tool(home / "bin", "journalctl", asked))
    assert look_at_service({**ASK, "key_file": None, "port": 1})["outgrew"] == when


@pytest.mark.parametrize("works", [local.needs_root(True), local.needs_root(False)])
def test_what_root_took_back_is_seen_where_the_user_remembers_it_and_what_it_could_not_is_not(
    home: Path, works: bool
) -> None:
    (home / ".local/share/paddock").mkdir(parents=True)
    wishes = hosts.wishes(service_scope="system")
    seen = hosts.converged(wishes)
    seen = seen.replace(HOST, user="root", home=str(home), data="")
    step = way_back.for_good(SYSTEM, "slow", ('{"b1": "slow"}', "{}", HISTORY), lambda _: None, seen)
    # The system's manager is this machine's.
    local.tool(home / "bin", "systemctl", "exit 3\n")
    path = local.tool(
        home / "bin", "systemd-run", f"case $* in *'rollback slow') exit {0 if works else 1} ;; esac\nexit 2\n"
    )
    done = local.run(replace(step.script, root=False), PATH=path, HOME="/nonexistent")
    assert done.returncode == (0 if works else 1), done.stderr
    assert look_at_service(ask_for_service(wishes))["rejected"] == ({"b1": "slow"} if works else {})


@pytest.mark.parametrize(("state", "measuring"), [("active", True), ("inactive", False), ("failed", False)])
def test_a_benchmark_under_way_is_seen(
    home: Path, monkeypatch: pytest.MonkeyPatch, state: str, measuring: bool
) -> None:
    said = f'test "$*" != "--user is-active paddock-benchmark" || echo {state}\n'
    monkeypatch.setenv("PATH", local.tool(home / "bin", "systemctl", said))
    assert look_at_service({**ASK, "key_file": None, "port": 1})["measuring"] is measuring


def test_a_host_without_a_unit_or_systemctl_has_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    seen = look_at_service({**ASK, "key_file": None, "port": 1})
    assert (seen["unit"], seen["properties"], seen["running_stamp"]) == (None, {}, None)
    assert (seen["proved"], seen["key_file"]) == (None, None)


def test_keys_and_the_proof_of_an_earlier_run_are_seen(home: Path) -> None:
    (home / "keys").write_text("secret\n")
    (home / "keys").chmod(0o600)
    (home / ".local/share/paddock").mkdir(parents=True)
    (home / ".local/share/paddock/proved.json").write_text('{"stamp": "0123456789abcdef"}')
    seen = look_at_service({**ASK, "key_file": "~/keys", "port": 1})
    assert seen["proved"] == "0123456789abcdef"
    assert (seen["key_file"]["mode"], seen["key_file"]["keys"]) == (0o600, 1)
    assert "secret" not in json.dumps(seen)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("s3cret\n", 1),
        ("s3cret", 1),
        ("s3cret\nother\n", 2),
        ("", 0),
        ("\n \n\t\n", 0),
        ("# s3cret\n", 0),
        ("  # s3cret\n", 0),
        ("# mine\n\n  s3cret  \n", 1),
        ("s3cret # not a comment\n", 1),
        ('"s3cret"\n', 0),
        ("s3\\cret\n", 0),
        ("s3cret\r\n", 1),
        ("\x00\xff s3cret\n", 1),
    ],
)
def test_keys_are_counted_and_none_leaves_the_host(home: Path, text: str, keys: int) -> None:
    (home / "keys").write_bytes(text.encode("latin-1"))
    seen = look_at_service({**ASK, "key_file": "~/keys", "port": 1})
    assert seen["key_file"]["keys"] == keys
    assert "cret" not in json.dumps(seen)
    hosts.converged(service={"key_file": seen["key_file"]})


@pytest.mark.parametrize("kind", ["dir", "other"])
def test_what_is_no_file_has_no_keys(home: Path, kind: str) -> None:
    if kind == "dir":
        (home / "keys").mkdir()
    else:
        (home / "keys").symlink_to("/dev/null")
    seen = look_at_service({**ASK, "key_file": "~/keys", "port": 1})
    assert (seen["key_file"]["kind"], seen["key_file"]["keys"]) == (kind, 0)
