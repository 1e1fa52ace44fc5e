"""The programs that delete models and look at other users: only what is a model, only as its owner, never in use."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roles import remote
from roles.browser import freed, others
from roles.browser.observe_models import MODELS
from roles.remote import Script
from tests.unit import local
from tests.unit.browsers import profile


def planted(folder: Path) -> Path:
    for kind in ("OptGuideOnDeviceModel/2025.6/weights.bin", "OptGuideManifestModel/ab/1/weights.bin", "Default/Login"):
        (folder / kind).parent.mkdir(parents=True, exist_ok=True)
        (folder / kind).write_text("x")
    return folder


def delete(folder: Path, *programs: str) -> subprocess.CompletedProcess[str]:
    asked = json.loads(freed.deletion(MODELS.seen.model_validate({"profiles": [profile()]}).profiles[0]).script.args[0])
    script = Script(freed.DELETE, (json.dumps({**asked, "path": str(folder), "programs": programs}),), python=True)
    return local.run(script)


def test_deleting_takes_the_models_and_nothing_else(tmp_path: Path) -> None:
    other = tmp_path / "precious"
    other.mkdir()
    folder = planted(tmp_path / "google-chrome")
    (folder / "OptGuideOnDeviceClassifierModel").symlink_to(other)
    done = delete(folder)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["Default", "OptGuideOnDeviceClassifierModel"]
    assert (folder / "Default/Login").exists()
    assert other.is_dir(), "a link is nobody's model"
    assert delete(folder).returncode == 0


def test_deleting_looks_once_more_whether_the_browser_runs(tmp_path: Path) -> None:
    folder = planted(tmp_path / "google-chrome")
    (folder / "SingletonLock").symlink_to(f"host-{os.getpid()}")  # after a crash, and the number is somebody else's
    with subprocess.Popen([f"{tmp_path}/chrome", "60"], executable="/bin/sleep") as process:
        assert "runs; close it, and run again" in delete(folder, f"{tmp_path}/").stderr
        process.kill()
    assert (folder / "OptGuideOnDeviceModel").exists()
    assert delete(folder, f"{tmp_path}/").returncode == 0


@pytest.mark.parametrize("name", [local.needs_root("nobody")])
def test_a_program_for_another_user_runs_as_that_user(name: str) -> None:
    user = pwd.getpwnam(name)
    text = others.AS_USERS.replace("FIRST, LAST = 1000, 60513", f"FIRST, LAST = {user.pw_uid}, {user.pw_uid}").replace(
        "os.path.isdir(one.pw_dir)", "True"
    )
    who = Script(
        "import os; print(os.getuid(), os.getgid(), os.getgroups(), os.environ['HOME'], os.getsid(0) == os.getpid())",
        python=True,
    )
    inner = Script(text, (remote.stdin(who), ""), python=True)
    done = local.run(inner)
    assert json.loads(done.stdout) == {
        name: f"{user.pw_uid} {user.pw_gid} {os.getgrouplist(name, user.pw_gid)} {user.pw_dir} True"
    }


def test_a_user_who_is_not_there_is_told() -> None:
    script = Script(others.AS_USERS, ("pass", "no-such-user"), python=True)
    done = local.run(script)
    assert done.returncode == 1
    assert done.stderr.strip() == "paddock: there is no user no-such-user"


def test_only_people_with_a_home_are_looked_at(tmp_path: Path) -> None:
    """The users are stand-ins: a host's own cannot be made for a test."""
    entries = [
        pwd.struct_passwd((name, "x", uid, uid, "", home, "/bin/sh"))
        for name, uid, home in [
            ("root", 0, tmp_path), ("daemon", 999, tmp_path), ("ann", 1000, tmp_path), ("bob", 1001, tmp_path / "none"),
            ("homed", 60513, tmp_path), ("dynamic", 61184, tmp_path), ("nobody", 65534, tmp_path),
        ]
    ]  # fmt: skip
    names: dict[str, Any] = {}
    exec(others.AS_USERS.removesuffix("main()\n"), names)
    names["pwd"] = SimpleNamespace(getpwall=lambda: entries)
    assert [one.pw_name for one in names["people"]("", [])] == ["ann", "homed"]
    assert [one.pw_name for one in names["people"]("", ["ann"])] == ["homed"]
    assert [one.pw_name for one in names["people"]("ann", [])] == ["ann"]


@pytest.mark.parametrize("name", [local.needs_root("nobody")])
def test_what_another_user_says_is_not_meant_for_our_terminal(name: str) -> None:
    uid = pwd.getpwnam(name).pw_uid
    text = others.AS_USERS.replace("= 1000, 60513", f"= {uid}, {uid}").replace("os.path.isdir(one.pw_dir)", "True")
    evil = Script("import sys; sys.exit('paddock: \\x1b]0;evil\\x07')", python=True)
    done = local.run(Script(text, (remote.stdin(evil), name), python=True))
    assert (done.returncode, done.stderr.strip()) == (1, "paddock: ?]0;evil?")


def test_other_users_answers_are_directories_with_an_owner_or_they_are_named() -> None:
    def answer(**fields: Any) -> str:
        profiles = [profile(**fields), profile(path="/x", models={})]
        return json.dumps({"browser_models": {"profiles": profiles, "services": []}})

    broken = {
        "bob": "Traceback",
        "cyd": "",
        "eve": '{"browser_models": {"error": "x"}}',
        "fay": answer(path="/\x1b[2J"),
    }
    found, failed = others.parsed(json.dumps({"ann": answer(), **broken}))
    assert [(one.owner, one.path) for one in found] == [("ann", "/home/dev/.config/google-chrome")]
    assert failed == ["bob", "cyd", "eve", "fay"]
