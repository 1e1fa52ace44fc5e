"""How a script gets to the host: whole or not at all, with its arguments as they were."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from roles import remote
from roles.remote import Failed, Script
from tests.lab.common import processes
from tests.unit import local
from tests.unit.local import Here, needs_root

NASTY = (
    "",
    " ",
    "it's",
    'say "hi"',
    "two\nlines",
    "\n",
    "a  b\tc",
    "back\\slash\\",
    "$HOME `id` $(id) ${x}",
    "; rm -rf / &",
    "*?[a]",
    "modèle 模型 🐎",
    "-n",
    "%s\\n",
    "x" * 100_000,
)
SHOW = 'for word in "$@"; do printf \'<%s>\' "$word"; done'
SHOW_IN_PYTHON = "import sys\nsys.stdout.write(''.join('<' + word + '>' for word in sys.argv[1:]))\n"


@pytest.mark.parametrize("script", [Script(SHOW, NASTY), Script(SHOW_IN_PYTHON, NASTY, python=True)])
def test_arguments_arrive_unchanged(script: Script) -> None:
    done = local.run(script)
    assert done.stderr == ""
    assert done.stdout == "".join(f"<{word}>" for word in NASTY)


def test_no_argument_is_no_argument() -> None:
    assert local.run(Script('echo "$#"')).stdout == "0\n"


def test_a_python_program_may_hold_any_text() -> None:
    text = "print('''it's \"quoted\" \\\\ \\n 模型''')\n"
    assert local.run(Script(text, python=True)).stdout == 'it\'s "quoted" \\ \n 模型\n'


@pytest.mark.parametrize("python", [False, True])
def test_a_script_that_is_cut_off_runs_nothing(tmp_path: Path, python: bool) -> None:
    """Whole at its last byte but one (a line break), and at no byte before."""
    ran = tmp_path / "ran"
    text = f"open({str(ran)!r}, 'w')\n" if python else f"touch {ran}"
    script = Script(text, ("first", "second argument", "last"), python=python)
    whole = remote.stdin(script)
    end = len(whole) - 1
    cuts = [len(whole) // 2, end - 20, end - 1] if python else [*range(0, end - 60, 5), *range(end - 60, end)]
    for cut in cuts:
        (tmp_path / f"{cut}.cut").write_text(whole[:cut])
    reader = "python3 -ISB -" if python else "sh -s"
    every = f'for cut in {tmp_path}/*.cut; do {reader} <"$cut" >/dev/null; test ! -e {ran} || echo "$cut"; done'
    assert local.shell(StringCommand(every), "").stdout == ""
    assert local.run(script).returncode == 0
    assert ran.exists()


def test_a_tool_that_reads_everything_leaves_the_rest_of_what_is_sent() -> None:
    script = Script("echo before; cat; echo after", live=True)
    done = local.shell(remote.command(script), remote.stdin(script) + "echo 'what comes later'\n")
    assert done.stdout == "before\nafter\nwhat comes later\n"


def test_the_first_failure_ends_a_script() -> None:
    done = local.run(Script("false; echo survived"))
    assert (done.returncode, done.stdout) == (1, "")


def test_a_name_that_was_never_set_ends_a_script() -> None:
    assert local.run(Script('echo "$nothing"; echo survived')).stdout == ""


def test_a_script_speaks_english_and_finds_the_users_systemd() -> None:
    done = local.run(Script('echo "$LC_ALL $XDG_RUNTIME_DIR"'), LC_ALL="de_DE.UTF-8", XDG_RUNTIME_DIR="/elsewhere")
    assert done.stdout == f"C /run/user/{os.getuid()}\n"


def test_fail_ends_a_script_with_its_sentence() -> None:
    done = local.run(Script('fail "the disk is $1"; echo survived', ("100% full, it's sad",)))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "paddock: the disk is 100% full, it's sad\n"


def test_fail_works_in_a_pipe_and_in_a_substitution() -> None:
    assert local.run(Script('found=$(fail "no such thing"); echo survived')).stdout == ""
    assert local.run(Script('false || fail "no such thing"')).stderr == "paddock: no such thing\n"


def test_a_script_that_takes_too_long_is_killed_with_what_it_started(tmp_path: Path) -> None:
    sleep = ["sleep", f"300.{os.getpid()}"]
    done = local.run(Script(f"{' '.join(sleep)} & sleep 60"), PATH=local.hasty(tmp_path / "bin"))
    assert done.returncode == 124
    end = time.monotonic() + 20  # nobody waits for its end
    while sleep in processes().values():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('echo noise; fail "the disk is full"', "the disk is full"),
        ("echo 'paddock: first'; echo 'paddock: second' >&2; exit 1", "second"),
        ("echo out; echo 'E: one' >&2; echo '  E: Unable to locate package  ' >&2; echo >&2; exit 100",
         "E: Unable to locate package"),
        ("echo 'said on standard output'; exit 1", "said on standard output"),
        ("exit 3", "exit status 3"),
    ],
)  # fmt: skip
def test_a_failure_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(Failed) as caught:
        Here().run(Script(text))
    assert str(caught.value) == sentence


def test_what_is_shown_live_shows_no_status_and_ends_with_its_own_sentence() -> None:
    assert Here().run(Script("echo one; echo two", live=True)) == ["one", "two"]
    with pytest.raises(Failed, match=r"^the disk is full$"):
        Here().run(Script('echo noise; fail "the disk is full"', live=True))


def test_a_time_limit_is_told_as_such_whatever_was_said_before(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"^it took longer than 7 s$"):
        Here(PATH=local.hasty(tmp_path / "bin")).run(Script("echo working >&2; sleep 60", seconds=7))


@pytest.mark.parametrize(
    ("text", "python"),
    [("echo 'paddock: working'; sleep 60", False), ("import time; print('working', flush=True); time.sleep(60)", True)],
)
def test_what_is_shown_live_is_told_as_cut_by_its_time_limit_too(tmp_path: Path, text: str, python: bool) -> None:
    with pytest.raises(Failed, match=r"^it took longer than 7 s$"):
        Here(PATH=local.hasty(tmp_path / "bin")).run(Script(text, seconds=7, live=True, python=python))


@pytest.mark.parametrize("status", [0, 1, 3, 100])
def test_what_is_shown_live_keeps_its_own_exit_status(status: int) -> None:
    done = local.run(Script(f"echo out; exit {status}", live=True))
    assert (done.returncode, done.stdout, done.stderr) == (status, "out\n", "")


@pytest.mark.parametrize("text", ["echo done", "exit 1", "true"])
def test_a_connection_that_broke_is_told_from_a_script_that_failed(text: str) -> None:
    with pytest.raises(Failed, match=r"^the connection was lost"):
        Here(lost=True).run(Script(text))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("printf done", ["done"]),
        ("printf 'one\\ndone'", ["one", "done"]),
        ("echo done", ["done"]),
        ("echo", [""]),
        ("true", []),
    ],
)
@pytest.mark.parametrize("root", [False, needs_root(True)])
def test_output_may_end_without_a_line_break(text: str, lines: list[str], root: bool) -> None:
    assert Here().run(Script(text, root=root)) == lines


def test_neither_text_nor_arguments_show_in_debug_output() -> None:
    here = Here(password="sesame")
    script = Script('test "$1" = hunter2', ("hunter2",))
    assert here.run(script) == []
    assert repr(script) == "<script>"
    assert not [command for command in here.commands if "hunter2" in command or "sesame" in command]
