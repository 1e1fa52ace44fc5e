"""Options in the spelling of a release, and the sentence about one that it lacks."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from roles.llama_cpp.release import wanted_release
from roles.memory.observe import MEMORY
from roles.overview.preflight import preflight
from roles.service import decide
from roles.service.observe import SERVICE
from roles.service.options import LacksOption, asked_for, spelled
from tests.unit import hosts
from tests.unit.deciding import acting, refusal

NEW = frozenset({"-m", "-c", "-fit", "--fit", "--load-mode", "--lazy-mode", "--moe-cache-mib", "--no-warmup", "-lv"})
OLD = frozenset({"-m", "-c", "--mmap", "--no-mmap", "--mlock", "--direct-io", "--no-warmup", "-lv"})


def words(knows: frozenset[str], **data: Any) -> list[str]:
    return spelled(asked_for(hosts.wishes(**data).settings.service, knows), knows)


@pytest.mark.parametrize(
    ("data", "knows", "expected"),
    [
        ({}, NEW, []),
        ({}, OLD, []),
        ({"load_mode": "none"}, NEW, ["--load-mode", "none"]),
        ({"load_mode": "none"}, OLD, ["--no-mmap"]),
        ({"load_mode": "mmap"}, OLD, ["--mmap"]),
        ({"load_mode": "mmap"}, OLD - {"--mmap"}, []),
        ({"load_mode": "mlock"}, OLD, ["--no-mmap", "--mlock"]),
        ({"load_mode": "mmap+mlock"}, OLD, ["--mlock"]),
        ({"load_mode": "dio"}, OLD, ["--direct-io"]),
        ({"load_mode": "none"}, frozenset(), ["--load-mode", "none"]),
        ({"lazy_mode": "off", "moe_cache_mib": 400}, NEW, ["--lazy-mode", "off", "--moe-cache-mib", "400"]),
        ({"server_args": ["--no-warmup"]}, OLD, ["--no-warmup"]),
    ],
)
def test_an_option_is_written_as_the_release_knows_it(
    data: dict[str, Any], knows: frozenset[str], expected: list[str]
) -> None:
    assert words(knows, **data) == expected


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"moe_cache_mib": 400}, r"has no --moe-cache-mib; llama\.cpp has it since b11480 \(#29887\)"),
        ({"lazy_mode": "on"}, "has no --lazy-mode; llama.cpp has it since b10731"),
        ({"server_args": ["--new-thing", "5"]}, "has no --new-thing; leave it out, or set another llama_ref$"),
    ],
)
def test_one_that_the_release_lacks_is_told_with_the_build_that_has_it(data: dict[str, Any], told: str) -> None:
    with pytest.raises(LacksOption, match=told):
        words(OLD, **data)


def test_a_release_that_has_no_load_mode_in_any_spelling_says_so() -> None:
    with pytest.raises(LacksOption, match=r"no --load-mode; llama\.cpp has it since July 2026"):
        words(OLD - {"--mlock"}, load_mode="mlock")


def test_nothing_needs_to_be_turned_off_that_a_release_does_not_do() -> None:
    assert spelled(["-m", "a", "-fit", "off", "-c", "5"], OLD) == ["-m", "a", "-c", "5"]
    assert spelled(["-m", "a", "-fit", "off", "-c", "5"], NEW) == ["-m", "a", "-fit", "off", "-c", "5"]
    with pytest.raises(LacksOption, match="has no -fit"):
        spelled(["-m", "a", "-fit", "on"], OLD)


def test_a_number_is_no_option() -> None:
    assert spelled(["-c", "-1", "-lv", "-0.5"], OLD) == ["-c", "-1", "-lv", "-0.5"]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--host", "0.0.0.0"], "--host is not for server_args: set the key host"),
        (["--api-key=abc"], "--api-key is not for server_args: use api_key_file"),
        (["-hft", "hf_abc"], "a token never goes into a command line"),
        (["--model", "/x.gguf"], "the model role has keys for it"),
        (["-np", "4"], "Paddock needs its own value"),
        (["--cache-type-k", "iq4_nl"], "set the key cache_type_k"),
        (["-fa", "off"], "set the key flash_attention"),
        (["--new-thing=5"], "'--new-thing=5' is one word, and llama-server takes an option and its value as two"),
    ],
)
def test_what_has_a_key_or_is_a_secret_is_not_for_server_args(args: list[str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        hosts.wishes(server_args=args)


def knowing(*options: str, **data: Any) -> tuple[Any, Any]:
    """Wishes, and a host whose release knows these options and no others."""
    before, wishes = hosts.wishes(), hosts.wishes(**data)
    key = wanted_release(before, hosts.converged(before)).key
    return wishes, hosts.converged(before, llama_cpp={"options": {key: options}})


ALL = (
    "-m",
    "-c",
    "-ub",
    "-np",
    "--cache-ram",
    "--no-context-shift",
    "-ctk",
    "-ctv",
    "-fa",
    "-fit",
    "--jinja",
    "--host",
    "--port",
    "-lv",
    "--cors-origins",
)


def test_a_host_is_refused_before_anything_for_an_option_that_its_release_lacks() -> None:
    wishes, seen = knowing(*ALL, moe_cache_mib=400)
    unplanned = seen.replace(MEMORY, plans={})  # another option is another plan, which is still to come
    told = refusal(partial(preflight, wishes), unplanned)
    assert told == refusal(partial(preflight, wishes), seen)
    assert told == (
        "this release of llama.cpp has no --moe-cache-mib; llama.cpp has it since b11480 (#29887); leave it"
        " out, or set another llama_ref"
    )
    assert "moe-cache-mib" in refusal(partial(decide.running, wishes), seen), "the service role alone says so too"


def test_an_option_that_the_release_knows_is_served_with() -> None:
    wishes, seen = knowing(*ALL, "--moe-cache-mib", moe_cache_mib=400)
    decision = acting(partial(decide.running, wishes), seen)
    assert decision.reasons == ("restart llama-server: --moe-cache-mib absent -> 400",)
    assert "--moe-cache-mib 400" in (decision.after[SERVICE].unit or "")


def test_a_release_that_lacks_what_every_unit_has_is_refused_too() -> None:
    wishes, seen = knowing(*[option for option in ALL if option != "--cache-ram"])
    assert "has no --cache-ram; llama.cpp has it since b6700" in refusal(partial(decide.running, wishes), seen)


@pytest.mark.parametrize("args", [["no-warmup"], ["--poll", "50", "60"]])
def test_a_word_that_belongs_to_no_option_is_refused(args: list[str]) -> None:
    with pytest.raises(ValueError, match="belongs to no option; a word each"):
        hosts.wishes(server_args=args)
