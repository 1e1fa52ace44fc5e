"""The policy that keeps a browser's local AI model away: whose it is, what is in its way, that it can be read."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from roles.browser import decide, report
from roles.browser.observe import BROWSER
from roles.browser.table import BRAVE, CHROME, CHROMIUM, FILE, FOLDERS, KEY, SNAP, TESTING
from roles.remote import Script
from tests.unit import hosts
from tests.unit.browsers import BOTH, POLICY, browser_answer, policy_file, profile
from tests.unit.deciding import Decide, acting, left_out, reasons, resting

DEB_CHROME, DEB_CHROMIUM = BOTH
SNAP_CHROMIUM = {"id": "Chromium (snap)", "packaging": "snap", "version": "139.0", "reaches": True}
FLATPAK_CHROME = {"id": "Google Chrome (com.google.Chrome)", "packaging": "flatpak", "reaches": True}
FLATPAK_CHROMIUM = {"id": "Chromium (org.chromium.Chromium)", "packaging": "flatpak"}
EDGE = {"id": "Microsoft Edge (native)", "packaging": "deb"}
FIREFOX = {"id": "Firefox (snap)", "packaging": "snap"}

MADE = "/home/dev/.local/share/paddock/created/paths"


def policy_set(has_password: bool = False, **data: Any) -> Decide:
    return partial(decide.policy_set, hosts.wishes(**data).settings.browser, has_password)


def written(decision: Any) -> list[str]:
    return [step.script.args[0].rpartition("/")[0] for step in decision.steps]


def test_the_policy_is_json_that_forbids_the_download_and_says_nothing_else() -> None:
    assert json.loads(POLICY) == {KEY: 1}
    assert type(json.loads(POLICY)[KEY]) is int
    assert POLICY.endswith("}\n")


def test_further_policies_stand_in_the_same_file() -> None:
    wanted = hosts.wishes(browser_policies={"BuiltInAIAPIsEnabled": False, "HelpMeWriteSettings": 2})
    decision = acting(partial(decide.policy_set, wanted.settings.browser, False), hosts.converged())
    assert {json.dumps(json.loads(step.script.args[1]), sort_keys=True) for step in decision.steps} == {
        json.dumps({"BuiltInAIAPIsEnabled": False, KEY: 1, "HelpMeWriteSettings": 2})
    }
    assert all("other content" in reason for reason in decision.reasons)


@pytest.mark.parametrize(
    ("wanted", "installs", "folders"),
    [
        ("auto", BOTH, [CHROME, CHROMIUM]),
        ("auto", [DEB_CHROME], [CHROME]),
        ("auto", [DEB_CHROME, FLATPAK_CHROME], [CHROME]),
        ("auto", [SNAP_CHROMIUM], [SNAP]),
        ("auto", [DEB_CHROMIUM, SNAP_CHROMIUM], [CHROMIUM, SNAP]),
        (["chromium"], [DEB_CHROME], [CHROMIUM]),
        (["chromium"], [SNAP_CHROMIUM], [SNAP]),
        (["chromium"], [FLATPAK_CHROMIUM], [CHROMIUM]),
        (["brave"], [], [BRAVE]),
        (["chrome", "chrome-for-testing", "chromium", "brave"], [], [CHROME, TESTING, CHROMIUM, BRAVE]),
    ],
)
def test_the_browsers_installed_or_named_get_it(wanted: object, installs: Any, folders: list[str]) -> None:
    decision = acting(policy_set(browser_policy=wanted), hosts.bare(browser=browser_answer(installs)))
    assert written(decision) == folders
    assert all(
        step.script == Script(decide.WRITE, (step.script.args[0], POLICY, MADE), root=True) for step in decision.steps
    )
    page = "brave://policy" if folders == [BRAVE] else "chrome://policy"
    assert f"will say that it is managed by your organization, and show it in {page}" in decision.reasons[0]
    assert all("managed by your organization" in reason for reason in decision.reasons)


def test_on_ubuntu_the_policy_goes_ahead_of_the_snap() -> None:
    seen = hosts.bare(browser=browser_answer([]), host={"os_id": "ubuntu"})
    assert written(acting(policy_set(browser_policy=["chromium"]), seen)) == [SNAP]


@pytest.mark.parametrize(
    ("wanted", "installs"), [("off", BOTH), ("off", [EDGE]), ("auto", []), ([], BOTH), ("auto", [FIREFOX])]
)
def test_the_others_are_left_alone(wanted: object, installs: Any) -> None:
    resting(policy_set(browser_policy=wanted), hosts.bare(browser=browser_answer(installs)))


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (None, f"{CHROME}/{FILE}: absent or not readable, so it will be written"),
        (policy_file('{"GenAILocalFoundationalModelSettings": 0}\n'), f"{CHROME}/{FILE}: other content"),
        (policy_file(POLICY.strip()), f"{CHROME}/{FILE}: other content"),
        (policy_file(None), f"{CHROME}/{FILE}: other content"),
        (policy_file(mode=0o600), f"{CHROME}/{FILE}: not owned by root with mode 0644"),
        (policy_file(mode=0o777), f"{CHROME}/{FILE}: not owned by root with mode 0644"),
        (policy_file(uid=1000), f"{CHROME}/{FILE}: not owned by root with mode 0644"),
    ],
)
def test_a_file_that_is_not_as_the_browser_needs_it_is_written_anew(file: Any, reason: str) -> None:
    seen = hosts.bare(browser=browser_answer([DEB_CHROME], files={CHROME: [file] if file else []}))
    assert reasons(policy_set(), seen).startswith(reason)


def test_only_the_browser_that_lacks_it_gets_it() -> None:
    answer = browser_answer(managed=[CHROME], files={CHROMIUM: [policy_file("{}")]})
    decision = acting(policy_set(), hosts.converged(browser=answer))
    assert [step.diff for step in decision.steps] == [(f"{CHROMIUM}/{FILE}", "{}", POLICY)]
    assert decision.after[BROWSER].folders[CHROME] == hosts.converged()[BROWSER].folders[CHROME]


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o754, 0o751])
def test_a_folder_that_somebody_closed_is_told_and_not_opened(mode: int) -> None:
    answer = browser_answer([DEB_CHROME], managed=[CHROME])
    folder = "/etc/opt/chrome/policies"
    answer["folders"][CHROME]["modes"][folder] = mode
    told = left_out(policy_set(), hosts.converged(browser=answer))
    assert told.startswith(f"Google Chrome (deb) cannot read its policy: {folder} is closed to ordinary users")
    assert f"chmod 0755 {folder}" in told


def neighbours(*files: dict[str, Any], managed: bool = False) -> Any:
    answer = browser_answer([DEB_CHROME], managed=[CHROME] if managed else [], files={CHROME: list(files)})
    return hosts.converged(browser=answer)


@pytest.mark.parametrize("name", ["00-admin.json", "zz-admin.json", "paddock.json.bak", ".swp"])
@pytest.mark.parametrize("managed", [True, False])
def test_a_file_that_says_otherwise_is_named_and_not_overruled(name: str, managed: bool) -> None:
    seen = neighbours(policy_file('{"GenAILocalFoundationalModelSettings": 0, /* why */}', name), managed=managed)
    told = left_out(policy_set(), seen)
    assert f"{CHROME}/{name} sets {KEY} to 0, and 1 is wanted" in told
    assert told.startswith("nothing is written for Google Chrome (deb)")


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ([policy_file(f'{{"{KEY}": "1"}}', "a.json")], 'to "1", and 1 is wanted'),
        ([policy_file(f'{{"{KEY}": true}}', "a.json")], "to true, and 1 is wanted"),
        ([policy_file(f'{{"{KEY}": 0}}', "a"), policy_file(f'{{"{KEY}": 2}}', "b")], f"{CHROME}/b sets {KEY} to 2"),
        ([policy_file("{}", "a.json", whole=False)], f"{CHROME}/a.json is too large to be judged"),
    ],
)
def test_it_is_the_browsers_own_rules_by_which_another_file_is_judged(files: Any, told: str) -> None:
    assert told in left_out(policy_set(), neighbours(*files))


@pytest.mark.parametrize(
    "files",
    [
        [policy_file("{broken", "zz.json")],
        [policy_file(None, "zz.json")],
        [policy_file('{"HomepageLocation": "https://a.test"}', "zz.json")],
        [policy_file(f'{{"{KEY}": 0}}', "a.json"), policy_file(f'{{"{KEY}": 1}}', "b.json")],
    ],
)
def test_a_neighbour_that_does_not_count_is_no_obstacle(files: Any) -> None:
    resting(policy_set(), neighbours(*files, managed=True))


def test_what_somebody_else_says_already_is_not_said_again() -> None:
    resting(policy_set(), neighbours(policy_file(f'// ours\n{{"{KEY}": 1,}}', "admin.json")))
    told = policy_set(browser_policies={"BuiltInAIAPIsEnabled": False})
    assert written(acting(told, neighbours(policy_file(f'{{"{KEY}": 1}}', "admin.json")))) == [CHROME]


def test_a_clash_over_a_further_policy_is_named_too() -> None:
    seen = neighbours(policy_file('{"HelpMeWriteSettings": 0}', "a.json"))
    assert "a.json sets HelpMeWriteSettings to 0, and 2 is wanted" in left_out(
        policy_set(browser_policies={"HelpMeWriteSettings": 2}), seen
    )


def test_more_files_than_can_be_read_are_not_judged() -> None:
    answer = browser_answer([DEB_CHROME])
    answer["folders"][CHROME]["more"] = True
    assert "more files than can be judged" in left_out(policy_set(), hosts.converged(browser=answer))


@pytest.mark.parametrize(
    ("install", "sentence"),
    [
        (EDGE, "Microsoft Edge (deb) is not supported, because Microsoft documents this policy for Windows"),
        (FLATPAK_CHROMIUM, "Chromium (Flatpak org.chromium.Chromium) is not supported, because its Flatpak does not"),
        (
            {**SNAP_CHROMIUM, "reaches": False},
            "its plug is not connected; run `sudo snap connect chromium:etc-chromium-browser-policies`",
        ),
        ({**SNAP_CHROMIUM, "reaches": None}, "and snapd does not tell; run `sudo snap connect"),
        (
            {**FLATPAK_CHROME, "reaches": False},
            "may not see the host's /etc; run `flatpak override --user --filesystem=host-etc com.google.Chrome`",
        ),
        ({**FLATPAK_CHROME, "reaches": None}, "which cannot be told here"),
        (
            {**DEB_CHROME, "version": "120.0.6099.71-1"},
            "is version 120.0.6099.71-1, and the policy is known from 124 on; update it",
        ),
    ],
)
def test_what_keeps_a_browser_from_its_policy_is_said(install: dict[str, Any], sentence: str) -> None:
    seen = hosts.converged(browser=browser_answer([install], managed=FOLDERS))
    assert sentence in left_out(policy_set(), seen)


@pytest.mark.parametrize("version", ["124.0.1", "2:156.0.8078.114-1~deb12u1", None, "unknown"])
def test_a_version_that_knows_the_policy_or_is_not_told_is_no_matter(version: str | None) -> None:
    seen = hosts.converged(browser=browser_answer([{**DEB_CHROME, "version": version}], managed=[CHROME]))
    resting(policy_set(), seen)


def test_braves_own_version_is_not_taken_for_chromiums() -> None:
    brave = {"id": "Brave (native)", "packaging": "deb", "version": "1.71.118"}
    seen = hosts.converged(browser=browser_answer([brave], managed=[BRAVE]))
    resting(policy_set(), seen)
    old = profile(id="Brave (native)", version="123.1.64.109", models={})
    told = hosts.converged(
        browser=browser_answer([brave], managed=[BRAVE]), browser_models={"profiles": [old], "services": []}
    )
    assert "is version 123.1.64.109" in left_out(policy_set(), told)


def test_a_folder_that_is_closed_keeps_nobody_from_a_model() -> None:
    answer = browser_answer([DEB_CHROME], managed=[CHROME], mode=0o700)
    told = report.summary(hosts.wishes().settings.browser, hosts.converged(browser=answer))
    assert told == "not in force for Google Chrome (deb)", "root sees the file, and a browser does not"


def test_a_flatpak_must_be_launched_anew_and_that_is_said_before() -> None:
    told = reasons(policy_set(), hosts.bare(browser=browser_answer([FLATPAK_CHROME])))
    assert "a Flatpak takes it up when it is launched anew" in told
    assert "Flatpak" not in reasons(policy_set(), hosts.bare(browser=browser_answer([DEB_CHROME])))


@pytest.mark.parametrize(
    ("root", "sentence"), [("none", "root is needed and dev has none"), ("password", "--same-sudo-password")]
)
def test_without_root_it_is_left_out_and_said(root: str, sentence: str) -> None:
    told = left_out(policy_set(), hosts.bare(host={"root": root}))
    assert told.startswith(
        "the policy against the local AI model of Google Chrome (deb) and Chromium (deb) is not set: "
    )
    assert sentence in told
