"""What browsers hold of the VRAM: who is waited for, what is measured before and after, and what is said of it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from roles.browser import decide, freed
from roles.browser.observe import BROWSER
from roles.browser.observe_models import MODELS
from roles.browser.table import MODEL_SERVICE
from roles.remote import Script
from tests.unit import local
from tests.unit.browsers import BOTH, profile
from tests.unit.deciding import acting, resting
from tests.unit.test_browser_models import FLATPAK, PROGRAM, SERVICE, host, models_freed, policy_set

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


def waited(most: int, *paths: Path | str) -> float:
    """Seconds of a wait of at most so many; it is no failure."""
    begin = time.monotonic()
    assert local.run(Script(decide.WAIT, (str(most), *map(str, paths)))).returncode == 0
    return time.monotonic() - begin


def test_the_wait_ends_when_all_is_gone_and_is_no_failure(tmp_path: Path) -> None:
    gone, folder = tmp_path / "gone", tmp_path / "OptGuideManifestModel"
    (folder / "0a1b").mkdir(parents=True)
    assert waited(50, gone, folder, "/proc/4194305") < 25, "a browser keeps the folder of a model that it deleted"
    (folder / "0a1b/weights.bin").touch()
    assert waited(1, gone, folder) > 0.9
    assert waited(1, f"/proc/{os.getpid()}") > 0.9


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


def test_the_history_is_one_line_of_json_each(tmp_path: Path) -> None:
    for number in (1, 2):
        script = Script(freed.REMEMBER, (json.dumps({"schema": number}),))
        assert local.run(script, HOME=str(tmp_path)).returncode == 0
    lines = (tmp_path / ".local/share/paddock/browser.jsonl").read_text().splitlines()
    assert [json.loads(line)["schema"] for line in lines] == [1, 2]
    assert all(json.loads(line)["time"].endswith("Z") for line in lines)


def test_a_process_cannot_write_to_the_terminal_by_its_name() -> None:
    [one] = freed.residents(host(services=[{"pid": 9, "program": "/x\x1b]0;evil\x07"}]))
    assert one.program == "/x?]0;evil?"
