"""The rules between keys that come from llama.cpp, systemd and the network, and values as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from roles import settings
from tests.unit.hosts import DATA

KEY = {"api_key_file": "~/key"}


def problems(**data: Any) -> list[str]:
    return settings.errors({**DATA, **data})


@pytest.mark.parametrize(
    ("k", "v", "needed"),
    [
        ("f16", "f16", False),
        ("bf16", "bf16", False),
        ("q8_0", "q8_0", False),
        ("q4_0", "q4_0", False),
        ("q8_0", "q4_0", True),
        ("f16", "q8_0", True),
        ("q4_1", "q4_1", True),
        ("q5_0", "q5_0", True),
        ("q5_1", "q5_1", True),
        ("f32", "f32", False),
    ],
)
def test_a_pair_of_cache_types_needs_the_kernels_that_a_plain_build_lacks(k: str, v: str, needed: bool) -> None:
    wanted = settings.of({**DATA, "cache_type_k": k, "cache_type_v": v}).service
    assert wanted.needs_all_quants is needed


def test_without_flash_attention_no_such_kernel_is_needed() -> None:
    wanted = settings.of({**DATA, "cache_type_k": "q8_0", "flash_attention": "off"}).service
    assert not wanted.needs_all_quants


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"backend": "cuda", "cache_type_k": "iq4_nl", "cache_type_v": "iq4_nl"}, "cache_type_k: 'iq4_nl' has no CUDA"),
        ({"backend": "cuda", "cache_type_v": "iq4_nl"}, "cache_type_v: 'iq4_nl' has no CUDA kernel"),
        ({"flash_attention": "off", "cache_type_v": "q4_0"}, "flash_attention: 'off' cannot be had with cache_type_v"),
        (
            {"cache_type_k": "q8_0", "cache_type_v": "q4_0", "llama_cmake_args": ["GGML_CUDA_FA_ALL_QUANTS=OFF"]},
            "llama_cmake_args: GGML_CUDA_FA_ALL_QUANTS=OFF leaves out the kernels",
        ),
        ({"host": "0.0.0.0"}, "host: 0.0.0.0 is beyond loopback, and anybody there could use it; set api_key_file"),
        ({"host": "192.168.1.20"}, "host: 192.168.1.20 is beyond loopback"),
        ({"host": "::"}, "host: :: is beyond loopback"),
        ({"host": "my.server", **KEY}, "host: 'my.server' is no address"),
        ({"service_memory_max": "2G", "cache_ram_mib": 2048}, "cannot hold cache_ram_mib=2048"),
        ({"service_memory_max": "24GB"}, "is not a size; write digits and K, M, G or T, as in 24G"),
        ({"service_memory_swap_max": "10%"}, "'10%' is a share; write a size"),
        ({"build_time_max": "2 hours"}, "is not a duration; write digits and s, min, h or d, as in 2h"),
        ({"build_time_max": "0h"}, "is not a duration"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(data: dict[str, Any], sentence: str) -> None:
    found = problems(**data)
    assert len(found) == 1, found
    assert sentence in found[0]


@pytest.mark.parametrize(
    "data",
    [
        {"host": "192.168.1.20", **KEY},
        {"host": "127.0.0.2"},
        {"host": "::1"},
        {"host": "localhost"},
        {"service_memory_max": "85%"},
        {"service_memory_max": "100%"},
        {"backend": "cpu", "cache_type_k": "iq4_nl", "cache_type_v": "iq4_nl"},
        {"flash_attention": "off", "cache_type_k": "q4_0"},
        {"cache_type_k": "q8_0", "cache_type_v": "q8_0", "llama_cmake_args": ["GGML_CUDA_FA_ALL_QUANTS=OFF"]},
    ],
)
def test_what_can_work_is_accepted(data: dict[str, Any]) -> None:
    assert problems(**data) == []


def test_a_share_is_of_the_memory_in_whole_mebibytes() -> None:
    assert settings.size_in_bytes("75%", of=32 << 30) == 24 << 30
    assert settings.size_in_bytes("85%", of=1000 << 20) == 850 << 20
    assert settings.size_in_bytes("50%", of=(3 << 20) + 5) == 1 << 20


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("90min", 5400), ("2h", 7200), ("1d", 86400)])
def test_durations_are_counted_in_seconds(text: str, seconds: int) -> None:
    assert settings.seconds(text) == seconds


@pytest.mark.parametrize(
    "repo",
    [
        "https://ghp_SECRET@github.com/me/fork.git",
        "https://me:SECRET@git.example/fork.git",
        "ssh://git:SECRET@git.example/fork",
    ],
)
def test_a_secret_in_the_address_of_a_repository_is_refused_and_not_shown(repo: str) -> None:
    (told,) = problems(llama_repo=repo)
    assert "holds a name or a secret" in told
    assert "SECRET" not in told


@pytest.mark.parametrize("repo", ["https://git.example/fork.git", "git@github.com:me/fork.git", "ssh://git@host/fork"])
def test_the_address_of_a_repository_may_name_an_ssh_user(repo: str) -> None:
    assert problems(llama_repo=repo) == []


@pytest.mark.parametrize("value", ["banana", "native", "86-", "86,120", "8.6"])
def test_architectures_are_written_as_cmake_has_them(value: str) -> None:
    (told,) = problems(cuda_architectures=value)
    assert "is written as in 86-real or 86-real;120-real" in told


@pytest.mark.parametrize("value", ["auto", "86-real", "75", "90a-real;120f-virtual", "all-major"])
def test_architectures_of_every_form_are_taken(value: str) -> None:
    assert problems(cuda_architectures=value) == []
