"""How a script becomes root: with sudo or as root, with a password line or without, and what is said if not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from roles import remote
from roles.remote import Failed, Script
from tests.unit import local

# sudo -k -S -p "" -- COMMAND: the first word after -- and what follows is run.
FREE = """
echo "$*" >>"$0.called"
while test "$1" != --; do shift; done
shift
exec "$@"
"""
ASKING = """
echo "$*" >>"$0.called"
IFS= read -r line
printf '%s' "$line" >"$0.password"
test "$line" = sesame || { echo 'sudo: 1 incorrect password attempt' >&2; exit 1; }
while test "$1" != --; do shift; done
shift
exec "$@"
"""
NO_SUDOER = """
echo 'dev is not in the sudoers file.' >&2
exit 1
"""


def stdin(script: Script, password: str = "") -> str:
    """As `remote.run` sends it."""
    return f"{password}\n{remote._READY}\n{remote._stdin(script)}"


def run(script: Script, password: str = "", **env: str) -> list[str]:
    """The script's own lines; raises Failed."""
    done = local.shell(remote._root_command(script), stdin(script, password), **env)
    assert done.stderr == "", "all that pyinfra may see is on standard output"
    assert done.returncode == 0, "or pyinfra would ask for a password itself"
    return remote._root_result(done.stdout.splitlines(), script)


def as_user(folder: Path, sudo: str | None) -> dict[str, str]:
    """A PATH on which `id -u` is 1000 and sudo is a stand-in, or missing."""
    path = local.tool(folder / "bin", "id", "echo 1000\n")
    if sudo is not None:
        local.tool(folder / "bin", "sudo", sudo)
        return {"PATH": path}
    for name in ("sh", "timeout", "test", "env"):
        (folder / "bin" / name).symlink_to(shutil.which(name) or name)
    return {"PATH": str(folder / "bin")}


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="runs as root without sudo only where we are root")


@needs_root
@pytest.mark.parametrize("password", ["", "sesame"])
def test_as_root_the_password_line_is_skipped_and_sudo_is_not_called(tmp_path: Path, password: str) -> None:
    path = local.tool(tmp_path / "bin", "sudo", "echo never; exit 1\n")
    script = Script('id -u; echo "$1"', ("it's\nme",))
    assert run(script, password, PATH=path) == ["0", "it's", "me"]


@pytest.mark.parametrize("password", ["", "sesame"])
def test_a_sudo_that_asks_nothing_leaves_the_line_and_it_is_skipped(tmp_path: Path, password: str) -> None:
    assert run(Script('echo "$1"', ("hello",)), password, **as_user(tmp_path, FREE)) == ["hello"]


def test_a_sudo_that_asks_takes_the_line(tmp_path: Path) -> None:
    assert run(Script('echo "$1"', ("hello",)), "sesame", **as_user(tmp_path, ASKING)) == ["hello"]
    assert (tmp_path / "bin/sudo.password").read_text() == "sesame"


@pytest.mark.parametrize("password", [" two  blanks ", "back\\slash", "quote'\"$HOME", "模型", "-n"])
def test_sudo_gets_the_password_as_it_is(tmp_path: Path, password: str) -> None:
    with pytest.raises(Failed):
        run(Script("true"), password, **as_user(tmp_path, ASKING))
    assert (tmp_path / "bin/sudo.password").read_text() == password


def test_sudo_is_never_given_a_cached_credential_and_never_shows_a_prompt(tmp_path: Path) -> None:
    run(Script("true", seconds=7), **as_user(tmp_path, FREE))
    called = (tmp_path / "bin/sudo.called").read_text()
    assert called.startswith("-k -S -p  -- timeout -k 10 7 sh -c ")
    assert called.count("\n") == 1


@pytest.mark.parametrize(
    ("sudo", "sentence"),
    [
        (ASKING, "root is needed and sudo refused it: sudo: 1 incorrect password attempt"),
        (NO_SUDOER, "root is needed and sudo refused it: dev is not in the sudoers file."),
        (None, "root is needed and sudo refused it: sh: .*sudo.*not found"),
    ],
)
def test_a_sudo_that_refuses_is_told_in_its_own_words(tmp_path: Path, sudo: str | None, sentence: str) -> None:
    with pytest.raises(Failed, match=sentence):
        run(Script("echo never"), "wrong", **as_user(tmp_path, sudo))


@pytest.mark.parametrize("sudo", [FREE, ASKING])
def test_the_scripts_own_sentence_comes_back(tmp_path: Path, sudo: str) -> None:
    with pytest.raises(Failed, match=r"^the mirror is gone$"):
        run(Script('echo noise; fail "the mirror is gone"'), "sesame", **as_user(tmp_path, sudo))


def test_a_failure_without_a_sentence_is_the_tools_last_word_or_its_status(tmp_path: Path) -> None:
    env = as_user(tmp_path, FREE)
    with pytest.raises(Failed, match=r"^E: no such package$"):
        run(Script("echo 'E: no such package' >&2; exit 100"), **env)
    with pytest.raises(Failed, match=r"^exit status 7$"):
        run(Script("exit 7"), **env)


def test_a_script_that_takes_too_long_is_told_so(tmp_path: Path) -> None:
    env = as_user(tmp_path, FREE)
    local.hasty(tmp_path / "bin")
    with pytest.raises(Failed, match=r"^it took longer than 7 s$"):
        run(Script("sleep 60", seconds=7), **env)


@pytest.mark.parametrize("text", ["printf done", "printf 'one\\ndone'", "echo done", "printf ''", "echo"])
def test_output_may_end_without_a_line_break(tmp_path: Path, text: str) -> None:
    expected = {"printf ''": [], "echo": [""], "printf 'one\\ndone'": ["one", "done"]}.get(text, ["done"])
    assert run(Script(text), **as_user(tmp_path, FREE)) == expected


def test_what_a_login_shell_or_sudo_said_before_is_not_the_scripts(tmp_path: Path) -> None:
    lecture = "echo 'We trust you have received the usual lecture.' >&2\n" + FREE
    assert run(Script("echo mine"), **as_user(tmp_path, lecture)) == ["mine"]


def test_a_lost_connection_is_a_failure() -> None:
    for lines in ([], ["half a li"], [remote._READY], [remote._READY, "some output"]):
        with pytest.raises(Failed):
            remote._root_result(lines, Script("true"))
