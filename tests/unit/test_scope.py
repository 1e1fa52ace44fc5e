"""A service of the system's manager, beside one of the user's: where it is, who does what, what the unit says."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from roles.host import AWAY, HOST
from roles.observation import Observation
from roles.overview.forecast import needs_root
from roles.service import decide, reasons, sandbox
from roles.service import scope as scopes
from roles.service.observe import SERVICE
from roles.service.unit import wanted_unit
from tests.unit import hosts, seed, services
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
    return hosts.parsed({**answers, "service": {**services.absent(), **there}})


PLACED = partial(decide.placed, SYSTEM, False)
HOME = partial(decide.placed, hosts.wishes(), False)
BROUGHT_HOME = partial(decide.brought_home, hosts.wishes())


def test_releases_and_models_move_out_of_the_home_and_back() -> None:
    decision = acting(PLACED, fresh())
    assert decision.reasons == (f"releases and models move to {AWAY}",)
    assert decision.steps[0].script.root
    resting(HOME, decision.after)
    back = acting(BROUGHT_HOME, decision.after)
    assert back.after[HOST].data_dir == "/home/dev/.local/share/paddock"
    resting(HOME, hosts.converged())


def test_without_root_there_is_no_service_of_the_systems() -> None:
    none = hosts.converged(host={"root": "none"})
    assert refusal(PLACED, none).startswith("service_scope='system': root is needed and dev has none")


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("llama_cpp", {"releases": {}}),
        ("model", {"is_gguf": False}),
        ("service", {"elsewhere": False, "port_taken": True, "port_holder": {"pid": 7, "name": "caddy"}}),
        ("service", {"masked": True}),
    ],
    ids=["no release", "no model", "port taken", "masked"],
)
def test_nothing_moves_from_under_a_service_of_the_systems_before_the_users_can_take_over(
    part: str, fields: dict[str, Any]
) -> None:
    there: dict[str, dict[str, Any]] = {"host": {"data": AWAY}, "service": {"elsewhere": True}}
    seen = hosts.converged(None, **{**there, part: {**there.get(part, {}), **fields}})
    resting(HOME, seen)
    resting(BROUGHT_HOME, seen)
    assert needs_root(hosts.wishes(), seen) is (part == "llama_cpp"), "where the run will come to that"


def test_from_the_systems_service_to_a_users_every_decision_rests_on_what_the_one_before_predicted() -> None:
    seen, acts = (
        hosts.converged(host={"data": AWAY}, service={**services.absent(), "elsewhere": True}),
        [],
    )
    for name, each in in_order(hosts.wishes()).items():
        decision = each(seen)
        assert decision.refusal is None, (name, decision.refusal)
        acts += [name] if decision.steps else []
        seen = decision.after
    assert acts.index("home") < acts.index("service")
    for name, each in in_order(hosts.wishes()).items():
        assert not each(seen).steps, name


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
    decision = acting(start, decide.guarded(SYSTEM, PLACED(fresh()).after).after)
    assert "is in the other manager, where it stops and is removed" in decision.reasons[0]
    [step] = decision.steps
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
    assert not needs_root(SYSTEM, away())
    another = hosts.wishes(service_scope="system", context=65536)
    assert needs_root(another, away())
    assert needs_root(another, away(llama_cpp={"releases": {}})), "before an hour of building"
    both = hosts.converged(service={"elsewhere": True}, llama_cpp={"releases": {}})
    assert needs_root(hosts.wishes(), both), "what is the system's gives way"


@pytest.mark.parametrize("wish", [{"benchmark_ab": True}, {"benchmark_on_regression": "rollback"}])
def test_a_password_is_asked_for_where_only_the_figures_to_come_may_need_it(wish: dict[str, Any]) -> None:
    former = {"last_good": "Environment=PADDOCK_STAMP=0123456789abcdef\n"}
    for scope, depths, service, asked in (
        ("system", [0, 512], former, True),
        ("system", [0, 512], {}, False),  # there is nothing to go back to
        ("system", "auto", former, False),  # what is served has been measured
        ("user", [0, 512], former, False),
    ):
        wishes = hosts.wishes(service_scope=scope, benchmark_depths=depths, **wish)
        seen = away(service=service) if scope == "system" else hosts.converged(wishes, service=service)
        assert needs_root(wishes, seen) is asked, (scope, depths, service)


def test_a_converged_one_rests() -> None:
    for name, each in in_order(SYSTEM).items():
        assert not each(away()).steps, (name, why(each, away()))


def test_a_move_that_was_killed_is_taken_up_whatever_is_wanted() -> None:
    stranded = hosts.converged(host={"stranded": True})
    [step] = acting(HOME, stranded).steps
    assert step.script.args[1:] == ("/home/dev/.local/share/paddock", AWAY, "home")
    assert not HOME(acting(HOME, stranded).after).steps
    [step] = acting(PLACED, stranded).steps
    assert step.script.args[3] == "out"


def test_both_scopes_are_written_for_their_manager() -> None:
    user, system = decide.guard(away()[HOST], scopes.USER), decide.guard(away()[HOST], scopes.SYSTEM)
    assert "systemctl --user disable" in (user.timer or "")
    assert "ExecStart=/var/lib/paddock/bin/paddock-switch watch" in (system.service or "")
