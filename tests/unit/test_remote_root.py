"""How a script becomes root: with sudo or as root, with a password or without, and what is said if not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from roles.remote import Failed, Script
from tests.unit import local
from tests.unit.local import Here

# sudo -k -S -p PROMPT -- COMMAND. The shell's `read` takes no byte beyond its line, as sudo does.
ARGUMENTS = """
printf '%s\\n' "$*" >>"$0.called"
while test "$1" != --; do
    test "$1" != -p || prompt=$2
    shift
done
shift
"""
FREE = ARGUMENTS + 'exec "$@"\n'
ASKING = (
    ARGUMENTS
    + """
for try in 1 2 3; do
    printf '%s' "$prompt" >&2
    IFS= read -r line || { echo 'sudo: no password was provided' >&2; exit 1; }
    printf '%s\\n' "$line" >>"$0.passwords"
    test "$line" != sesame || exec "$@"
    echo 'Sorry, try again.' >&2
done
echo 'sudo: 3 incorrect password attempts' >&2
exit 1
"""
)
NO_SUDOER = "echo 'dev is not in the sudoers file.' >&2; exit 1\n"
WARNING = "echo 'sudo: unable to resolve host laptop: Name or service not known' >&2\n"


def user(folder: Path, sudo: str, password: str | None = None) -> Here:
    """A user who is not root, for programs and for the shell, with a stand-in for sudo."""
    path = local.tool(folder / "bin", "id", "echo 1000\n")
    local.tool(folder / "bin", "sudo", sudo)
    python = f'exec {shutil.which("python3")} -c "import os, sys; os.geteuid = lambda: 1000; exec(sys.stdin.read())"\n'
    local.tool(folder / "bin", "python3", python)
    return Here(password, PATH=path)


def passwords(folder: Path) -> list[str]:
    """What sudo took for passwords."""
    return (folder / "bin/sudo.passwords").read_text("utf-8").splitlines()


def root(text: str, *args: str, seconds: int = 60) -> Script:
    return Script(text, args, root=True, seconds=seconds)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
@pytest.mark.parametrize("password", [None, "sesame"])
def test_as_root_no_password_is_needed_and_sudo_is_not_called(tmp_path: Path, password: str | None) -> None:
    path = local.tool(tmp_path / "bin", "sudo", "echo never; exit 1\n")
    assert Here(password, PATH=path).run(root('id -u; echo "$1"', "it's\nme")) == ["0", "it's", "me"]


@pytest.mark.parametrize("password", [None, "sesame"])
def test_a_sudo_that_asks_nothing_leaves_the_password_and_it_is_skipped(tmp_path: Path, password: str | None) -> None:
    assert user(tmp_path, FREE, password).run(root('cat; echo "$1"', "hello")) == ["hello"]


def test_a_sudo_that_asks_takes_it(tmp_path: Path) -> None:
    assert user(tmp_path, ASKING, "sesame").run(root('echo "$1"', "hello")) == ["hello"]
    assert passwords(tmp_path) == ["sesame"]


@pytest.mark.parametrize("password", [" two  blanks ", "'\"$HOME\\n%s", "-模型"])
def test_a_wrong_password_is_tried_once_as_it_is(tmp_path: Path, password: str) -> None:
    """Three wrong ones would lock the account on some distributions."""
    with pytest.raises(Failed, match="root is needed and sudo refused it: "):
        user(tmp_path, ASKING, password).run(root("echo never"))
    assert passwords(tmp_path) == [password]


def test_without_a_password_none_is_tried(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"root is needed and sudo refused it: sudo: no password was provided$"):
        user(tmp_path, ASKING).run(root("echo never"))
    assert not (tmp_path / "bin/sudo.passwords").exists()


def test_sudo_is_never_given_a_cached_credential(tmp_path: Path) -> None:
    user(tmp_path, FREE).run(root("true", seconds=7))
    (called,) = (tmp_path / "bin/sudo.called").read_text().splitlines()[:1]
    assert called.startswith("-k -S -p ")


@pytest.mark.parametrize(
    ("sudo", "sentence"),
    [
        (NO_SUDOER, "dev is not in the sudoers file."),
        (WARNING + NO_SUDOER.replace("dev is", "sudo: dev is"), "sudo: dev is not in the sudoers file."),
        ("exit 1\n", "it said nothing"),
    ],
)
def test_a_sudo_that_refuses_is_told_in_its_own_words(tmp_path: Path, sudo: str, sentence: str) -> None:
    with pytest.raises(Failed) as caught:
        user(tmp_path, sudo, "sesame").run(root("echo never"))
    assert str(caught.value) == f"root is needed and sudo refused it: {sentence}"


@pytest.mark.parametrize(
    ("sudo", "may_not"),
    [
        (NO_SUDOER, True),
        (WARNING + NO_SUDOER.replace("dev is", "sudo: dev is"), True),
        ("echo 'Sorry, user dev is not allowed to execute /usr/bin/sh as root on laptop.' >&2; exit 1\n", True),
        ("echo 'Sorry, user dev may not run sudo on laptop.' >&2; exit 1\n", True),
        (ASKING, False),
        ("echo 'sudo: a password is required' >&2; exit 1\n", False),
        ("echo 'sudo: a terminal is required to read the password' >&2; exit 1\n", False),
        ("exit 1\n", False),
        (FREE, False),
    ],
)
def test_who_may_not_use_sudo_is_told_from_a_wrong_password(tmp_path: Path, sudo: str, may_not: bool) -> None:
    with pytest.raises(Failed) as caught:
        user(tmp_path, sudo, "wrong").run(root("fail 'this is not allowed by sudoers'"))
    assert caught.value.may_not is may_not


@pytest.mark.parametrize(
    ("sudo", "text", "sentence"),
    [
        (ASKING, 'echo noise; fail "the mirror is gone"', "the mirror is gone"),
        (FREE, "echo 'E: no such package' >&2; exit 100", "E: no such package"),
        (WARNING + FREE, "exit 7", "exit status 7"),
    ],
)
def test_a_script_that_fails_is_told_in_its_own_words(tmp_path: Path, sudo: str, text: str, sentence: str) -> None:
    with pytest.raises(Failed) as caught:
        user(tmp_path, sudo, "sesame").run(root(text))
    assert str(caught.value) == sentence


def test_what_was_said_before_root_was_there_is_not_the_scripts(tmp_path: Path) -> None:
    lecture = "echo 'We trust you have received the usual lecture.' >&2\n" + FREE
    assert user(tmp_path, lecture).run(root("echo mine")) == ["mine"]


def test_a_long_script_arrives_whole(tmp_path: Path) -> None:
    text = "\n".join(f": {'x' * 1000}" for _ in range(300)) + '\necho "$1"'
    assert user(tmp_path, FREE, "sesame").run(root(text, "hello")) == ["hello"]


def test_a_script_that_takes_too_long_is_told_so(tmp_path: Path) -> None:
    here = user(tmp_path, FREE)
    real = shutil.which("timeout")
    inner = f'test "$3" != 7 || set -- -k 10 0.2 sh -c "$6"\nexec {real} "$@"\n'
    local.tool(tmp_path / "bin", "timeout", inner)
    with pytest.raises(Failed, match=r"^it took longer than 7 s$"):
        here.run(root("sleep 60", seconds=7))


def test_a_lost_connection_is_told_from_a_refusal(tmp_path: Path) -> None:
    here = user(tmp_path, FREE)
    here.lost = True
    with pytest.raises(Failed, match=r"^the connection was lost"):
        here.run(root("echo hello"))
