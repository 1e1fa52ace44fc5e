"""The probe: one program out of every role's part, and what is made of its answer."""

from __future__ import annotations

import builtins
import dis
import json
import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from roles import observation, probe_tools
from roles.host import HOST, HostSeen
from roles.llama_cpp.observe import LLAMA_CPP, LlamaCppSeen
from roles.model.observe import MODEL
from roles.observation import Fragment, HostObservation, Observation, Seen, Stdin, Unreadable
from roles.overview import FRAGMENTS
from tests.unit import hosts, local
from tests.unit.programs import ROLES, assert_old_python_can_run


class Echo(Seen):
    said: Any


def look_and_echo(ask: dict[str, Any]) -> dict[str, Any]:
    return {"said": ask["say"]}


def look_badly(ask: dict[str, Any]) -> dict[str, Any]:
    raise RuntimeError("the disk is on fire")


ECHO = Fragment("echo", look_and_echo, lambda said: {"say": said}, Echo)
BAD = Fragment("bad", look_badly, lambda _: {}, Echo)


def answer(fragments: tuple[Fragment[Any], ...], wishes: Any) -> str:
    """The last line of the probe, run as on a host."""
    done = subprocess.run(
        ["python3", "-ISB", "-"],
        input=observation.program(fragments, wishes),
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def here() -> Observation:
    """This very machine."""
    return observation.parse(answer(FRAGMENTS, hosts.wishes()), FRAGMENTS)


def test_the_probe_answers_on_this_machine_and_is_understood(here: Observation) -> None:
    host = here[HOST]
    assert (host.uid, host.user) == (os.getuid(), pwd.getpwuid(os.getuid()).pw_name)
    assert host.cpus == len(os.sched_getaffinity(0))
    assert host.commands["git"] is not None
    assert Path(host.commands["git"]).exists()


def test_it_asks_for_what_the_wishes_name(here: Observation) -> None:
    assert here[MODEL].path == hosts.MODEL_PATH


PROGRAMS = (
    "job_program.py",
    "probe_tools.py",
    "root_program.py",
    "browser/delete_program.py",
    "browser/as_users_program.py",
)


def test_the_probe_is_python_3_8() -> None:
    assert_old_python_can_run(observation.program(FRAGMENTS, hosts.wishes()))


@pytest.mark.parametrize("file", PROGRAMS)
def test_so_is_every_other_program_for_the_host(file: str) -> None:
    assert_old_python_can_run((ROLES / file).read_text("utf-8"))


def global_names(code: CodeType) -> Iterator[str]:
    """What a function takes from its module, its inner functions included."""
    yield from (str(step.argval) for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from global_names(constant)


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda fragment: fragment.name)
def test_a_look_uses_nothing_that_is_not_sent_with_it(fragment: Fragment[Any]) -> None:
    there = {*vars(builtins), *vars(probe_tools), *(helper.__name__ for helper in fragment.helpers)}
    for function in (fragment.look, *fragment.helpers):
        assert set(global_names(function.__code__)) <= there


def test_what_a_fragment_is_asked_arrives_as_it_was() -> None:
    said = ["it's", 'say "hi"', "back\\slash \\n", "two\nlines", "modèle 模型 🐎", "", {"deep": [1, None, True, 2.5]}]
    assert observation.parse(answer((ECHO,), said), (ECHO,))[ECHO].said == said


def test_a_look_that_raises_is_told_with_its_name_and_spoils_no_other() -> None:
    told = answer((BAD, ECHO), "hello")
    assert json.loads(told)["echo"] == {"said": "hello"}
    with pytest.raises(ValueError, match=r"^bad: RuntimeError\('the disk is on fire'\)$"):
        observation.parse(told, (BAD, ECHO))


def test_a_field_that_is_not_as_expected_is_named() -> None:
    answers = hosts.changed(hosts.bare_answers(), {"host": {"uid": "many"}})
    with pytest.raises(ValueError, match=r"^host\.uid: Input should be a valid integer"):
        hosts.parsed(answers)


WHOLE = json.dumps(hosts.bare_answers())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Killed",
        "null",
        "[]",
        '"text"',
        "{}",
        WHOLE[:-1],
        WHOLE[: len(WHOLE) // 2],
        WHOLE.replace('"uid": 1000', '"uid": "many"'),
        WHOLE.replace('"root": "free"', '"root": "perhaps"'),
        json.dumps({**hosts.bare_answers(), "service": None}),
        json.dumps({**hosts.bare_answers(), "host": {"error": "KeyError('HOME')"}}),
    ],
)
def test_an_answer_that_is_not_whole_is_no_observation(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        observation.parse(text, FRAGMENTS)
    told = fact().process([text])
    assert isinstance(told, Unreadable)
    assert str(told).startswith("the probe's answer cannot be read: ")
    assert "\n" not in str(told)


def fact(fragments: tuple[Fragment[Any], ...] = FRAGMENTS) -> HostObservation:
    made = HostObservation()
    made.fragments = fragments
    return made


def test_what_a_login_shell_prints_before_it_does_not_matter() -> None:
    assert fact().process(["Welcome to laptop!", "{}", WHOLE]) == hosts.bare()


def test_what_a_newer_probe_says_beside_it_does_not_matter() -> None:
    answers = hosts.bare_answers()
    answers["host"]["weather"] = "fine"
    assert hosts.parsed({**answers, "another": {"x": 1}}) == hosts.bare()


def test_a_host_without_python_is_told_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", fact().command().get_raw_value()],
        input="print('ran')",
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    told = fact().process(done.stdout.splitlines())
    assert isinstance(told, Unreadable)
    assert str(told).startswith("python3 is not installed")


def test_the_facts_command_runs_the_probe_from_standard_input() -> None:
    done = local.shell(fact().command(), observation.program((ECHO,), "hello"))
    assert fact((ECHO,)).process(done.stdout.splitlines()) == Observation({"echo": Echo(said="hello")})


def test_each_fragment_gives_its_own_record() -> None:
    seen = hosts.bare()
    host: HostSeen = seen[HOST]  # mypy reads these two lines as well
    llama_cpp: LlamaCppSeen = seen[LLAMA_CPP]
    assert (type(host), type(llama_cpp)) == (HostSeen, LlamaCppSeen)
    with pytest.raises(TypeError, match="host holds a HostSeen"):
        seen[Fragment("host", look_and_echo, lambda _: {}, Echo)]
    with pytest.raises(KeyError):
        seen[ECHO]


def test_a_changed_observation_is_another_one() -> None:
    seen = hosts.bare()
    changed = seen.replace(HOST, cpus=1)
    assert (seen[HOST].cpus, changed[HOST].cpus) == (8, 1)
    assert seen != changed
    assert changed.replace(HOST, cpus=8) == seen
    assert hash(changed.replace(HOST, cpus=8)) == hash(seen)
    with pytest.raises(ValueError, match="frozen"):
        seen[HOST].cpus = 1


def test_the_program_is_not_shown_in_debug_output_and_can_be_sent_twice() -> None:
    stdin = Stdin("print(1)\n")
    assert repr(stdin) == "<stdin>"
    assert [stdin.readlines(), list(stdin)] == [["print(1)\n"]] * 2
