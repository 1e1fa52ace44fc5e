"""Each kind of run once, for all the tests that read it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.plan import runs
from tests.plan.runs import Run, host
from tests.unit import browsers, hosts

# Scripts are on standard input, where @fake does not look: what tells them apart is their time limit.
CLAIM, LINGER = "-k 10 120 sh -s", "-k 10 180 python3"
TAKEN, DONE = ["taken", "", "paddock-exit 0"], ["", "paddock-exit 0"]
REFUSED = ["paddock: root is needed and sudo refused it: sudo: a password is required", "", "paddock-exit 1"]
NO_SUDOER = ["paddock: root is needed and sudo refused it: dev is not in the sudoers file.", "", "paddock-exit 1"]
HELD = ['{"who": "ann@desk", "since": "noon"}', "", "paddock-exit 0"]
NOWHERE: dict[str, Any] = {"llama_repo": "file:///nonexistent/llama.cpp", "hub_endpoint": "http://127.0.0.1:1"}
HUB: dict[str, Any] = {"model_path": None, "model_repo": "owner/name", "model_file": "some.gguf"}
LOCK = {
    "llama_cpp": {"file:///nonexistent/llama.cpp b12464": hosts.COMMIT},
    "web_ui": {"b12464": {"sha256": None}},
    "model": {
        "owner/name main some.gguf": {
            "commit": "c" * 40,
            "files": [{"path": "some.gguf", "size": hosts.PIN.size, "sha256": hosts.PIN.sha256}],
        },
    },
}


@pytest.fixture(scope="session")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Settings that name a tag of a real repository."""
    folder = tmp_path_factory.mktemp("llama.cpp")
    person = ["-c", "user.name=test", "-c", "user.email=test@example.test"]
    for words in (["init", "-q"], [*person, "commit", "-q", "--allow-empty", "-m", "work"], ["tag", "b1"]):
        env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
        subprocess.run(["git", "-C", str(folder), *words], check=True, timeout=30, env=env)
    return {"llama_repo": folder.as_uri(), "llama_ref": "b1", "web_ui": "off", "only": "packages"}


def drifted() -> hosts.Answers:
    """Somebody edited the unit and took a package away."""
    unit = hosts.converged_answers()["service"]["unit"].replace("-c 32768", "-c 4096")
    commands = {**hosts.converged_answers()["host"]["commands"], "cmake": None}
    return hosts.converged_answers(host={"commands": commands}, service={"unit": unit})


def stopped() -> hosts.Answers:
    """Somebody stopped the service, and nothing is recorded of the host."""
    properties = {"ActiveState": "inactive", "Result": "success", "InactiveEnterTimestampMonotonic": "5000000"}
    service = {"properties": properties, "running_stamp": None, "port_taken": False, "port_holder": None}
    return hosts.converged_answers(service=service, record={"facts": None})


def with_lock(folder: Path) -> Path:
    (folder / "laptops.lock.yml").write_text(yaml.safe_dump(LOCK))
    return folder


@pytest.fixture(scope="session")
def dry_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_lock(tmp_path_factory.mktemp("dry"))


@pytest.fixture(scope="session")
def dry(dry_folder: Path, tagged: dict[str, Any]) -> Run:
    """A look at every kind of host."""
    no_root = hosts.converged_answers(host={"root": "none", "lingers": False}, browser=browsers.both())
    absent = {"file": None, "is_gguf": False}
    locked = {**HUB, **NOWHERE, "llama_ref": "b12464"}
    machines = {
        "bare": host(hosts.bare_answers()),
        "good": host(hosts.converged_answers()),
        "drifted": host(drifted()),
        "locked": host(hosts.bare_answers(model=absent), **locked),
        "unpinned": host(hosts.bare_answers(), **NOWHERE, llama_ref="b99999"),
        "tagged": host(hosts.converged_answers(), **tagged),
        "no-systemd": host(hosts.bare_answers(host={"systemd": False})),
        "no-sudo": host(no_root),
        "password": host(hosts.bare_answers(host={"root": "password"})),
        "stopped": host(stopped()),
        "garbage": host("Killed"),
        "torn": host('{"host": {"user": "dev"'),
        "silent": host(""),
        "no-python": host("no python3"),
    }
    return runs.run(dry_folder, machines, "--dry")


@pytest.fixture(scope="session")
def acting_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("acting")


@pytest.fixture(scope="session")
def acting(acting_folder: Path, tagged: dict[str, Any]) -> Run:
    """A run with -y, every command shown, on hosts of which some have trouble."""
    not_lingering = hosts.converged_answers(host={"lingers": False})
    machines = {
        "good": host(hosts.converged_answers()),
        "tagged": host(hosts.converged_answers(), **tagged),
        "acts": host(not_lingering, {CLAIM: TAKEN, LINGER: DONE}),
        "partly": host({**not_lingering, "record": {"facts": None}}, {CLAIM: TAKEN, LINGER: DONE}, only="service"),
        "stumbles": host(not_lingering, {CLAIM: TAKEN, LINGER: REFUSED}),
        "no-sudoer": host(not_lingering, {CLAIM: TAKEN, LINGER: NO_SUDOER}),
        "claimed": host(not_lingering, {CLAIM: HELD}),
        "lost": host(not_lingering, {CLAIM: TAKEN, LINGER: ["half a li"]}),
        "no-systemd": host(hosts.converged_answers(host={"systemd": False})),
        "garbage": host("Killed"),
    }
    return runs.run(acting_folder, machines, "-y", "-vv")


@pytest.fixture(scope="session")
def as_json(tmp_path_factory: pytest.TempPathFactory) -> Run:
    machines = {"bare": host(hosts.bare_answers()), "good": host(hosts.converged_answers())}
    return runs.run(tmp_path_factory.mktemp("json"), machines, "--dry", "--json")


@pytest.fixture(scope="session")
def dry_at_once(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """With both words, as in CI: one keeps the other from asking."""
    machines = {"bare": host(hosts.bare_answers()), "no-systemd": host(hosts.bare_answers(host={"systemd": False}))}
    return runs.run(tmp_path_factory.mktemp("both"), machines, "-y", "--dry")


@pytest.fixture(scope="session")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Bad settings on two hosts, a patch that is not there, and a lock that is none."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "laptops.lock.yml").write_text("- not a lock\n")
    machines = {
        "first": host(hosts.bare_answers(), contxt=4096, port="8091"),
        "second": host(hosts.bare_answers(), only="servce", fit="on", n_cpu_moe=44),
        "good": host(hosts.bare_answers()),
        "patched": host(hosts.bare_answers(), llama_patches=["missing.patch"]),
    }
    return runs.run(folder, machines, "-y")


@pytest.fixture(scope="session")
def only_benchmark(tmp_path_factory: pytest.TempPathFactory) -> Run:
    stale = hosts.converged_answers(host={"lingers": False}, benchmark={"last": None})
    return runs.run(tmp_path_factory.mktemp("only"), {"stale": host(stale)}, "--dry", "--data", "only=benchmark")
