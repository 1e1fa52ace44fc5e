"""The policy that keeps a browser's local AI model away: whose it is, and that it can be read."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roles.browser import decide
from roles.browser.observe import BROWSER, BROWSERS
from roles.remote import Script
from tests.unit import hosts, local
from tests.unit.deciding import Decide, acting, left_out, reasons, resting

CHROME, CHROMIUM = (browser["policy"] for browser in BROWSERS.values())


def policy_set(has_password: bool = False, **data: Any) -> Decide:
    return partial(decide.policy_set, hosts.wishes(**data).settings.browser, has_password)


def with_policy(**fields: Any) -> dict[str, Any]:
    return hosts.browsers(managed=True, **fields)


def only_chrome() -> dict[str, Any]:
    both = hosts.browsers()["browsers"]
    return {"browsers": {**both, "chromium": {**both["chromium"], "installed": False}}}


def test_the_policy_is_json_that_forbids_the_download_and_says_nothing_else() -> None:
    assert json.loads(decide.TEXT) == {"GenAILocalFoundationalModelSettings": 1}
    assert type(json.loads(decide.TEXT)["GenAILocalFoundationalModelSettings"]) is int
    assert decide.TEXT.endswith("}\n")


@pytest.mark.parametrize(
    ("wanted", "seen", "paths"),
    [
        ("auto", hosts.browsers(), [CHROME, CHROMIUM]),
        ("auto", only_chrome(), [CHROME]),
        (["chromium"], only_chrome(), [CHROMIUM]),
        (["chromium"], hosts.browsers(installed=False), [CHROMIUM]),
    ],
)
def test_the_browsers_installed_or_named_get_it(wanted: object, seen: dict[str, Any], paths: list[str]) -> None:
    decision = acting(policy_set(browser_policy=wanted), hosts.bare(browser=seen))
    assert [step.script.args for step in decision.steps] == [(path, decide.TEXT) for path in paths]
    assert all(step.script.root for step in decision.steps)
    assert all("managed by your organization" in reason for reason in decision.reasons)


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [("off", hosts.browsers()), ("auto", hosts.browsers(installed=False)), ([], hosts.browsers())],
)
def test_the_others_are_left_alone(wanted: object, seen: dict[str, Any]) -> None:
    resting(policy_set(browser_policy=wanted), hosts.bare(browser=seen))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"policy": None, "mode": None, "uid": None}, f"{CHROME}: absent, or not readable"),
        ({"policy": None, "mode": 0o600, "uid": 0}, f"{CHROME}: absent, or not readable"),
        ({"policy": '{"GenAILocalFoundationalModelSettings": 0}\n'}, f"{CHROME}: other content"),
        ({"policy": decide.TEXT.strip()}, f"{CHROME}: other content"),
        ({"mode": 0o600}, f"{CHROME}: not owned by root with mode 0644"),
        ({"mode": 0o666}, f"{CHROME}: not owned by root with mode 0644"),
        ({"uid": 1000}, f"{CHROME}: not owned by root with mode 0644"),
    ],
)
def test_a_file_that_is_not_as_the_browser_needs_it_is_written_anew(fields: dict[str, Any], reason: str) -> None:
    assert reasons(policy_set(), hosts.converged(browser=with_policy(**fields))).startswith(reason)


def test_only_the_browser_that_lacks_it_gets_it() -> None:
    both = with_policy()["browsers"]
    seen = {"browsers": {**both, "chromium": {**both["chromium"], "policy": "{}"}}}
    decision = acting(policy_set(), hosts.converged(browser=seen))
    assert [step.diff for step in decision.steps] == [(CHROMIUM, "{}", decide.TEXT)]
    assert decision.after[BROWSER].browsers["chrome"] == hosts.converged()[BROWSER].browsers["chrome"]


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o754, 0o751])
def test_a_folder_that_somebody_closed_is_told_and_not_opened(mode: int) -> None:
    folder = "/etc/opt/chrome/policies"
    told = left_out(policy_set(), hosts.converged(browser=with_policy(folders={folder: mode})))
    assert told.startswith(f"chrome cannot read its policy: {folder} is closed to ordinary users")
    assert f"chmod 0755 {folder}" in told


@pytest.mark.parametrize(
    ("root", "sentence"), [("none", "root is needed and dev has none"), ("password", "--same-sudo-password")]
)
def test_without_root_it_is_left_out_and_said(root: str, sentence: str) -> None:
    told = left_out(policy_set(), hosts.bare(host={"root": root}))
    assert told.startswith("the policy against the local AI model of chrome and chromium is not set: ")
    assert sentence in told


def write(path: Path, umask: int = 0o077) -> None:
    script = Script(f"umask {umask:o}\n{decide.WRITE}", (str(path), decide.TEXT))
    done = local.run(script)
    assert done.returncode == 0, done.stderr


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_under_a_strict_umask_everybody_can_read_the_file_and_its_folders(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    path = tmp_path / "opt/chrome/policies/managed/paddock.json"
    write(path)
    assert path.read_text() == decide.TEXT
    assert mode(path) == 0o644
    new = [parent for parent in path.parents if tmp_path in parent.parents]
    assert [mode(folder) for folder in new] == [0o755] * 4


def test_no_draft_is_left_where_the_browser_reads_or_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "policies/managed/paddock.json"
    write(path)
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()) == [
        Path("policies/managed/paddock.json")
    ]


def test_what_stood_there_is_replaced_and_its_neighbours_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "managed"
    folder.mkdir(mode=0o711)
    (folder / "other.json").write_text("{}")
    (folder / "paddock.json").symlink_to(folder / "other.json")
    write(folder / "paddock.json")
    assert (folder / "other.json").read_text() == "{}"
    assert not (folder / "paddock.json").is_symlink()
    assert (folder / "paddock.json").read_text() == decide.TEXT
    assert mode(folder) == 0o711, "a folder that was there is not ours"


def test_a_folder_in_the_files_place_is_an_error_and_not_filled(tmp_path: Path) -> None:
    path = tmp_path / "managed/paddock.json"
    path.mkdir(parents=True)
    done = local.run(Script(decide.WRITE, (str(path), decide.TEXT)))
    assert done.returncode != 0
    assert list(path.iterdir()) == []
