"""What a header alone can say: never more than llama.cpp, and enough to refuse what is hopeless."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.memory import bound, decide
from roles.memory.bound import least
from roles.overview.preflight import preflight
from roles.wishes import Anatomy, Wishes
from tests.unit import hosts, seed
from tests.unit.deciding import refusal, resting

# A qwen3moe of 48 layers and 128 experts, 8.4 GB; what llama-fit-params of October 2026 said of it for 122880 tokens,
# an rpc device and a ubatch of 2048 is model, context and compute of the device in MiB.
DENSE, EXPERTS, CACHE = 1_049_606_144, 155_713_536, (24_576, 24_576)
TWIN = Anatomy("qwen3moe", 48, 128, 8, (EXPERTS,) * 48, dense_bytes=DENSE, cache_row=CACHE)
SAID = {
    (48, "q4_0"): (1000, 3240, 1203),
    (44, "q4_0"): (1594, 3240, 1203),
    (40, "q4_0"): (2188, 3240, 1203),
    (0, "q4_0"): (8128, 3240, 1203),
    (44, "q8_0"): (1594, 6120, 1203),
}
LONG: dict[str, Any] = {"context": 122880, "ubatch": 2048, "flash_attention": "on"}


def service(**data: Any) -> Any:
    return hosts.wishes(**{**LONG, **data}).settings.service


@pytest.mark.parametrize("asked", SAID)
def test_it_is_never_more_than_llama_cpp_said_and_not_much_less(asked: tuple[int, str]) -> None:
    number, kind = asked
    model, context, _ = SAID[asked]
    found = least(TWIN, service(n_cpu_moe=number, cache_type_k=kind, cache_type_v=kind))
    assert model + context - 2 <= found <= model + context + 2  # two figures that were cut down


@given(st.integers(0, 48), st.integers(8192, 262_144), st.sampled_from(["f16", "q8_0", "q4_0"]))
def test_it_shrinks_with_every_wish_that_does(number: int, context: int, kind: str) -> None:
    def of(**changes: Any) -> int:
        wanted = {"n_cpu_moe": number, "context": context, "cache_type_k": kind, "cache_type_v": kind, **changes}
        return least(TWIN, service(**wanted))

    assert of(n_cpu_moe="auto") <= of()
    assert of(context=4096) <= of()
    assert of(cache_type_k="q4_0", cache_type_v="q4_0") <= of()


DENSE_MODEL = replace(TWIN, expert_bytes=())


@pytest.mark.parametrize(
    ("anatomy", "data", "mib"),
    [
        (TWIN, {"gpu_layers": 48}, 1),  # the output layer stays on the CPU, and who knows what with it
        (DENSE_MODEL, {}, 1),
        (DENSE_MODEL, {"gpu_layers": 1}, 1),
        (DENSE_MODEL, {"gpu_layers": 0}, 0),
        (TWIN, {"server_args": ["--no-kv-offload"]}, 0),
    ],
)
def test_where_there_is_another_way_out_it_claims_something_or_nothing(
    anatomy: Anatomy, data: dict[str, Any], mib: int
) -> None:
    assert least(anatomy, service(**data)) == mib


def test_a_limit_that_leaves_nothing_beside_the_runtime_is_refused_of_a_dense_model_too() -> None:
    """320 MiB are CUDA's own."""
    wishes = known(vram_limit_mib=320, gpu_layers="auto")
    dense = replace(wishes, model=replace(hosts.PIN, anatomy=DENSE_MODEL))
    assert bound.hopeless(dense, hosts.parsed(seed.laptop_answers())) == (
        "beside what the runtime takes, what is reserved and the margin no VRAM is left for some.gguf here; leave more"
        " for it, or set backend='cpu'. Change that, or take the risk with memory_check='warn'"
    )
    more = replace(dense, settings=known(vram_limit_mib=321, gpu_layers="auto").settings)
    assert bound.hopeless(more, hosts.parsed(seed.laptop_answers())) is None, "llama.cpp is asked"


def test_of_attention_that_is_no_plain_one_it_counts_the_weights_alone() -> None:
    assert least(replace(TWIN, cache_row=(0, 0)), service(context=262_144)) == DENSE >> 20


def known(**data: Any) -> Wishes:
    wishes = hosts.wishes({**seed.SETTINGS, **hosts.HUB_DATA, "model_path": None}, **{"n_cpu_moe": "auto", **data})
    return replace(wishes, model=replace(hosts.PIN, anatomy=TWIN))


@pytest.mark.parametrize("kind", ["f16", "q8_0"])
def test_a_hopeless_wish_is_refused_on_a_bare_host_before_anything_is_built(kind: str) -> None:
    seen = hosts.parsed(seed.laptop_answers(model=hosts.ABSENT, llama_cpp={"toolkits": {}, "compilers": {}}))
    told = refusal(partial(preflight, known(cache_type_k=kind, cache_type_v=kind)), seen)
    need = {"f16": 12520, "q8_0": 7120}[kind]
    assert told == (
        f"some.gguf takes at least {need} MiB of VRAM even with all experts on the CPU (weights and cache, by its"
        " header), and 4800 MiB are for it here; take a smaller context, cache type or model. Change that, or take the"
        " risk with memory_check='warn'"
    )


def test_what_may_fit_is_left_to_llama_cpp() -> None:
    seen = hosts.parsed(seed.laptop_answers(model=hosts.ABSENT))
    resting(partial(preflight, known()), seen)
    resting(partial(preflight, known(cache_type_k="q8_0", cache_type_v="q8_0", memory_check="warn")), seen)
    assert bound.hopeless(known(fit="on", gpu_layers="auto"), seen) is None
    assert bound.hopeless(known(backend="cpu"), seen) is None


def test_over_rpc_only_a_limit_tells_anything_before_the_release_does() -> None:
    rpc: dict[str, Any] = {"backend": "rpc", "rpc_servers": ["127.0.0.1:50052"], "gpu_layers": "auto", "fit": "auto"}
    assert bound.hopeless(known(**rpc), hosts.bare()) is None
    assert "and 2000 MiB are for it here" in (bound.hopeless(known(**rpc, vram_limit_mib=2000), hosts.bare()) or "")


def test_options_that_nobody_counts_and_a_recorded_no_are_refused_at_once() -> None:
    assert "--mmproj takes memory" in (decide.hopeless(known(server_args=["--mmproj", "/x"]), hosts.bare()) or "")
    wishes = hosts.wishes(backend="rpc", rpc_servers=["127.0.0.1:50052"])
    answers = hosts.converged_answers(wishes)
    answers["memory"] = {"plans": hosts.plans(wishes, answers, problem="it does not fit")}
    assert refusal(partial(preflight, wishes), hosts.parsed(answers)).startswith("it does not fit. Change that")


def test_what_was_recorded_and_what_nobody_counts_are_no_matter_where_llama_cpp_fits_the_model_itself() -> None:
    rpc: dict[str, Any] = {"backend": "rpc", "rpc_servers": ["127.0.0.1:50052"]}
    answers = hosts.converged_answers(hosts.wishes(**rpc))
    answers["memory"] = {"plans": hosts.plans(hosts.wishes(**rpc), answers, problem="it does not fit")}
    assert decide.hopeless(hosts.wishes(**rpc, fit="on"), hosts.parsed(answers)) is None
    assert decide.hopeless(known(fit="on", gpu_layers="auto", server_args=["--mmproj", "/x"]), hosts.bare()) is None


@pytest.mark.parametrize("option", ["--mmproj", "-md", "--lora", "--spec-type", "--fim-qwen-7b-spec"])
def test_each_kind_of_memory_that_is_not_counted_is_refused(option: str) -> None:
    assert f"{option} takes memory" in (decide.hopeless(known(server_args=[option, "/x"]), hosts.bare()) or "")
