"""What a removal takes back, what it leaves, and that it goes on where it was killed."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roles import claim, observation
from roles.host import HOST
from roles.machine import MODELS
from roles.model.collect import REMOVE
from roles.observation import Observation
from roles.operation import WAITED_FOR
from roles.remote import Script
from roles.removal import decide
from roles.removal.decide import Wanted
from roles.removal.observe import MADE, look_at_made
from roles.service.decide import GIVE_WAY
from tests.unit import hosts, local
from tests.unit.deciding import Decide, acting, refusal, resting

POLICY = "/etc/opt/chrome/policies/managed/paddock.json"
ALL: dict[str, Any] = {
    "units": ["paddock-llama-server.service"],
    "policies": [POLICY],
    "linger": True,
    "packages": ["cmake", "git"],
    "paths": ["/home/dev/.local", "/etc/opt/chrome"],
    "data": ["releases"],
    "recorded": True,
    "cache": True,
    "stored": True,
    "models": 12_000_000_000,
    "rest": 1_500_000_000,
}
MODEL = "models/owner--name/cccccccccccc"
KEEP, PACKAGES = Wanted(keep_models=True), Wanted(remove_packages=True)


def seen(host: dict[str, Any] | None = None, **made: Any) -> Observation:
    """A host with this of Paddock's."""
    answers = {"host": {**hosts.converged_answers()["host"], **(host or {})}, "made": made}
    return observation.parse(json.dumps(answers), (HOST, MADE))


def removed(wanted: Wanted = Wanted(), has_password: bool = False) -> Decide:  # noqa: B008
    return partial(decide.removed, wanted, has_password)


def test_all_of_it_goes_units_first_and_the_record_last() -> None:
    decision = acting(removed(), seen(**ALL))
    assert [step.what for step in decision.steps] == [
        "stop and remove the units",
        "take back what root made",
        "remove the models",
        "remove the rest",
    ]
    told = "; ".join(decision.reasons)
    for part in (ALL["units"][0], POLICY, "lingering off", "1.5 GB", "12.0 GB; --data keep_models=true keeps them"):
        assert part in told
    assert "leave 2 packages that came by Paddock: --data remove_packages=true" in told
    assert "2 packages that came by Paddock, whose record goes with the rest; /var/log/apt/history.log" in (
        decision.left_out or ""
    )


@pytest.mark.parametrize("wanted", [Wanted(), KEEP, PACKAGES])
def test_a_host_without_anything_of_ours_is_left_alone(wanted: Wanted) -> None:
    resting(removed(wanted), seen())
    resting(removed(wanted), seen(drop_ins=["paddock-llama-server.service.d"]))


def test_models_stay_where_they_are_wanted_and_a_second_removal_takes_them() -> None:
    decision = acting(removed(KEEP), seen(**ALL))
    assert "models" not in "; ".join(decision.reasons)
    assert "models of 12.0 GB in ~/.local/share/paddock/models" in (decision.left_out or "")
    assert decision.steps[-1].script.args == ("models",)
    later = acting(removed(), decision.after)
    assert "downloaded models" in "; ".join(later.reasons)


@pytest.mark.parametrize("made", [ALL, {"packages": ["git"], "recorded": True}, {"unsettled": True, "recorded": True}])
def test_packages_go_only_when_asked_for(made: dict[str, Any]) -> None:
    for wanted, tool in ((Wanted(), ""), (PACKAGES, "apt")):
        root = [step.script for step in acting(removed(wanted), seen(**made)).steps if step.script.root]
        assert all(script.args[2] == tool for script in root)
        assert root or not tool


def test_an_interrupted_removal_of_packages_says_that_it_goes_on_and_is_waited_for() -> None:
    for wanted, told in ((PACKAGES, f"{WAITED_FOR} and removes the rest"), (Wanted(), "")):
        by_root = next(step for step in acting(removed(wanted), seen(**ALL)).steps if step.script.root)
        assert by_root.goes_on == told


def test_without_root_what_only_root_may_take_back_is_named_and_nothing_is_done() -> None:
    told = refusal(removed(), seen({"root": "none"}, **ALL))
    assert told.startswith(f"the policy {POLICY}, lingering of dev cannot be taken back: root is needed")
    acting(removed(), seen({"root": "none"}, units=["paddock-llama-server.service"], recorded=True))


def test_what_a_killed_move_left_elsewhere_comes_home_and_goes_too() -> None:
    decision = acting(removed(), seen({"stranded": True}))
    assert "bring models and notes home" in [step.what for step in decision.steps]
    resting(removed(), decision.after)


def test_drop_ins_of_the_user_are_said_to_stay() -> None:
    decision = acting(removed(), seen(**{**ALL, "drop_ins": ["paddock-llama-server.service.d"]}))
    assert "your own paddock-llama-server.service.d" in (decision.left_out or "")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with all that a deploy leaves, and a systemctl that does nothing."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    run(tmp_path, Script(claim.TAKE, (claim.holder(), "", "45")))
    data, units = tmp_path / "home/.local/share/paddock", tmp_path / "home/.config/systemd/user"
    for path in (data / "releases/r/bin", data / MODEL, tmp_path / "home/.cache/paddock", units / "a.wants"):
        path.mkdir(parents=True)
    (data / MODEL / "some.gguf.part").write_bytes(b"x" * 5000)
    (units / "paddock-llama-server.service").write_text("# Written by Paddock.\n[Service]\n")
    (units / "paddock-mine.service").write_text("[Service]\n")
    (units / "paddock-llama-server.service.d").mkdir()
    return tmp_path / "home"


LISTED = "paddock-build.service paddock-llama-server.service paddock-mine.service paddock-watchdog.timer".split()  # noqa: SIM905


def run(folder: Path, script: Script) -> None:
    listed = f'case $* in *list-units*) printf "%s loaded active\\n" {" ".join(LISTED)} ;; esac\n'
    path = local.tool(folder / "bin", "systemctl", f'echo "$*" >>{folder}/systemctl\n{listed}')
    done = local.run(script, PATH=path, HOME=str(folder / "home"))
    assert done.returncode == 0, done.stderr


def made() -> dict[str, Any]:
    return look_at_made({"policies": [], "away": "/nonexistent"})


def finish(folder: Path, *kept: str) -> None:
    """The last steps: the models, where they are not kept, and the rest."""
    if not kept:
        run(folder, Script(REMOVE, (MODELS, "*"), python=True))
    run(folder, Script(decide.REST, kept or ("",)))


def test_what_is_ours_is_seen_and_what_is_not_is_not(home: Path) -> None:
    found = made()
    assert found["units"] == ["paddock-llama-server.service"]
    assert found["drop_ins"] == ["paddock-llama-server.service.d"]
    assert found["models"] >= 5000
    assert str(home / ".cache") in found["paths"]
    assert sorted(found["data"]) == ["releases", "run.lock"]


def test_the_users_part_is_gone_with_every_folder_that_the_first_run_found_absent(home: Path) -> None:
    (home / ".config/systemd/user/a.wants").rmdir()
    run(home.parent, Script(decide.UNITS))
    assert sorted(path.name for path in (home / ".config/systemd/user").iterdir()) == [
        "paddock-llama-server.service.d",
        "paddock-mine.service",
    ]
    assert "--user disable --quiet paddock-llama-server.service" in (home.parent / "systemctl").read_text()
    for path in (home / ".config/systemd/user").iterdir():
        path.unlink() if path.is_file() else path.rmdir()
    finish(home.parent)
    assert list(home.iterdir()) == []


def test_what_would_start_the_server_again_is_stopped_before_it_and_no_unit_of_the_users(home: Path) -> None:
    run(home.parent, Script(decide.UNITS))
    asked = (home.parent / "systemctl").read_text().splitlines()
    stopped = [line.rpartition(" ")[2] for line in asked if " stop " in line]
    assert stopped[:3] == ["paddock-watchdog.timer", "paddock-watchdog.service", "paddock-switch.service"]
    assert {"paddock-build.service", "paddock-llama-server.service"} < set(stopped)
    assert "paddock-mine.service" not in stopped


def test_the_systems_service_stops_after_what_would_start_it_again_and_its_state_goes_last(tmp_path: Path) -> None:
    """By root, in folders of root's: the same script with other ones."""
    there, state = tmp_path / "units", tmp_path / "state"
    for folder in (there, state):
        folder.mkdir()
    for name in ("paddock-llama-server.service", "paddock-watchdog.timer", "paddock-watchdog.service"):
        (there / name).write_text("# Written by Paddock.\n")
    text = GIVE_WAY.replace("/etc/systemd/system", str(there)).replace("/var/lib/paddock", str(state))
    text = text.replace("/var/cache", str(tmp_path / "cache"))
    run(tmp_path, Script(text, ("stop",)))
    stopped = [line.rpartition(" ")[2] for line in (tmp_path / "systemctl").read_text().splitlines()]
    assert stopped == [
        "paddock-switch.service",
        "paddock-watchdog.timer",
        "paddock-watchdog.service",
        "paddock-llama-server.service",
    ]
    assert len(list(there.iterdir())) == 3
    run(tmp_path, Script(text, ("remove",)))
    assert (list(there.iterdir()), state.exists()) == ([], False)


def test_a_folder_that_somebody_uses_by_now_stays(home: Path) -> None:
    (home / ".local/share/theirs").mkdir()
    finish(home.parent)
    assert [path.name for path in (home / ".local/share").iterdir()] == ["theirs"]


def test_a_run_that_comes_while_a_dead_runs_script_still_removes_waits_and_then_has_a_host_of_its_own(
    home: Path,
) -> None:
    """The script is held up in the middle; the next run's claim must not be swept away by its end."""
    run(home.parent, Script(REMOVE, (MODELS, "*"), python=True))
    slow = decide.REST.replace('rm -rf "$data"', 'touch "$HOME/../half"; sleep 1; rm -rf "$data"')
    with ThreadPoolExecutor() as pool:
        old = pool.submit(run, home.parent, Script(slow, ("",)))
        while not (home.parent / "half").exists():
            time.sleep(0.01)
        run(home.parent, Script(claim.TAKE, (claim.holder(), "", "45")))
        old.result()
    assert (home / ".local/share/paddock/run.lock").read_text().strip() == claim.holder()
    assert f"{home}/.local" in (home / ".local/share/paddock/created/paths").read_text().splitlines()


def test_models_that_are_kept_stay_with_the_record_of_what_is_ours(home: Path) -> None:
    finish(home.parent, "models")
    data = home / ".local/share/paddock"
    assert sorted(path.name for path in data.iterdir()) == ["created", "models"]
    assert made()["data"] == []
    finish(home.parent)
    assert not (home / ".local").exists()


def test_once_more_after_it_was_killed_anywhere_it_comes_to_the_same_end(home: Path) -> None:
    """It is cut after each of its commands in turn, but the very last, which leaves folders that are empty."""
    run(home.parent, Script(REMOVE, (MODELS, "*"), python=True))
    lines = decide.REST.splitlines()
    ends = [at for at, line in enumerate(lines, 1) if line.startswith(('rm -rf "$HOME', "cd", "find"))]
    assert len(ends) == 4
    for at in ends:
        run(home.parent, Script("\n".join(lines[:at]) + "\nexit", ("",)))
        run(home.parent, Script(claim.TAKE, (claim.holder(), "", "45")))
    run(home.parent, Script(decide.REST, ("",)))
    assert not (home / ".local").exists()
    assert not (home / ".cache").exists()
