"""A service of the system's manager, beside one of the user's: where it is, who does what, what the unit says."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roles.host import AWAY, HOST
from roles.observation import Observation
from roles.overview.needs import needs_root
from roles.remote import Script
from roles.service import decide, reasons, sandbox
from roles.service import scope as scopes
from roles.service.observe import SERVICE
from roles.service.unit import wanted_unit
from tests.unit import hosts, local, seed
from tests.unit.deciding import acting, in_order, refusal, resting
from tests.unit.deciding import reasons as why

SYSTEM = hosts.wishes(service_scope="system")
HERE = {"data": AWAY, "system_capped": True}


def away(wanted: Any = SYSTEM, **changes: dict[str, Any]) -> Observation:
    """A host that is as a system's service wants it."""
    return hosts.converged(wanted, **changes)


def fresh() -> Observation:
    """A host that runs the user's service, and is asked for one of the system's."""
    answers = hosts.converged_answers()
    there = {"elsewhere": True, "port_taken": True, "port_holder": {"pid": 7, "name": "llama-server"}}
    return hosts.parsed({**answers, "service": {**hosts.bare_answers()["service"], **there}})


PLACED = partial(decide.placed, SYSTEM, False)
HOME = partial(decide.placed, hosts.wishes(), False)


def test_releases_and_models_move_out_of_the_home_and_back() -> None:
    decision = acting(PLACED, fresh())
    assert decision.reasons == (f"releases and models move to {AWAY}",)
    assert decision.steps[0].script.root
    back = acting(HOME, decision.after)
    assert back.after[HOST].data_dir == "/home/dev/.local/share/paddock"
    resting(HOME, hosts.converged())


def test_without_root_there_is_no_service_of_the_systems() -> None:
    none = hosts.converged(host={"root": "none"})
    assert refusal(PLACED, none).startswith("service_scope='system': root is needed and dev has none")


def test_from_a_users_service_to_the_systems_every_decision_rests_on_what_the_one_before_predicted() -> None:
    seen, acts = fresh(), []
    for name, each in in_order(SYSTEM).items():
        decision = each(seen)
        assert decision.refusal is None, (name, decision.refusal)
        acts += [name] if decision.steps else []
        seen = decision.after
    assert {"place", "sandbox", "guard", "service"} <= set(acts)
    for name, each in in_order(SYSTEM).items():
        assert not each(seen).steps, name


def test_nothing_of_the_unit_is_below_a_home_and_its_account_is_its_own() -> None:
    wanted = hosts.wishes(hosts.HUB_DATA, service_scope="system")
    answers = hosts.bare_answers(
        host=HERE, model={"path": "/home/dev/.local/share/paddock/models/m/some.gguf", "file": None, "is_gguf": False}
    )
    seen = hosts.parsed(answers)
    for each in in_order(wanted).values():
        seen = each(seen).after
    text = seen[SERVICE].unit or ""
    assert "/home/" not in text
    assert f"{AWAY}/releases/" in text
    assert f" -m {AWAY}/models/m/some.gguf " in text
    for line in ("DynamicUser=yes", "User=paddock", "LogRateLimitBurst=5000", "WantedBy=multi-user.target"):
        assert f"\n{line}\n" in text
    users = wanted_unit(hosts.wishes(), hosts.converged()).text
    assert not [word for word in ("DynamicUser", "LoadCredential", "LogRateLimit") if word in users]


def test_the_key_is_handed_over_by_systemd_from_a_file_that_the_account_cannot_read() -> None:
    wanted = hosts.wishes(service_scope="system", api_key_file="~/llama.key")
    text = wanted_unit(wanted, away()).text
    assert "\nLoadCredential=api-keys:/home/dev/llama.key\n" in text
    assert " --api-key-file %d/api-keys " in text


def test_root_makes_the_cards_nodes_before_the_sandbox_holds() -> None:
    wanted = seed.wishes(service_scope="system")

    def unit(**card: Any) -> str:
        seen = hosts.parsed(seed.laptop_answers(sandbox=card, host=HERE))
        for each in in_order(wanted).values():
            seen = each(seen).after
        return seen[SERVICE].unit or ""

    text = unit(modprobe="/usr/bin/nvidia-modprobe")
    assert "\nExecStartPre=-+/usr/bin/nvidia-modprobe -c 0 -u\n" in text
    assert sandbox.told(text) == "sandbox: system calls, files, the system's"
    assert not [line for line in (*sandbox.NO_CARD, sandbox.NO_JIT) if line in text.splitlines()]
    assert "nvidia-modprobe" not in unit(modprobe="/usr/bin/nvidia-modprobe", uvm_at_boot=True)


@pytest.mark.parametrize(("path", "said"), [("/srv/m.gguf", "yes"), ("/home/dev/m.gguf", "read-only")])
def test_a_model_in_a_home_can_be_read(path: str, said: str) -> None:
    groups, _ = sandbox.offered(hosts.wishes(service_scope="system"), away(model={"path": path}))
    assert f"ProtectHome={said}" in groups["files"]


def test_the_users_service_gives_way_as_the_systems_starts_and_the_other_way_round() -> None:
    start = partial(decide.running, SYSTEM)
    [step] = acting(start, decide.guarded(SYSTEM, PLACED(fresh()).after).after).steps
    assert step.script.root
    assert json.loads(step.script.args[1])["manager"] == "system"
    told = hosts.converged(service={"elsewhere": True})
    back = acting(partial(decide.running, hosts.wishes()), told)
    assert "is in the other manager too, which gives way" in back.reasons[0]
    assert [each.script.root for each in back.steps] == [True, False, True]


def test_the_port_is_no_strangers_where_the_other_managers_service_has_it() -> None:
    wanted = SYSTEM.settings.service
    assert reasons.stolen_port(wanted, fresh()[SERVICE]) is None
    stranger = fresh()[SERVICE].model_copy(update={"elsewhere": False})
    assert "is taken by llama-server (pid 7)" in (reasons.stolen_port(wanted, stranger) or "")


def test_a_cap_that_the_system_does_not_enforce_is_the_systems() -> None:
    wanted = SYSTEM.settings.service
    assert reasons.uncapped(wanted, away()[HOST]) is None
    not_there = away(host={"system_capped": False})[HOST]
    assert "is not systemd's here" in (reasons.uncapped(wanted, not_there) or "")


def test_a_password_is_asked_for_only_where_something_of_roots_is_due() -> None:
    assert needs_root(SYSTEM, fresh())
    assert needs_root(SYSTEM, away(service={"unit": None}))
    assert needs_root(hosts.wishes(service_scope="system", context=65536), away())
    assert not needs_root(SYSTEM, away())


def test_a_converged_one_rests() -> None:
    for name, each in in_order(SYSTEM).items():
        assert not each(away()).steps, (name, why(each, away()))


@pytest.mark.parametrize("half", ["", "moved", "claimed"])
def test_the_move_goes_on_where_it_was_killed(half: str, tmp_path: Path) -> None:
    """A rename within a disk; the other way, a copy, has no moment in which anything is lost."""
    home, there = tmp_path / "home/paddock", tmp_path / "opt/paddock"
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    (home / "created").mkdir(parents=True)
    (home / "models").mkdir()
    there.parent.mkdir()
    if half:
        home.rename(there)
    if half == "claimed":
        home.mkdir()
        (home / "run.lock").write_text("me\n")
    arguments = (user, str(home), str(there))
    for _ in range(2):
        done = local.run(Script(decide.PLACE, (*arguments, "out")))
        assert done.returncode == 0, done.stderr
    assert (home.readlink(), (home / "models").is_dir()) == (there, True)
    assert (there / "run.lock").exists() == (half == "claimed")
    assert local.run(Script(decide.PLACE, (*arguments, "home"))).returncode == 0
    assert (home.is_symlink(), (home / "models").is_dir(), there.exists()) == (False, True, False)


def test_a_link_of_the_users_own_is_left_alone_and_told(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    done = local.run(Script(decide.PLACE, ("root", str(tmp_path / "home"), str(tmp_path / "opt/paddock"), "out")))
    assert "is a link of your own to" in done.stderr
    assert (tmp_path / "home").resolve() == tmp_path / "disk"


def test_both_scopes_are_written_for_their_manager() -> None:
    user, system = decide.guard(away()[HOST], scopes.USER), decide.guard(away()[HOST], scopes.SYSTEM)
    assert "systemctl --user disable" in (user.timer or "")
    assert "ExecStart=/var/lib/paddock/bin/paddock-switch watch" in (system.service or "")


@pytest.mark.parametrize("passes", [True, False])
def test_the_users_service_goes_once_the_systems_has_passed_and_comes_back_where_it_has_not(
    passes: bool, tmp_path: Path
) -> None:
    """Both managers and the switch are played: only root on a host with systemd has them."""
    units, state = tmp_path / "home/.config/systemd/user", tmp_path / "state"
    units.mkdir(parents=True)
    (state / "bin").mkdir(parents=True)
    for name in ("paddock-llama-server.service", "paddock-watchdog.timer"):
        (units / name).write_text("# Written by Paddock.\n")
    (units / "paddock-mine.service").write_text("[Service]\n")
    log = f'echo "$(basename "$0") $*" >>{tmp_path}/calls\n'
    path = local.tool(tmp_path / "bin", "runuser", log)
    local.tool(tmp_path / "bin", "getent", f"echo dev:x:1000:1000::{tmp_path}/home:/bin/sh\n")
    local.tool(tmp_path / "bin", "systemctl", "exit 3\n")
    local.tool(tmp_path / "bin", "systemd-run", f"{log}echo paddock: no device\nexit {0 if passes else 1}\n")
    arguments = (f"{state}/bin/paddock-switch", "{}", "60", "1000", "dev", "1000")
    done = local.run(Script(decide.SWITCH, arguments), PATH=path)
    assert (done.returncode == 0) is passes, done.stderr
    calls = [line.partition("systemctl --user ")[2] for line in (tmp_path / "calls").read_text().splitlines()]
    assert calls[1:3] == ["stop paddock-watchdog.timer", "stop paddock-llama-server.service"]
    again = ["start paddock-llama-server.service", "start paddock-watchdog.timer"]
    assert (calls[-2:] == again) is not passes
    left = {one.name for one in units.iterdir()}
    ours = {"paddock-llama-server.service", "paddock-watchdog.timer"}
    assert left == {"paddock-mine.service", *(() if passes else ours)}
    assert (state / "wanted.json").stat().st_mode & 0o777 == 0o600
