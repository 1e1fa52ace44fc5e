"""What browsers left on disk and hold of the VRAM: told with its reason, measured, deleted only where that is safe."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roles.browser import decide, freed, report, words
from roles.browser.observe import BROWSER
from roles.browser.observe_models import MODELS
from roles.browser.table import BRAVE, CHROME, KEY, MODEL_SERVICE, SNAP
from roles.observation import Observation
from roles.remote import Script
from tests.unit import hosts, local
from tests.unit.deciding import Decide, acting, left_out, resting
from tests.unit.hosts import BOTH, browser_answer, policy_file, profile
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


MODEL = "/home/dev/.config/google-chrome/OptGuideOnDeviceModel"


@pytest.mark.parametrize(
    ("fields", "services", "waits"),
    [
        ({}, [], None),
        ({"running": True}, [], ("15", MODEL)),
        ({"running": True, "models": {}}, [], None),
        ({"running": True, "id": FLATPAK["id"]}, [{**SERVICE, "id": FLATPAK["id"]}], None),
        ({"running": True, "id": "Brave (native)"}, [{**SERVICE, "id": "Brave (native)"}], None),
        ({}, [SERVICE], ("90", "/proc/6702")),
        ({}, [{**SERVICE, "id": ""}], None),
        ({"running": True}, [SERVICE], ("90", MODEL, "/proc/6702")),
    ],
)
def test_a_browser_that_may_react_is_waited_for(fields: Any, services: Any, waits: Any) -> None:
    seen = host(profile(**fields), services=services, installs=[*BOTH[:1], FLATPAK], managed=[])
    steps = acting(policy_set(), seen).steps
    assert [step.script.args for step in steps[1:]] == ([waits] if waits else [])
    assert not any(step.script.root for step in steps[1:])


def test_another_users_home_is_watched_by_root() -> None:
    seen = host(managed=[])
    theirs = MODELS.seen.model_validate({"profiles": [profile(owner="ann", running=True)]}).profiles
    _, wait = acting(policy_set(), seen.replace(MODELS, profiles=theirs)).steps
    assert wait.script.root


def waited(*paths: Path | str) -> float:
    """Seconds of a wait of at most two; it is no failure."""
    begin = time.monotonic()
    assert local.run(Script(decide.WAIT, ("2", *map(str, paths)))).returncode == 0
    return time.monotonic() - begin


def test_the_wait_ends_when_all_is_gone_and_is_no_failure(tmp_path: Path) -> None:
    gone, folder = tmp_path / "gone", tmp_path / "OptGuideManifestModel"
    (folder / "0a1b").mkdir(parents=True)
    assert waited(gone, folder, "/proc/4194305") < 1, "a browser keeps the folder of a model that it deleted"
    (folder / "0a1b/weights.bin").touch()
    assert waited(gone, folder) > 1
    assert waited(f"/proc/{os.getpid()}") > 1


def test_a_model_in_memory_is_measured_before_and_after() -> None:
    before = host(services=[SERVICE], gpu="chrome_with_model", managed=[])
    after = host(gpu="chrome_without_model")
    found = freed.measured(before, after)
    assert found == freed.Measured(freed.Vram(3072, 3544), freed.Vram(0, 472))
    assert freed.outcome(before, after) == [
        "the browsers' local models held 3072 MiB of VRAM before and hold 0 MiB now"
        " (used on all cards: 3544 and 472 MiB)"
    ]
    decision = models_freed(before)(after)
    [record] = [json.loads(step.script.args[0]) for step in decision.steps]
    assert record == {
        "schema": 1,
        "before": {"models": 3072, "cards": 3544},
        "after": {"models": 0, "cards": 472},
    }


def test_nothing_that_browsers_leave_undone_ends_a_run() -> None:
    seen = host(profile(), profile(path="/x", running=True), services=[SERVICE], gpu="chrome_with_model")
    steps = models_freed(before=seen, browser_delete_models=True)(seen).steps
    assert [step.what for step in steps] == [
        "delete the local models in /home/dev/.config/google-chrome", "record the VRAM"
    ]  # fmt: skip
    writing, *waits = policy_set()(seen.replace(BROWSER, folders=host(managed=[])[BROWSER].folders)).steps
    assert len(waits) == 1
    assert all(step.minor for step in (*steps, *waits))
    assert writing.optional


def test_a_model_that_stays_in_memory_is_not_told_as_gone() -> None:
    before = host(services=[SERVICE], gpu="chrome_with_model", managed=[])
    [told] = freed.outcome(before, host(services=[SERVICE], gpu="chrome_with_model"))
    assert "held 3072 MiB of VRAM before and hold 3072 MiB now" in told
    assert told.endswith("about a minute after its last use, or when the browser is restarted")


def test_where_no_model_was_resident_nothing_is_measured_and_that_is_said() -> None:
    before, after = host(gpu="chrome_without_model", managed=[]), host(gpu="chrome_without_model")
    assert freed.measured(before, after) is None
    assert freed.outcome(before, after) == [freed.NOT_RESIDENT]
    resting(models_freed(before), after)
    assert freed.outcome(host(managed=[]), host()) == [], "without a card there is no VRAM to speak of"


def test_without_nvidia_no_number_is_told() -> None:
    before = host(services=[SERVICE], managed=[])
    assert freed.vram(before) == freed.Vram(None, None)
    [told] = freed.outcome(before, host())
    assert told == "a browser held a local model; how much VRAM it took cannot be told here"


def test_the_service_is_known_by_nvidias_list_or_by_the_processes() -> None:
    by_list, by_process = host(gpu="chrome_with_model"), host(services=[{"pid": 9, "program": "/x"}])
    assert freed.residents(by_list) == (freed.Resident(6702, PROGRAM, 3072),)
    assert freed.residents(by_process) == (freed.Resident(9, "/x", None),)
    assert freed.residents(host(gpu="chrome_without_model")) == (), "Chrome's GPU process is no model"
    assert MODEL_SERVICE == "on_device_model.mojom.OnDeviceModelService"


def test_a_model_that_went_away_is_told() -> None:
    assert freed.outcome(host(profile(), managed=[]), host(profile(models={}))) == [
        "2.7 GB of Google Chrome's local models in /home/dev/.config/google-chrome are gone"
    ]


def test_the_history_is_one_line_of_json_each(tmp_path: Path) -> None:
    for number in (1, 2):
        script = Script(freed.REMEMBER, (json.dumps({"schema": number}),))
        assert local.run(script, HOME=str(tmp_path)).returncode == 0
    lines = (tmp_path / ".local/share/paddock/browser.jsonl").read_text().splitlines()
    assert [json.loads(line)["schema"] for line in lines] == [1, 2]
    assert all(json.loads(line)["time"].endswith("Z") for line in lines)
