"""What the inventory may say, and what is said about what it may not."""

from __future__ import annotations

from typing import Any

import pytest

from roles import settings
from tests.unit.hosts import DATA

FREE = "something else"


def problems(**data: Any) -> list[str]:
    return settings.errors({**DATA, **data})


def the_problem(**data: Any) -> str:
    found = problems(**data)
    assert len(found) == 1, found
    return found[0]


def test_a_model_is_all_that_an_inventory_must_name() -> None:
    wanted = settings.of({"model_path": "~/some.gguf"})
    assert wanted.service == settings.Service.model_validate({})
    assert wanted.llama_cpp == settings.LlamaCpp.model_validate({})
    assert all(wanted.runs(role) for role in settings.ROLES)


def test_a_host_without_a_model_is_refused() -> None:
    assert settings.errors({}) == ["model_path, model_repo, model_url: set exactly one of the three"]


@pytest.mark.parametrize(
    ("key", "near"),
    [("contxt", "context"), ("n_cpu_mo", "n_cpu_moe"), ("model_pth", "model_path"), ("cmake_args", "llama_cmake_args")],
)
def test_an_unknown_key_names_the_nearest_one(key: str, near: str) -> None:
    assert the_problem(**{key: 1}) == f"{key}: no such key; did you mean {near}?"


def test_a_key_that_resembles_none_is_only_called_unknown() -> None:
    assert the_problem(zzqqxx=1) == "zzqqxx: no such key; docs/settings.md has all of them"


@pytest.mark.parametrize("key", ["ssh_user", "_sudo_password", "_env", "fake_delay", "docker_identifier", "local_x"])
def test_keys_of_pyinfra_and_its_connectors_are_let_through(key: str) -> None:
    assert problems(**{key: FREE}) == []


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("context", "4096", "a valid integer"),
        ("context", True, "a valid integer"),
        ("context", 4096.0, "a valid integer"),
        ("context", 255, "greater than or equal to 256"),
        ("n_cpu_moe", "44", "must be a valid integer or 'auto', as in n_cpu_moe=44, without quotes"),
        ("n_cpu_moe", -1, "greater than or equal to 0"),
        ("gpu_layers", "all", "'auto'"),
        ("port", 0, "greater than or equal to 1"),
        ("port", 65536, "less than or equal to 65535"),
        ("jinja", 1, "a valid boolean"),
        ("cache_type_k", "q4", "'q4_0'"),
        ("flash_attention", True, "'on', 'off' or 'auto'"),
        ("backend", "vulkan", "'auto', 'cuda', 'cpu' or 'rpc'"),
        ("host", 1, "a valid string"),
        ("temperature", "hot", "a valid number"),
        ("temperature", float("nan"), "a finite number"),
        ("top_p", 1.5, "less than or equal to 1"),
        ("llama_ref", 12464, "a valid string"),
        ("llama_repo", "", "at least 1 character"),
        ("memory_cap_required", "no", "'warn'"),
        ("browser_policy", "chrome", "'auto' or 'off'"),
        ("browser_policies", "off", "a valid dictionary"),
        ("browser_policies", {"helpMeWrite": 2}, "'helpMeWrite' is not the name of a policy"),
        ("browser_policies", {"HelpMeWriteSettings": 3}, "a number from 0 to 2, and not 3"),
        ("browser_policies", {"HelpMeWriteSettings": True}, "a number from 0 to 2, and not True"),
        (
            "browser_policies",
            {"BuiltInAIAPIsEnabled": 0},
            "the policy BuiltInAIAPIsEnabled is true or false, and not 0",
        ),
        ("browser_policies", {"SomePolicy": 1.0}, "the policy SomePolicy is 1.0, a value that no policy can have"),
        ("browser_policies", {"SomePolicy": None}, "SomePolicy is None, a value that"),
        ("browser_policies", {"SomePolicy": 2**31}, "is 2147483648, a value that no policy can have"),
        ("browser_policies", {"GenAILocalFoundationalModelSettings": 0}, "is what browser_policy sets"),
        ("browser_policies", {"GenAiDefaultSettings": 2}, "browsers take it from the cloud only"),
        ("browser_delete_models", "yes", "a valid boolean"),
        ("service_memory_max", 24, "must be a valid string or 'auto', as in service_memory_max='24G'"),
        ("service_memory_max", "200%", "'200%' is not a size that can be had; a share is at most 100%"),
        ("context", "32768", "must be a valid integer, as in context=122880, without quotes"),
        ("vram_limit_mib", "4G", "must be a valid integer, as in vram_limit_mib=4096 (MiB)"),
        ("gpu_layers", "all", "must be a valid integer or 'auto', as in gpu_layers=99"),
        ("server_args", ["-c", "99"], "-c is not for server_args: set the key context"),
        ("only", 5, "a list"),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_what_is_allowed(key: str, value: object, allowed: str) -> None:
    sentence = the_problem(**{key: value})
    assert sentence.startswith(f"{key}={value!r}: ")
    assert allowed in sentence


@pytest.mark.parametrize(
    ("key", "values", "bad"),
    [
        ("llama_cmake_args", ["GGML_NATIVE=OFF", 5], 5),
        ("llama_cmake_args", ["-DGGML_NATIVE=OFF"], "-DGGML_NATIVE=OFF"),
        ("browser_policy", ["chrome", "opera"], "opera"),
        ("benchmark_depths", [0, -1], -1),
    ],
)
def test_a_wrong_item_of_a_list_is_named_with_the_key(key: str, values: list[object], bad: object) -> None:
    assert the_problem(**{key: values}).startswith(f"{key}={bad!r}: ")


@pytest.mark.parametrize("key", ["llama_repo", "llama_ref", "cuda_toolkit", "cuda_architectures", "model_path"])
@pytest.mark.parametrize("value", ["a\nb", "a\tb", "a\x00b", "a\x1b[31mb", "-rf", "--upload-pack=evil"])
def test_text_with_control_characters_or_a_leading_dash_is_refused(key: str, value: str) -> None:
    assert the_problem(**{key: value}).startswith(f"{key}={value!r}: must ")


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("512", 512), ("4K", 4096), ("300M", 300 << 20), ("24G", 24 << 30), ("1T", 1 << 40)],
)
def test_sizes_count_by_1024_as_systemd_does(text: str, size: int) -> None:
    assert settings.size_in_bytes(text) == size


@pytest.mark.parametrize("text", ["24GB", "24g", "24 G", "1.5G", "G", "-1G", "", "24G\n", "infinity", "101%", "٣G"])
def test_a_size_that_systemd_might_read_otherwise_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        settings.size_in_bytes(text, of=1)
    assert "is not a size" in the_problem(service_memory_max=text)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"backend": "rpc"}, "backend: 'rpc' and rpc_servers belong together"),
        ({"rpc_servers": ["127.0.0.1:50052"]}, "backend: 'rpc' and rpc_servers belong together"),
        ({"backend": "rpc", "rpc_servers": ["10.0.0.1:50052"]}, "rpc_servers: '10.0.0.1:50052' is not on loopback"),
        ({"backend": "rpc", "rpc_servers": ["127.0.0.1.evil.test:1"]}, "is not on loopback"),
        (
            {"model_repo": "owner/name", "model_file": "a.gguf"},
            "model_path, model_repo, model_url: set exactly one of the three",
        ),
        ({"model_path": None, "model_repo": "owner/name"}, "model_repo, model_file: one without the other"),
        ({"model_file": "a.gguf"}, "model_repo, model_file: one without the other"),
        ({"model_path": "models/a.gguf"}, "model_path='models/a.gguf': must begin with / or with ~/"),
        ({"fit": "on", "n_cpu_moe": 44}, "fit: 'on' gives up"),
        ({"fit": "on", "gpu_layers": 10}, "fit: 'on' gives up"),
        ({"service_memory_max": "2G"}, "service_memory_max: 2G cannot hold cache_ram_mib=2048"),
        (
            {"benchmark_depths": [0, 32640]},
            "benchmark_depths: with benchmark_tokens the deepest takes 32768 tokens, and context=32768 must be larger",
        ),
        ({"benchmark_depths": [], "benchmark_tokens": 300, "context": 256}, "takes 300 tokens, and context=256"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(data: dict[str, Any], sentence: str) -> None:
    assert sentence in the_problem(**data)


@pytest.mark.parametrize(
    "data",
    [
        {"backend": "rpc", "rpc_servers": ["127.0.0.1:50052", "localhost:50053"]},
        {"model_path": None, "model_repo": "owner/name", "model_file": "a.gguf"},
        {"fit": "off", "n_cpu_moe": 44, "gpu_layers": 99},
        {"fit": "on"},
        {"service_memory_max": "3G"},
        {"benchmark_depths": [0, 32639]},
        {"benchmark_depths": []},
        {"temperature": 1, "min_p": 0},
        {"browser_policy": ["chromium", "chrome", "chrome-for-testing", "brave"]},
        {"browser_policies": {"HelpMeWriteSettings": 2, "SomeList": ["a", {"b": True}], "SomeText": "x"}},
        {"memory_cap_required": "warn"},
    ],
)
def test_what_is_just_allowed_is_accepted(data: dict[str, Any]) -> None:
    assert problems(**data) == []


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = problems(contxt=1, port="8091", llama_repo="-x", backend="rpc", fit="on", n_cpu_moe=1, model_file="a.gguf")
    keys = ["contxt", "port", "llama_repo", "model_repo, model_file"]
    assert all(any(sentence.startswith(key) for sentence in found) for key in keys), found


def test_a_rule_about_two_roles_is_told_beside_a_wrong_value() -> None:
    found = problems(port="8091", only="servce")
    assert any(sentence.startswith("only") for sentence in found), found


def test_of_raises_what_errors_tells() -> None:
    with pytest.raises(ValueError, match=r"port='8091'.*"):
        settings.of({**DATA, "port": "8091"})


@pytest.mark.parametrize("only", ["service,benchmark", ["service", "benchmark"], ("service", "benchmark")])
def test_only_is_a_list_of_roles_or_their_names_with_commas(only: object) -> None:
    wanted = settings.of({**DATA, "only": only})
    assert [role for role in settings.ROLES if wanted.runs(role)] == ["service", "benchmark"]


@pytest.mark.parametrize("only", ["servce", ["service", "memories"], "service benchmark"])
def test_only_refuses_what_is_no_role_and_tells_the_roles(only: object) -> None:
    assert the_problem(only=only).endswith("the roles are " + ", ".join(settings.ROLES))
