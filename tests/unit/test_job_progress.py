"""What a long job's follower says: its lines of progress, and the sentence it chooses from a log."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.programs import definitions

PROGRAM = definitions("job_program.py")
GB = 1_000_000_000


class Clock:
    """Time as a test wants it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("time.time", made)
    return made


Follow = Callable[..., Any]


@pytest.fixture
def progress(tmp_path: Path, clock: Clock) -> Follow:
    def make(log: str = "", **job: Any) -> Any:
        (tmp_path / "build.log").write_text(log)
        return PROGRAM.Progress({"title": "llama.cpp", "watch": [], "total": 1, **job}, str(tmp_path / "build.log"))

    return make


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("", "1:05"),
        ("fetching abc from https://git.test\n", "1:05, fetching abc from https://git.test"),
        ("[1/226] Building CXX object a/b/ggml.cpp.o\n", "1 of 226, 0 %, 1:05, ggml.cpp.o"),
        ("[1/4] Building a.o\n[2/4] Building b.o\n", "2 of 4, 50 %, 1:05, b.o"),
        ("[4/4] Linking CXX executable bin/llama-server\n", "4 of 4, 100 %, 1:05, llama-server"),
        ("[1/4] Building a.o\nwarning: [9/9] not ninja's\n[2/4] Buil", "2 of 4, 50 %, 1:05, Buil"),
        ("x" * 10_000 + "\n[3/4] Building c.o\n", "3 of 4, 75 %, 1:05, c.o"),
        ("[3/4] Building modèle.o\n", "3 of 4, 75 %, 1:05, modèle.o"),
    ],
)
def test_a_build_is_as_far_as_ninjas_last_step(progress: Follow, clock: Clock, log: str, line: str) -> None:
    following = progress(log)
    clock.now += 65
    assert following.line() == line


@pytest.mark.parametrize(
    ("before", "size", "seconds", "line"),
    [
        (0, 0, 10, "0 B of 12.0 GB, 0 %, 0 B/s, waiting"),
        (0, 300_000_000, 10, "300 MB of 12.0 GB, 2 %, 30 MB/s, 6:30 left"),
        (6 * GB, 6 * GB + 300_000_000, 10, "6.3 GB of 12.0 GB, 52 %, 30 MB/s, 3:10 left"),
        (6 * GB, 6 * GB, 10, "6.0 GB of 12.0 GB, 50 %, 0 B/s, waiting"),
        (6 * GB, 0, 10, "0 B of 12.0 GB, 0 %, 0 B/s, waiting"),
        (0, 12 * GB, 600, "12.0 GB of 12.0 GB, 100 %, 20 MB/s, 0:00 left"),
        (0, 2_000_000, 1, "2 MB of 12.0 GB, 0 %, 2 MB/s, 99:59 left"),
    ],
)
def test_a_download_is_as_far_as_its_part(
    progress: Follow, clock: Clock, tmp_path: Path, before: int, size: int, seconds: int, line: str
) -> None:
    part = tmp_path / "some.gguf.part"
    with part.open("wb") as file:
        file.truncate(before)
    following = progress(watch=[str(part)[:-5]], total=12 * GB)
    with part.open("wb") as file:
        file.truncate(size)
    clock.now += seconds
    assert following.line() == line


def test_a_download_may_not_have_begun(progress: Follow, clock: Clock, tmp_path: Path) -> None:
    following = progress(watch=[str(tmp_path / "some.gguf")], total=12 * GB)
    clock.now += 3
    assert following.line() == "0 B of 12.0 GB, 0 %, 0 B/s, waiting"


def test_lines_come_soon_at_first_and_seldom_later(
    progress: Follow, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    following = progress("[1/2] Building a.o\n")
    shown = []
    for second in range(1200):
        clock.now += 1
        following.show()
        if capsys.readouterr().out:
            shown.append(second + 1)
    pauses = [after - before for before, after in itertools.pairwise(shown)]
    assert shown[0] <= 3
    assert pauses[0] <= 6
    assert pauses == sorted(pauses)
    assert pauses[-1] == 30


def judged(tmp_path: Path, log: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence about a job that exited with 3."""
    (tmp_path / "build.log").write_text(log)
    (tmp_path / "build.exit").write_text("3\n")
    with pytest.raises(SystemExit) as ended:
        PROGRAM.judge(str(tmp_path / "build"), "paddock-build")
    assert ended.value.code == 1
    said = capsys.readouterr().err
    end = f" (log: {tmp_path}/build.log)\n"
    assert said.startswith("paddock: ")
    assert said.endswith(end)
    return said.removeprefix("paddock: ").removesuffix(end)


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("", "exit status 3"),
        (" \n\n", "exit status 3"),
        ("one\n  the last word  \n\n", "the last word"),
        ("fatal: unable to access\nmore\n", "fatal: unable to access"),
        ("a.cpp:5:1: error: first\na.cpp:6:1: error: second\nninja: build stopped\n", "a.cpp:5:1: error: first"),
        ("CMake Error at CMakeLists.txt:1\n", "CMake Error at CMakeLists.txt:1"),
        ("cc -Werror -Wno-error=x terrors.c\nlast\n", "last"),
        ("nvcc fatal   : Unsupported gpu\nlast\n", "nvcc fatal   : Unsupported gpu"),
        ("a.c:3:10: fatal error: x.h: No such file\nlast\n", "a.c:3:10: fatal error: x.h: No such file"),
        ("[5/9] Building error.cpp.o\nerror: no space left\n", "error: no space left"),
        ("error: something\npaddock: the mirror is gone\nmore\n", "the mirror is gone"),
        ("paddock: first\npaddock: second\n", "second"),
    ],
)
def test_the_sentence_is_the_jobs_own_else_the_first_error_else_the_last_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], log: str, sentence: str
) -> None:
    assert judged(tmp_path, log, capsys) == sentence


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        ("oom-kill", "it needed more memory than its cap"),
        ("timeout", "it ran longer than its time limit"),
        ("signal", "it was killed (signal)"),
    ],
)
def test_without_an_exit_status_systemd_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, result: str, sentence: str
) -> None:
    monkeypatch.setattr(PROGRAM, "systemctl", lambda *words: result)
    with pytest.raises(SystemExit):
        PROGRAM.judge(str(tmp_path / "build"), "paddock-build")
    assert capsys.readouterr().err == f"paddock: {sentence}; its log is {tmp_path}/build.log\n"


def test_a_job_that_ended_well_is_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "build.exit").write_text("0\n")
    PROGRAM.judge(str(tmp_path / "build"), "paddock-build")
    assert capsys.readouterr().err == ""


def test_a_job_that_ended_well_tells_what_people_should_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "build.log").write_text("verifying\nnote: every byte is as pinned\nnot a note: x\n")
    PROGRAM.tell("some.gguf", str(tmp_path / "build"))
    assert capsys.readouterr().out == "some.gguf: every byte is as pinned\n"


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0 B"), (999, "999 B"), (1500, "2 kB"), (37_300_000, "37 MB"), (1.5e9, "1.5 GB")]
)
def test_amounts_are_told_in_three_digits(amount: float, text: str) -> None:
    assert PROGRAM.human(amount) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.9, "0:59"), (61, "1:01"), (3600, "60:00")])
def test_times_are_minutes_and_seconds(seconds: float, text: str) -> None:
    assert PROGRAM.clock(seconds) == text
