"""What a service takes of the RAM, and the cap that holds it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.memory import cap, ram
from roles.memory.plan import Plan, Share
from roles.memory.ram import MIB, Limits, Need
from roles.service.unit import wanted_unit
from roles.settings import Memory, Service
from tests.unit import hosts, seed
from tests.unit.deciding import left_out, refusal, resting

GIB = 1 << 30
# As the article's final command: the experts of 44 of 48 layers in the RAM.
HOST = Share(device="Host", model=6777, context=0, compute=512)
ITEMS = {"model, mapped from its file": 6777, "compute": 512, "prompt cache": 2048, "process": 512}


def plan(**fields: Any) -> Plan:
    told = {
        "digest": "d",
        "gpu_layers": 99,
        "n_cpu_moe": 44,
        "layers": 49,
        "offloaded": 49,
        "devices": (),
        "host": HOST,
    }
    return Plan(**{**told, **fields})


def need(backend: str = "cuda", settings: dict[str, Any] | None = None, **fields: Any) -> Need:
    return ram.needed(Service(**(settings or {})), backend, plan(**fields))


def items(found: Need) -> dict[str, int]:
    return {item.name: item.mib for item in found.items}


def limits(found: Need | None, total: int = 32 * GIB, oomd: bool = False, **settings: Any) -> Limits:
    return ram.limits(Service(**settings), Memory(), total, oomd, found)


def test_each_part_is_named_and_what_takes_nothing_is_not() -> None:
    assert items(need()) == ITEMS
    assert (need().fixed, need().whole) == (3072, 9849)


@pytest.mark.parametrize(
    ("backend", "settings", "name", "fixed"),
    [
        ("cuda", {}, "model, mapped from its file", False),
        ("cuda", {"load_mode": "mmap"}, "model, mapped from its file", False),
        ("cuda", {"load_mode": "none"}, "model, pinned", True),
        ("cuda", {"load_mode": "dio"}, "model, pinned", True),
        ("cpu", {"load_mode": "none"}, "model, copied", True),
        ("cpu", {"load_mode": "mlock"}, "model, copied", True),
        ("rpc", {"load_mode": "mmap+mlock"}, "model, locked", True),
    ],
)
def test_the_load_mode_says_whether_the_weights_can_be_taken_back(
    backend: str, settings: dict[str, Any], name: str, fixed: bool
) -> None:
    [item] = [item for item in need(backend, settings).items if item.mib == 6777]
    assert (item.name, item.fixed) == (name, fixed)


def test_what_the_cpu_repacks_is_held_beside_the_file() -> None:
    found = need("cpu", repacked=4000)
    assert items(found)["model, repacked"] == 4000
    assert found.fixed == 4000 + 512 + 2048 + ram.PROCESS_ELSE


@pytest.mark.parametrize(
    ("words", "number"),
    [((), 32), (("-ctxcp", "4"), 4), (("--ctx-checkpoints", "0"), 0), (("--swa-checkpoints", "8"), 8)],
)
def test_context_checkpoints_are_counted_by_their_number_and_size(words: tuple[str, ...], number: int) -> None:
    found = items(need(settings={"server_args": words}, state=60))
    assert found.get(f"{number} context checkpoints", 0) == number * 60


def test_a_model_without_windows_and_recurrent_state_has_no_checkpoints() -> None:
    assert not any("checkpoints" in name for name in items(need()))


def test_an_automatic_cap_is_what_is_needed_and_a_margin() -> None:
    assert limits(need()) == Limits((9849 * 16 // 15 + 1) * MIB, (9849 * 16 // 15 + 1 - 656) * MIB, 0)
    assert limits(need()).high == 9850 * MIB, "everything fits below MemoryHigh"


def test_the_seeds_24_gigabytes_stay_what_they_are() -> None:
    assert limits(need(), service_memory_max="24G") == Limits(24 * GIB, 24 * GIB * 15 // 16, 0)


@pytest.mark.parametrize(("total", "most"), [(32 * GIB, 24 * GIB), (8 * GIB, 6 * GIB), (4 * GIB, 2 * GIB)])
def test_without_a_plan_the_cap_is_three_quarters_of_the_ram_and_leaves_the_reserve(total: int, most: int) -> None:
    assert limits(None, total) == Limits(most, None, 0)


def test_an_automatic_cap_never_takes_the_reserve() -> None:
    assert limits(need(), total=8 * GIB).maximum == 6 * GIB


@pytest.mark.parametrize("found", [None, need(), need(repacked=20_000)])
def test_another_kernel_leaves_a_little_more_or_less_of_the_ram_and_that_is_the_same_cap(found: Need | None) -> None:
    memtotal = 32_760_020 << 10  # of 32 GiB, as /proc/meminfo tells it
    assert len({limits(found, memtotal + more).maximum for more in (-6 * MIB, 0, 6 * MIB)}) == 1


def test_a_cap_of_ones_own_may_be_all_but_the_reserve() -> None:
    total = 32_675_340 << 10
    own, memory = Service(service_memory_max=f"{(total - 2 * GIB) >> 20}M"), Memory()
    assert ram.warning(own, memory, total, False, need()) is None


@pytest.mark.parametrize(
    ("oomd", "cap_", "why"),
    [
        (True, "24G", "throttling is the pressure that systemd-oomd kills for"),
        (False, "3300M", "where nothing can be taken back a throttled process hangs"),
    ],
)
def test_memory_high_is_left_out_where_it_would_do_harm(oomd: bool, cap_: str, why: str) -> None:
    assert limits(need(), oomd=oomd, service_memory_max=cap_).high is None, why


FIGURES = st.integers(0, 200_000)
NEEDS = st.builds(
    lambda host, repacked, state, mode, cache, backend: ram.needed(
        Service(load_mode=mode, cache_ram_mib=cache),
        backend,
        plan(
            host=Share(device="Host", model=host[0], context=host[1], compute=host[2]), repacked=repacked, state=state
        ),
    ),
    st.tuples(FIGURES, FIGURES, st.integers(0, 8000)),
    FIGURES,
    st.integers(0, 2000),
    st.sampled_from(["auto", "none", "mmap", "mlock", "mmap+mlock", "dio"]),
    st.integers(0, 20_000),
    st.sampled_from(["cuda", "cpu", "rpc"]),
)
TOTALS = st.integers(2 * GIB + MIB, 1 << 41)


@given(NEEDS, TOTALS, st.booleans())
def test_an_automatic_cap_holds_what_is_fixed_and_leaves_the_reserve_or_the_host_is_refused(
    found: Need, total: int, oomd: bool
) -> None:
    service, memory = Service(), Memory()
    chosen = ram.limits(service, memory, total, oomd, found)
    assert chosen.maximum <= total - 2 * GIB
    refused = ram.refusal(service, memory, total, found)
    assert (refused is None) == (chosen.maximum >= found.fixed * MIB)
    assert chosen.high is None or found.fixed * MIB <= chosen.high < chosen.maximum
    if chosen.maximum >= found.whole * MIB:
        assert ram.warning(service, memory, total, oomd, found) is None


@given(NEEDS, TOTALS, TOTALS, st.integers(0, 100_000))
def test_more_need_and_more_ram_never_make_the_cap_smaller(found: Need, one: int, other: int, more: int) -> None:
    larger = Need((*found.items, ram.Item("more", more)))
    assert limits(larger, one).maximum >= limits(found, one).maximum
    assert limits(found, max(one, other)).maximum >= limits(found, min(one, other)).maximum


@given(NEEDS, TOTALS, st.integers(1, 1 << 20))
def test_the_cap_that_a_refusal_names_is_accepted(found: Need, total: int, mib: int) -> None:
    service, memory = Service(service_memory_max=f"{mib}M", cache_ram_mib=0), Memory()
    told = ram.refusal(service, memory, total, found) or ""
    if "set it to" in told:
        named = told.partition("set it to ")[2].split(" ")[0]
        assert ram.refusal(Service(service_memory_max=named, cache_ram_mib=0), memory, total, found) is None


def held(**data: Any) -> Any:
    return partial(cap.held, hosts.wishes(**data))


def planned(data: dict[str, Any], host: dict[str, Any] | None = None, oomd: bool = False, **fields: Any) -> Any:
    """The converged host, with a plan of these figures."""
    answers = hosts.converged_answers(hosts.wishes(**data), host=host or {}, machine={"oomd": oomd})
    answers["memory"] = {"plans": hosts.plans(hosts.wishes(**data), answers, **fields)}
    return hosts.parsed(answers)


def test_a_plan_that_the_ram_holds_is_no_word() -> None:
    resting(held(), planned({}))


def test_a_cap_below_what_is_fixed_is_refused_with_every_part_and_what_to_do() -> None:
    data = {"service_memory_max": "2G", "cache_ram_mib": 1024, "load_mode": "none"}
    assert refusal(held(**data), planned(data)) == (
        "service_memory_max=2G is 2048 MiB and cannot hold the 8441 MiB of RAM that cannot be taken back (model, copied"
        " 6777 + compute 512 + prompt cache 1024 + process 128); set it to 9004M or to 'auto', or set load_mode='mmap'"
        ". Change that, or take the risk with memory_check='warn'"
    )


def test_a_host_that_is_too_small_is_told_the_greatest_part() -> None:
    told = refusal(held(), planned({}, {"memory_total": 8 << 30}, repacked=9000))
    assert "ram_reserve=2G leaves 6144 of 8192 MiB; add '--no-repack' to server_args" in told


def test_the_check_may_be_a_mere_word() -> None:
    data = {"service_memory_max": "2G", "load_mode": "none", "cache_ram_mib": 512, "memory_check": "warn"}
    assert "cannot hold the" in left_out(held(**data), planned(data))


@pytest.mark.parametrize(("oomd", "killer"), [(False, False), (True, True)])
def test_a_cap_that_would_thrash_is_told_with_the_one_that_would_not(oomd: bool, killer: bool) -> None:
    data = {"service_memory_max": "6G"}
    told = left_out(held(**data), planned(data, oomd=oomd))
    assert told.startswith("6777 MiB of the model's file are read by the CPU, and service_memory_max=6G has room for")
    assert " has room for 3456: they would" in told
    assert told.endswith("service_memory_max='10096M' holds them")
    assert ("systemd-oomd" in told) == killer


def test_a_small_ram_says_that_no_cap_would_help() -> None:
    assert left_out(held(), planned({}, {"memory_total": 8 << 30})).endswith("this RAM does not hold them")


def test_a_cap_that_takes_the_reserve_is_told() -> None:
    data = {"service_memory_max": "31G"}
    assert left_out(held(**data), planned(data)) == (
        "service_memory_max=31G leaves less than ram_reserve=2G to all else"
    )


def test_nothing_is_judged_before_there_are_figures() -> None:
    resting(held(), hosts.converged(memory={"plans": {}}))
    resting(held(), planned({}, checked=False))


def test_the_unit_of_a_plan_to_come_says_so() -> None:
    seen = planned({}, made=False, checked=False)
    text = wanted_unit(hosts.wishes(), seen).text
    assert "\nMemoryMax=known-after-the-plan\n" in text
    assert "\nMemoryHigh=known-after-the-plan\n" in text
    own: dict[str, Any] = {"service_memory_max": "20G"}
    text = wanted_unit(hosts.wishes(**own), planned(own, made=False, checked=False)).text
    assert "\nMemoryMax=20G\n" in text


def test_the_seeds_unit_keeps_its_24_gigabytes_on_its_own_machine() -> None:
    laptop = seed.laptop_answers()
    laptop["memory"] = {"plans": hosts.plans(seed.wishes(), laptop)}
    assert "\nMemoryMax=24G\n" in wanted_unit(seed.wishes(), hosts.parsed(laptop)).text
    resting(partial(cap.held, seed.wishes()), hosts.parsed(laptop))
