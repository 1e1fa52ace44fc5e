"""What browsers left on disk and hold of the VRAM: told with its reason, measured, deleted only where that is safe."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from roles.browser import decide, freed, report, words
from roles.browser.observe_models import MODELS
from roles.browser.table import BRAVE, CHROME, KEY, SNAP
from roles.observation import Observation
from tests.unit import hosts
from tests.unit.browsers import BOTH, browser_answer, policy_file, profile
from tests.unit.deciding import Decide, acting, left_out, resting
from tests.unit.test_gpu import TRANSCRIPTS

PROGRAM = "/opt/google/chrome/chrome"
SERVICE = {"pid": 6702, "program": PROGRAM, "id": "Google Chrome (native)"}
FLATPAK = {"id": "Google Chrome (com.google.Chrome)", "packaging": "flatpak", "reaches": True}


def host(*profiles: dict[str, Any], services: Any = (), gpu: str | None = None, **browser: Any) -> Observation:
    """Chrome's policy in force unless `browser` says otherwise, these directories and processes, and a card."""
    changes: dict[str, Any] = {
        "browser": browser_answer(**{"installs": BOTH[:1], "managed": [CHROME], **browser}),
        "browser_models": {"profiles": list(profiles), "services": list(services)},
    }
    answers = hosts.converged_answers(**changes)
    if gpu:
        answers["gpu"] = TRANSCRIPTS[gpu]["seen"]
    return hosts.parsed(answers)


def models_freed(before: Observation | None = None, **data: Any) -> Decide:
    return partial(freed.models_freed, hosts.wishes(**data).settings.browser, before)


def policy_set(**data: Any) -> Decide:
    return partial(decide.policy_set, hosts.wishes(**data).settings.browser, True)


def test_without_models_there_is_nothing_to_say() -> None:
    for delete in (True, False):
        resting(models_freed(browser_delete_models=delete), host(profile(models={})))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "are still there; it does not run. From about version 142 on"),
        ({"running": True}, "are still there; restart it."),
        ({"running": True, "id": "Google Chrome (com.google.Chrome)"}, "launch it anew: it reads its policies then"),
    ],
)
def test_a_model_that_is_still_there_is_told_with_its_size_and_the_reason(fields: Any, reason: str) -> None:
    told = left_out(models_freed(), host(profile(**fields), installs=[*BOTH, FLATPAK]))
    assert told.startswith("2.7 GB of Google Chrome's local models in /home/dev/.config/google-chrome")
    assert reason in told
    assert "browser_delete_models=True" in told


def test_all_three_kinds_are_added_up() -> None:
    kinds = {"OptGuideOnDeviceModel": 4_000_000_000, "OptGuideOnDeviceClassifierModel": 10, "OptGuideManifestModel": 1}
    assert left_out(models_freed(), host(profile(models=kinds))).startswith("4.0 GB of")
    assert words.size(12_000_000) == "12.0 MB"


def test_nothing_is_deleted_unless_it_is_asked_for() -> None:
    assert models_freed()(host(profile())).steps == ()
    decision = acting(models_freed(browser_delete_models=True), host(profile()))
    assert [step.what for step in decision.steps] == ["delete the local models in /home/dev/.config/google-chrome"]
    assert not any(step.script.root for step in decision.steps)
    assert decision.reasons[0].startswith("delete 2.7 GB of Google Chrome's local models in")
    assert decision.after[MODELS].profiles[0].models == {}


def test_nothing_is_deleted_while_the_browser_runs() -> None:
    told = left_out(models_freed(browser_delete_models=True), host(profile(running=True)))
    assert told.endswith("are not deleted: the browser runs; close it, and run again")


@pytest.mark.parametrize(
    "browser",
    [
        {"managed": []},
        {"managed": [], "files": {CHROME: [policy_file(f'{{"{KEY}": 0}}', "admin.json")]}},
        {"files": {CHROME: [policy_file(f'{{"{KEY}": 0}}', "zz.json")]}},
    ],
)
def test_nothing_is_deleted_that_would_be_fetched_again(browser: dict[str, Any]) -> None:
    told = left_out(models_freed(browser_delete_models=True), host(profile(), **browser))
    assert "the policy is not in force for it, and it would fetch them again" in told
    told = left_out(models_freed(), host(profile(), **browser))
    assert told.endswith("google-chrome are on disk, and the policy is not in force for it")


SNAP_PROFILE = profile(id="Chromium (snap)", path="/home/dev/snap/chromium/common/chromium")


@pytest.mark.parametrize(
    ("install", "deleted"),
    [
        ({"id": "Chromium (snap)", "packaging": "snap", "version": "139.0", "reaches": True}, True),
        ({"id": "Chromium (snap)", "packaging": "snap", "version": "139.0", "reaches": False}, False),
        ({"id": "Chromium (snap)", "packaging": "snap", "version": "139.0", "reaches": None}, False),
        ({"id": "Chromium (snap)", "packaging": "snap", "version": "123.0", "reaches": True}, False),
        ({"id": "Chromium (native)", "packaging": "deb"}, False),
    ],
)
def test_a_policy_that_may_not_be_read_or_known_is_not_in_force(install: dict[str, Any], deleted: bool) -> None:
    seen = host(SNAP_PROFILE, installs=[install], managed=[SNAP])
    assert freed.effective(seen, "Chromium (snap)") == deleted
    assert bool(models_freed(browser_delete_models=True)(seen).steps) == deleted


def test_the_newest_version_that_used_a_directory_is_the_browsers() -> None:
    brave = {"id": "Brave (native)", "packaging": "deb", "version": "1.81.137"}
    old, new = (profile(id="Brave (native)", path=f"/{at}", version=f"{at}.1.81.137") for at in (99, 139))
    assert not freed.effective(host(old, installs=[brave], managed=[BRAVE]), "Brave (native)")
    assert freed.effective(host(new, old, installs=[brave], managed=[BRAVE]), "Brave (native)")


def test_off_leaves_models_alone_too_whatever_somebody_elses_files_say() -> None:
    resting(models_freed(browser_policy="off", browser_delete_models=True), host(profile()))
    resting(models_freed(browser_policy="off"), host(profile(), managed=[]))


@pytest.mark.parametrize("fragment", ["browser", "browser_models"])
def test_what_could_not_be_looked_at_is_said_and_not_taken_for_nothing(fragment: str) -> None:
    answers = {**hosts.converged_answers(browser=browser_answer(managed=[])), fragment: {"error": "OSError('odd')"}}
    seen = hosts.parsed(answers)
    named = policy_set(browser_policy=["chrome", "brave"], browser_delete_models=True)
    sentence = f"could not be looked at ({fragment}: OSError('odd')), so nothing is done about them"
    summary = report.summary(hosts.wishes().settings.browser, seen, brief=True)
    assert sentence in summary
    if fragment == "browser":
        assert left_out(named, seen) == f"the browsers {sentence}"
        assert summary == f"the browsers {sentence}"
        resting(models_freed(browser_delete_models=True), seen)
    else:
        assert left_out(models_freed(browser_delete_models=True), seen) == f"the browsers' models {sentence}"
        assert freed.outcome(host(profile(), managed=[]), seen) == [], "a model that is not seen is not gone"
    resting(policy_set(browser_policy="off"), seen)


def test_a_browser_that_is_not_supported_keeps_its_models() -> None:
    edge = profile(id="Microsoft Edge (native)", path="/home/dev/.config/microsoft-edge")
    assert "would fetch them again" in left_out(models_freed(browser_delete_models=True), host(edge))


def test_another_users_models_are_deleted_as_that_user() -> None:
    seen = host()
    theirs = MODELS.seen.model_validate({"profiles": [profile(owner="ann")]}).profiles
    decision = acting(models_freed(browser_delete_models=True), seen.replace(MODELS, profiles=theirs))
    [step] = decision.steps
    assert step.script.root
    assert "ann's Google Chrome's local models" in decision.reasons[0]


def test_what_is_at_stake_is_among_the_reasons_to_write_the_policy() -> None:
    seen = host(profile(running=True), services=[SERVICE], gpu="chrome_with_model", managed=[])
    decision = acting(policy_set(), seen)
    assert "2.7 GB of Google Chrome's local models in /home/dev/.config/google-chrome" in decision.reasons
    assert (
        f"{PROGRAM} (pid 6702) holds a local model and 3072 MiB of VRAM; measured again afterwards" in decision.reasons
    )


def test_a_model_that_went_away_is_told() -> None:
    assert freed.outcome(host(profile(), managed=[]), host(profile(models={}))) == [
        "2.7 GB of Google Chrome's local models in /home/dev/.config/google-chrome are gone"
    ]
