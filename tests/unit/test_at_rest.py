"""A run on any host ends at rest: each decision on what it predicted, and all of them once more on the result."""

from __future__ import annotations

from typing import Any

import pytest

from roles.browser.table import CHROMIUM
from roles.llama_cpp.observe import LLAMA_CPP
from roles.llama_cpp.release import UNKNOWN
from roles.observation import Observation
from roles.service.observe import SERVICE
from roles.wishes import Wishes
from tests.unit import browsers, hosts, seed
from tests.unit.deciding import at_rest, in_order, resting

DRIFTED: dict[str, Any] = {
    "host": {"commands": {}, "lingers": False},
    "browser": browsers.both(),
    "llama_cpp": {"compilers": {"/usr/bin/g++": "15.1.0"}},
    "machine": {"kernel": "6.13.0"},
}
NO_TOOLKIT: dict[str, Any] = {"toolkits": {}, "compilers": {}}
NO_MODEL = {"file": None, "is_gguf": False}
HALF_A_MODEL = {**NO_MODEL, "part_size": 6_000_000_000}
OLD_MODELS = [{"folder": f"old/{number}", "size": 5_000_000_000, "mtime_ns": number} for number in (1, 2, 3)]
PORTABLE: dict[str, Any] = {"llama_cmake_args": ["GGML_NATIVE=OFF", "GGML_AVX2=ON"]}
RPC: dict[str, Any] = {"backend": "rpc", "rpc_servers": ["127.0.0.1:50052"], "n_cpu_moe": 2}

HOSTS: dict[str, tuple[Wishes, Observation]] = {
    "a bare Debian": (hosts.wishes(), hosts.bare()),
    "a bare Debian, portable build": (hosts.wishes(**PORTABLE), hosts.bare()),
    "a bare Debian, model from the Hub": (hosts.wishes(hosts.HUB_DATA), hosts.bare(model=NO_MODEL)),
    "more models than are kept": (hosts.wishes(hosts.HUB_DATA), hosts.bare(model={**NO_MODEL, "stored": OLD_MODELS})),
    "half a download": (hosts.wishes(hosts.HUB_DATA), hosts.bare(model=HALF_A_MODEL)),
    "layers over RPC": (hosts.wishes(**RPC), hosts.bare()),
    "no browser, and none wanted": (
        hosts.wishes(),
        hosts.bare(browser=browsers.both(installed=False)),
    ),
    "browsers named, none installed": (
        hosts.wishes(browser_policy=["chrome"]),
        hosts.bare(browser=browsers.both(installed=False)),
    ),
    "models to delete, and a file that says otherwise": (
        hosts.wishes(browser_delete_models=True, browser_policies={"HelpMeWriteSettings": 2}),
        hosts.bare(
            browser=browsers.browser_answer(
                files={CHROMIUM: [browsers.policy_file('{"HelpMeWriteSettings": 0}', "a")]}
            ),
            browser_models={"profiles": [browsers.profile()], "services": []},
        ),
    ),
    "the seed's laptop": (seed.wishes(), hosts.parsed(seed.laptop_answers())),
    "the seed's laptop before CUDA": (seed.wishes(), hosts.parsed(seed.laptop_answers(llama_cpp=NO_TOOLKIT))),
    "no figures wanted": (hosts.wishes(benchmark_depths=[]), hosts.bare()),
    "a host that drifted": (hosts.wishes(), hosts.converged(**DRIFTED)),
    "a host with other settings": (hosts.wishes(context=65536, cache_type_k="q4_0"), hosts.converged()),
    "a host with another commit": (Wishes(hosts.wishes().settings, "f" * 40, None), hosts.converged()),
    "a host that is as wanted": (hosts.wishes(), hosts.converged()),
}


@pytest.mark.parametrize(("wanted", "seen"), HOSTS.values(), ids=HOSTS)
def test_each_decision_rests_on_what_it_predicted(wanted: Wishes, seen: Observation) -> None:
    for name, decide in in_order(wanted).items():
        decision = decide(seen)
        assert decision.refusal is None, (name, decision.refusal)
        assert bool(decision.steps) == bool(decision.reasons), name
        assert at_rest(decide(decision.after)), (name, decide(decision.after))
        seen = decision.after


@pytest.mark.parametrize(("wanted", "seen"), HOSTS.values(), ids=HOSTS)
def test_the_whole_run_once_more_has_nothing_to_do(wanted: Wishes, seen: Observation) -> None:
    for decide in in_order(wanted).values():
        seen = decide(seen).after
    for name, decide in in_order(wanted).items():
        assert at_rest(decide(seen)), (name, decide(seen))


def test_on_a_bare_host_every_role_that_can_acts() -> None:
    acts: list[str] = []
    seen = hosts.bare(model=NO_MODEL)
    for name, decide in in_order(hosts.wishes(hosts.HUB_DATA)).items():
        decision = decide(seen)
        acts += [name] if decision.steps else []
        seen = decision.after
    before = ["packages", "browser", "lingering", "llama_cpp", "model", "memory of the file"]
    assert acts == [*before, "sandbox", "guard", "service", "benchmark", "record"]


@pytest.mark.parametrize("wanted", [hosts.wishes(), hosts.wishes(hosts.HUB_DATA), hosts.wishes(**RPC)])
@pytest.mark.parametrize("name", in_order(hosts.wishes()))
def test_on_a_converged_host_nothing_is_done_or_said(name: str, wanted: Wishes) -> None:
    resting(in_order(wanted)[name], hosts.converged(wanted))


def test_before_there_is_a_compiler_the_plan_is_whole_although_the_release_has_no_name_yet() -> None:
    seen = hosts.bare()
    for decide in in_order(hosts.wishes()).values():
        seen = decide(seen).after
    assert list(seen[LLAMA_CPP].releases) == [UNKNOWN]
    assert f"releases/{UNKNOWN}/bin/llama-server" in (seen[SERVICE].unit or "")
