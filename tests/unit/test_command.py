"""llama-server's arguments and its unit, from settings alone."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from roles.memory.plan import Split
from roles.memory.ram import Limits
from roles.memory.words import TO_COME
from roles.service import command
from roles.service.options import variables
from roles.service.unit import wanted_unit
from roles.settings import Service
from tests.unit import hosts, seed

MODEL = "/models/some.gguf"
# The options of a release from before --cors-origins.
KNOWN = tuple(word for word in command.arguments(hosts.wishes().settings.service, MODEL, (), True) if word[0] == "-")
KNOWN = tuple(word for word in KNOWN if word != "--cors-origins")
CAP = Limits(3 << 30, None, 0)
SEEDS = Split(gpu_layers=99, n_cpu_moe=44)


def service(**data: Any) -> Service:
    return hosts.wishes(**data).settings.service


def arguments(device: bool = True, rpc: tuple[str, ...] = (), split: Split | None = None, **data: Any) -> list[str]:
    return command.arguments(service(**data), MODEL, rpc, device, split=split)


def text(memory_max: int = 3 << 30, swap_max: int = 0, identity: str = "") -> str:
    frame = command.Frame(Limits(memory_max, None, swap_max))
    return command.unit_text(["/bin/llama-server", "-m", MODEL], "some.gguf", frame, identity)


def test_the_seeds_settings_render_every_option_of_its_final_command() -> None:
    assert len(seed.command()) == 19
    wanted = seed.wishes()
    words = command.arguments(wanted.settings.service, hosts.MODEL_PATH, (), device=True, split=SEEDS)
    assert seed.command() <= seed.pairs(words)


def test_beside_them_it_gets_one_slot_no_foreign_pages_and_a_log_that_tells_where_the_layers_went() -> None:
    words = command.arguments(seed.wishes().settings.service, hosts.MODEL_PATH, (), device=True, split=SEEDS)
    assert seed.pairs(words) - seed.command() == {("-np", "1"), ("-lv", "4"), ("--cors-origins", "localhost")}


def test_the_seeds_unit_runs_that_command_within_24_gigabytes() -> None:
    laptop = seed.laptop_answers()
    unit = wanted_unit(seed.wishes(), hosts.parsed({**laptop, "memory": {"plans": hosts.plans(seed.wishes(), laptop)}}))
    assert "\nMemoryMax=24G\nMemorySwapMax=0\n" in unit.text
    start = re.search(r"^ExecStart=(\S+) (.*)$", unit.text, re.M)
    assert start is not None
    assert re.fullmatch(r"/home/dev/\.local/share/paddock/releases/012345678-[0-9a-f]{8}/bin/llama-server", start[1])
    assert seed.command() <= seed.pairs(start[2].split())


@pytest.mark.parametrize(
    ("data", "split", "expected"),
    [
        ({"fit": "on"}, None, {("-fit", "on")}),
        ({}, Split(gpu_layers=99), {("-fit", "off"), ("-ngl", "99")}),
        ({"fit": "off"}, Split(gpu_layers=20), {("-fit", "off"), ("-ngl", "20")}),
        ({}, SEEDS, {("-fit", "off"), ("-ngl", "99"), ("--n-cpu-moe", "44")}),
        ({}, Split(gpu_layers=0, n_cpu_moe=0), {("-fit", "off"), ("-ngl", "0"), ("--n-cpu-moe", "0")}),
        ({}, Split(gpu_layers=99, n_cpu_ffn=7), {("-fit", "off"), ("-ngl", "99"), ("--n-cpu-ffn", "7")}),
        ({}, Split(gpu_layers=99, tensor_split=(4800, 9000)), {("-fit", "off"), ("-ngl", "99"), ("-ts", "4800,9000")}),
        ({}, Split(gpu_layers=99, to_come=("n_cpu_moe",)), {("-fit", "off"), ("-ngl", "99"), ("--n-cpu-moe", TO_COME)}),
    ],
)
def test_the_split_is_either_llama_cpps_own_or_spelled_out(
    data: dict[str, Any], split: Split | None, expected: set[tuple[str, str]]
) -> None:
    options = {"-fit", "-ngl", "--n-cpu-moe", "--n-cpu-ffn", "-ts"}
    assert {pair for pair in seed.pairs(arguments(split=split, **data)) if pair[0] in options} == expected


@pytest.mark.parametrize("data", [{}, {"fit": "on"}, {"n_cpu_moe": 44}, {"gpu_layers": 20}])
def test_without_a_device_there_is_nothing_to_split(data: dict[str, Any]) -> None:
    found = seed.pairs(arguments(device=False, **data))
    assert ("-fit", "off") in found
    assert not {"-ngl", "--n-cpu-moe"} & {option for option, _ in found}


@pytest.mark.parametrize(
    ("data", "pair"),
    [
        ({"context_shift": True}, ("--context-shift", "")),
        ({"context_shift": False}, ("--no-context-shift", "")),
        ({"jinja": False}, ("--no-jinja", "")),
        ({"flash_attention": "off"}, ("-fa", "off")),
        ({"cache_ram_mib": 0}, ("--cache-ram", "0")),
        ({"temperature": 0.0}, ("--temp", "0")),
        ({"top_k": 0}, ("--top-k", "0")),
        ({"min_p": 0.05}, ("--min-p", "0.05")),
        ({"host": "::1"}, ("--host", "::1")),
        ({"sleep_idle_seconds": 600}, ("--sleep-idle-seconds", "600")),
    ],
)
def test_each_setting_has_its_option(data: dict[str, Any], pair: tuple[str, str]) -> None:
    assert pair in seed.pairs(arguments(**data))


@pytest.mark.parametrize(
    ("knows", "data", "expected"),
    [
        ((), {}, ["localhost"]),
        (("--cors-origins", *KNOWN), {}, ["localhost"]),
        (KNOWN, {}, []),
        ((), {"server_args": ["--cors-origins", "https://my.page"]}, ["https://my.page"]),
    ],
)
def test_only_pages_of_this_machine_may_ask_unless_told_where_the_release_can(
    knows: tuple[str, ...], data: dict[str, Any], expected: list[str]
) -> None:
    words = command.arguments(service(**data), MODEL, (), True, knows=knows)
    assert [value for word, value in itertools.pairwise(words) if word == "--cors-origins"] == expected


def test_no_variable_of_the_users_environment_that_the_release_reads_gets_to_the_process() -> None:
    names = variables(["--port", "LLAMA_ARG_PORT", "-np", "HF_TOKEN"])
    unit = command.unit_text(["/bin/llama-server"], "some.gguf", command.Frame(CAP, unset=names), "")
    assert "\nUnsetEnvironment=HF_TOKEN LLAMA_ARG_PORT\n" in unit
    assert "\nEnvironment=XDG_CONFIG_HOME=/nonexistent\n" in unit
    assert "UnsetEnvironment" not in text()


@pytest.mark.parametrize(("systemd", "grows"), [(252, False), (253, False), (254, True), (257, True)])
def test_the_delay_before_a_restart_grows_where_systemd_can(systemd: int, grows: bool) -> None:
    unit = command.unit_text(["/bin/llama-server"], "some.gguf", command.Frame(CAP, systemd=systemd), "")
    assert ("\nRestartSteps=" in unit, "\nRestartMaxDelaySec=" in unit) == (grows, grows)
    assert "\nRestartSec=5\n" in unit


@pytest.mark.parametrize("option", ["--temp", "--top-p", "--top-k", "--min-p", "-t", "--n-cpu-moe", "--rpc"])
def test_what_nobody_set_is_left_to_llama_cpp(option: str) -> None:
    assert option not in arguments()


def test_rpc_servers_are_one_word() -> None:
    words = arguments(rpc=("127.0.0.1:50052", "127.0.0.1:50053"))
    assert words[words.index("--rpc") + 1] == "127.0.0.1:50052,127.0.0.1:50053"


def test_no_option_is_given_twice() -> None:
    options = [word for word in arguments(**seed.SETTINGS) if re.match(r"-[a-z-]", word)]
    assert len(options) == len(set(options))


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0"), (24 << 30, "24G"), (22414 << 20, "22414M"), (1 << 20, "1M"), (12345, "12345")],
)
def test_a_limit_is_written_as_people_would(size: int, shown: str) -> None:
    assert f"\nMemoryMax={shown}\n" in text(memory_max=size)
    assert f"\nMemorySwapMax={shown}\n" in text(swap_max=size)


def test_a_file_of_api_keys_is_named_and_read_by_the_server_itself() -> None:
    words = command.arguments(service(), MODEL, (), device=False, key_file="/home/dev/keys")
    assert words[words.index("--api-key-file") + 1] == "/home/dev/keys"
    assert "--api-key-file" not in arguments()


@pytest.mark.parametrize("other", [text(identity="another model"), text(memory_max=2 << 30), text(swap_max=1 << 30)])
def test_the_stamp_changes_with_everything_the_process_is_made_of(other: str) -> None:
    assert command.stamp_of(other) != command.stamp_of(text())


def test_the_same_wish_has_the_same_stamp_and_the_unit_carries_it_to_the_process() -> None:
    assert text() == text()
    assert f"\nEnvironment=PADDOCK_STAMP={command.stamp_of(text())}\n" in text()
    assert re.fullmatch(r"[0-9a-f]{16}", command.stamp_of(text()))


def test_the_unit_ends_with_a_line_break_and_leaves_nothing_of_the_template() -> None:
    assert text().endswith("WantedBy=default.target\n")
    assert not re.search(r"\{[{%]", text())
