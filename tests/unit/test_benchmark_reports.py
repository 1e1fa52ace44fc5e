"""The histories' copies on the controller: whole, in folders that no name can leave, none the worse for trouble."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.benchmark import home, reports
from roles.benchmark.record import Result
from roles.benchmark.reports import NotCopied, Past
from tests.unit import measured
from tests.unit.programs import ROLES, assert_old_python_can_run

HOSTILE = [
    "",
    ".",
    "..",
    "../../etc",
    "a/b",
    "/etc",
    "a\\b",
    "A",
    "lab.",
    ".hidden",
    "a..b",
    "x" * 200,
    "née",
    "\u202e",
    "\x00",
]


@pytest.mark.parametrize("name", ["laptop", "198.51.100.7", "lab-1.example.com", "a"])
def test_a_plain_name_is_its_own_folder(name: str) -> None:
    assert reports.folder_name(name) == name


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_could_lead_elsewhere_gets_a_digest(name: str) -> None:
    assert reports.MADE.fullmatch(reports.folder_name(name))


@given(st.lists(st.text(max_size=80) | st.sampled_from(HOSTILE), unique=True, max_size=20))
def test_no_two_names_share_a_folder_and_all_of_them_stay_inside(names: list[str]) -> None:
    folders = [reports.folder_name(name) for name in names]
    assert len({folder.lower() for folder in folders}) == len(names)
    for folder in folders:
        assert Path(folder).parts == (folder,)
        assert folder not in (".", "..")
        assert folder.isascii()
        assert folder.isprintable()
        assert len(folder) <= 64


def test_a_name_made_to_look_like_anothers_folder_does_not_become_it() -> None:
    assert reports.folder_name(reports.folder_name("A/B")) != reports.folder_name("A/B")


class Copied:
    """A host's file, and the copy beside it."""

    def __init__(self, folder: Path) -> None:
        self.reports, self.file = folder / "reports", folder / "host.jsonl"

    def ask(self) -> list[str]:
        """What the program on the host says to what is here."""
        size, digest = reports.have(self.reports, "Lap/top")
        program = [sys.executable, "-ISB", "-", str(self.file), str(size), digest]
        done = subprocess.run(program, input=home.PROGRAM, capture_output=True, text=True, check=True, timeout=30)
        return done.stdout.splitlines()

    def take(self) -> list[str]:
        """Copy; the names of the runs that are here then."""
        reports.add(self.reports, "Lap/top", self.ask())
        return [result.run for result in reports.past(self.reports, "Lap/top").results]

    def append(self, text: str) -> None:
        with self.file.open("a") as file:
            file.write(text)


@pytest.fixture
def copied(tmp_path: Path) -> Copied:
    return Copied(tmp_path)


def line(run: str) -> str:
    return measured.line(run=run) + "\n"


def test_a_history_comes_home_and_later_only_what_is_new(copied: Copied) -> None:
    copied.append(line("1") + line("2"))
    assert copied.take() == ["1", "2"]
    copied.append(line("3"))
    answer = copied.ask()
    assert int(answer[0]) == len(line("1") + line("2"))
    assert len(answer[1]) < len(line("3"))
    assert copied.take() == ["1", "2", "3"]
    assert copied.take() == ["1", "2", "3"], "and nothing is there twice"
    assert (copied.reports / reports.folder_name("Lap/top") / reports.FILE).read_text() == copied.file.read_text()


def test_what_a_run_measured_that_was_cut_off_is_lacking_until_it_is_copied(copied: Copied) -> None:
    def lacks(run: str) -> bool:
        return reports.lacks(copied.reports, "Lap/top", Result.model_validate(measured.entry(run=run)))

    assert not lacks("1"), "another controller has measured, and judged: nothing of this host was ever here"
    copied.append(line("1"))
    copied.take()
    assert not lacks("1")
    copied.append(line("2"))
    assert lacks("2")
    copied.take()
    assert not lacks("2")
    assert not reports.lacks(copied.reports, "Lap/top", None)


def test_a_host_without_a_history_has_an_empty_one(copied: Copied) -> None:
    assert copied.take() == []
    assert reports.fleet(copied.reports) == {"Lap/top": Past()}


def test_a_torn_line_is_survived_at_the_end_and_in_the_middle(copied: Copied) -> None:
    copied.append(line("1") + line("torn")[:40])
    assert copied.take() == ["1"]
    copied.append("\n" + line("2"))  # as the runner goes on after a writer that was killed
    assert copied.take() == ["1", "2"]


def test_a_host_that_was_set_up_anew_keeps_its_past_here(copied: Copied) -> None:
    for run in ("1", "2", "3"):
        copied.file.write_text(line(run))
        copied.take()
    assert copied.take() == ["1", "2", "3"]
    here = copied.reports / reports.folder_name("Lap/top")
    assert sorted(path.name for path in here.iterdir()) == [
        "benchmarks-1.jsonl", "benchmarks-2.jsonl", "benchmarks.jsonl", "host.json"
    ]  # fmt: skip


def test_a_history_that_shrank_is_taken_anew(copied: Copied) -> None:
    copied.append(line("1") + line("2"))
    copied.take()
    copied.file.write_text(line("1"))
    assert copied.take() == ["1", "2"], "nothing that was here is lost, or counts twice"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([], "did not arrive whole"),
        (["0"], "did not arrive whole"),
        (["0", "not base64!"], "did not arrive whole"),
        (["0", "AAAA"], "did not arrive whole"),
        (["x", "eJwDAAAAAAE="], "did not arrive whole"),
        (["7", "eJwDAAAAAAE="], r"begins at byte 7, and \d+ bytes are here"),
        (["0", "eJwD"], "longer than 256 MiB, or did not arrive whole"),
    ],
)
def test_an_answer_that_is_no_history_changes_nothing(copied: Copied, answer: list[str], why: str) -> None:
    copied.append(line("1"))
    copied.take()
    with pytest.raises(NotCopied, match=why):
        reports.add(copied.reports, "Lap/top", answer)
    assert copied.take() == ["1"]


def test_git_is_told_to_leave_the_figures_alone_and_the_user_may_say_otherwise(copied: Copied) -> None:
    copied.take()
    ignore = copied.reports / ".gitignore"
    assert ignore.read_text() == "*\n"
    ignore.write_text("!*\n")
    copied.take()
    assert ignore.read_text() == "!*\n"


def test_a_host_is_called_what_it_is_called_and_not_after_its_folder(copied: Copied) -> None:
    copied.append(line("1"))
    copied.take()
    assert list(reports.fleet(copied.reports)) == ["Lap/top"]
    (copied.reports / reports.folder_name("Lap/top") / "host.json").write_text("torn")
    assert list(reports.fleet(copied.reports)) == [reports.folder_name("Lap/top")]


def test_lines_that_a_newer_paddock_wrote_are_passed_over(copied: Copied) -> None:
    copied.append(json.dumps({"schema": 99, "run": "new"}) + "\n" + line("1"))
    assert copied.take() == ["1"]


def test_old_python_can_run_the_program() -> None:
    assert_old_python_can_run((ROLES / "benchmark/copy_program.py").read_text())
