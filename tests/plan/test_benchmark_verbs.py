"""What people ask of the histories, by the real command line: it is shown for every host, and harms no terminal."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path

import pytest

from roles.benchmark import reports
from tests.plan import runs
from tests.plan.runs import Run, host
from tests.unit import hosts, measured, planted_history

TORN = "\x1b[31m[bold]torn[/bold]\u202e"


def lines(name: str) -> str:
    """A host's own file."""
    if name == "odd":
        about = {"config": TORN, "rows": [measured.row(0, 0, 30)]}
        return measured.line(run="1", **about) + "\n" + measured.line(run="2", **{**about, "release": TORN}) + "\n{torn"
    past = planted_history.fleet()[name].results
    return "\n".join(measured.line(**result.model_dump(mode="json")) for result in past) + "\n"


def packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode())).decode()


def told(name: str) -> list[str]:
    """As the program on the host tells it."""
    return ["0", packed(lines(name))]


MACHINES = {
    name: host(hosts.converged_answers(), {"benchmarks.jsonl": told(name)}) for name in ("ada-laptop", "desk", "odd")
} | {"garbage": host("Killed")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verbs")


@pytest.fixture(scope="module")
def history(folder: Path) -> Run:
    return runs.run(folder, MACHINES, "-y", to="roles.benchmark.history")


@pytest.fixture(scope="module")
def compare(history: Run, folder: Path) -> Run:
    """With the copies that the run before it left, and hosts that do not tell theirs any more."""
    return runs.run(folder, {name: host("Killed") for name in MACHINES}, "-y", to="roles.benchmark.compare")


def test_every_run_is_shown_with_what_changed_before_it(history: Run) -> None:
    assert history.code == 0, history.err
    assert "@fake/ada-laptop: 8 runs" in history.err
    shown = " ".join(re.sub("[│┃]", " ", history.err).split())
    assert "first run" in shown
    assert "driver 575.64.03 -> 580.95.05" in shown
    assert "release b10864-1a2b3c4d -> b12464-5e6f7a8b" in shown
    assert "ubatch 512 -> 2048" in shown


def test_a_host_that_does_not_tell_its_history_is_named_and_the_others_are_shown(history: Run) -> None:
    assert "@fake/garbage: nothing measured yet" in history.err
    (why,) = history.last_words("garbage")
    assert why.startswith("the history of benchmarks was not copied: the host's history did not arrive whole")


def test_the_copies_lie_beside_the_inventory(history: Run, folder: Path) -> None:
    for name in ("ada-laptop", "desk", "odd"):
        copy = reports.folder(folder / "reports", f"@fake/{name}") / reports.FILE
        assert copy.read_text("utf-8") == lines(name)


def test_what_went_in_is_told_before_what_came_out(compare: Run) -> None:
    assert compare.code == 0, compare.err
    verdict = "@fake/ada-laptop: release b10864-1a2b3c4d -> b12464-5e6f7a8b: worse than before: "
    assert verdict in " ".join(compare.err.split())
    assert re.search(r"tg at 118k +│ +1\d.\d │ +10.3 │ -13.6 % \(.* to .*\) │ worse", compare.err)
    assert re.search(r"pp at 32k +│ +\d+ │ +1771 │ \+62.1 % \(.* to .*\) │ better", compare.err)


@pytest.mark.parametrize("verb", ["history", "compare"])
def test_no_words_of_a_host_steer_the_terminal(verb: str, request: pytest.FixtureRequest) -> None:
    err = request.getfixturevalue(verb).err
    assert "[bold]torn[/bold]" in err, "and markup is none"
    assert "\x1b[31m" not in err
    assert "\u202e" not in err


def test_the_page_is_drawn_anew_from_what_is_here(compare: Run, folder: Path) -> None:
    drawn = runs.run(folder, {"desk": host("Killed")}, "-y", to="roles.benchmark.report")
    assert drawn.code == 0, drawn.err
    page = folder / "reports/index.html"
    assert f"paddock: the page of figures is {page}" in drawn.err
    text = page.read_text("utf-8")
    assert "@fake/ada-laptop" in text, "hosts of another run are not lost"
    assert "▲ better" in text


def test_a_deploy_judges_what_one_that_was_cut_off_has_measured(tmp_path: Path) -> None:
    answers = hosts.converged_answers()
    now = {**answers["benchmark"]["last"], "run": "2", "rows": [measured.row(0, 0, 20)]}
    before = {**now, "run": "1", "release": "b1-aa", "stamp": "0" * 16, "rows": [measured.row(0, 0, 30)]}
    former, newest = (json.dumps(each) + "\n" for each in (before, now))
    reports.add(tmp_path / "reports", "@fake/desk", ["0", packed(former)])
    machine = host({**answers, "benchmark": {"last": now}}, {"benchmarks.jsonl": [str(len(former)), packed(newest)]})
    run = runs.run(tmp_path, {"desk": machine}, "-y")
    assert run.code == 0, run.err
    verdict = next(word for word in run.last_words("desk") if "worse than before" in word)
    assert "tg on an empty context -33.3 %" in verdict
    again = runs.run(tmp_path, {"desk": machine}, "-y")
    assert "worse than before" not in again.err, "it is judged once"
