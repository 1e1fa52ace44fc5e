"""A switch ends with a service that was proved, with the last good one, or with none and the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roles.service.gate.host import Trouble
from roles.service.gate.switch import rollback, switch
from tests.unit.gating import LOG, ON_CPU, Start, World, record


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return World(tmp_path, monkeypatch)


def kept(world: World, name: str) -> Any:
    path = world.home / "data" / name
    return json.loads(path.read_text()) if path.exists() else None


def failure(world: World, wanted: dict[str, Any]) -> str:
    with pytest.raises(Trouble) as told:
        switch(world.data, wanted)
    assert kept(world, "switch.json")["why"] == str(told.value)
    assert kept(world, "candidate.json") is None
    assert "\n" not in str(told.value)
    return str(told.value)


def test_a_service_that_passes_is_remembered_whole_and_starts_at_boot(world: World) -> None:
    switch(world.data, record())
    assert kept(world, "proved.json") == record()
    assert kept(world, "last-good.json") is None
    assert world.did == ["daemon-reload", "reset-failed", "restart", "enable"]
    assert (world.home / "data/current").readlink() == Path("releases/release-new")
    outcome = kept(world, "switch.json")
    assert (outcome["stamp"], outcome["why"], outcome["stopped"], outcome["notes"]) == ("new", "", "", [])
    assert outcome["loaded"] >= 0


def test_the_one_before_is_the_last_good_one_with_its_release_its_model_and_its_plan(world: World) -> None:
    switch(world.data, record("old"))
    switch(world.data, record())
    assert (kept(world, "proved.json"), kept(world, "last-good.json")) == (record(), record("old"))


FAILS: dict[str, tuple[Start, str]] = {
    "systemd refuses it": (Start(refused=True, log=()), "llama-server could not be started"),
    "it dies": (
        Start(restarts="1", log=("error: invalid argument: --gone",), answers={"/health": (0, None)}),
        "llama-server dies at its start: --gone is no option of this release; take it out of server_args",
    ),
    "it will be started again": (
        Start(sub_state="auto-restart", state="activating", log=(), answers={"/health": (0, None)}),
        "llama-server dies at its start",
    ),
    "it stops": (Start(state="failed", log=()), "llama-server stopped (exit-code)"),
    "another process": (Start(stamp="else"), "another process than the one that was started is the unit's now"),
    "another cap": (
        Start(limits={"MemoryMax": "infinity", "MemorySwapMax": "0"}),
        "systemd holds MemoryMax=infinity and not 2147483648",
    ),
    "somebody else answers": (
        Start(strange=True, log=("E srv start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8091",)),
        "another program answers on port 8091: port 8091 at 127.0.0.1 is taken, or not an address of this host",
    ),
    "it dies in the end": (Start(dies=True, log=LOG), "llama-server died while it was proved"),
    "nonsense": (
        Start(answers={"/props": (200, {"default_generation_settings": None})}),
        "llama-server answers what Paddock does not understand: AttributeError",
    ),
    "no properties": (Start(answers={"/props": (500, None)}), "/props answers HTTP 500"),
    "another build": (
        Start(answers={"/props": (200, {"build_info": "b1-fedcba987"})}),
        "llama-server says that it is build b1-fedcba987 and not 012345678",
    ),
    "another model": (
        Start(answers={"/props": (200, {"model_path": "/m/other.gguf"})}),
        "llama-server serves /m/other.gguf and not /m/some.gguf",
    ),
    "less context": (
        Start(answers={"/props": (200, {"default_generation_settings": {"n_ctx": 2048}})}),
        "llama-server serves a context of 2048 and not 4096 tokens",
    ),
    "the CPU": (Start(log=ON_CPU), "llama-server answers on the CPU: no layer is on a RPC device"),
    "fewer layers": (
        Start(log=tuple(line.replace("7/7", "3/7") for line in LOG)),
        "3 of 7 layers are on the device, and 7 were planned",
    ),
    "no connection": (
        Start(lost="it has no connection to the RPC server x:1"),
        "llama-server has not got its device: it has no connection",
    ),
    "no completion": (
        Start(answers={"/completion": (500, None)}),
        "llama-server does not complete a text (HTTP 500)",
    ),
    "a short one": (
        Start(answers={"/completion": (200, {"tokens_predicted": 3})}),
        "16 tokens were asked for, and 3 came",
    ),
    "no second turn": (Start(answers={"turn": (0, None)}), "llama-server does not answer a second turn (HTTP 0)"),
    "a cold second turn": (
        Start(answers={"turn": (200, {"tokens_predicted": 16, "timings": {"cache_n": 0}})}),
        "a second turn took nothing of the first from the prompt cache",
    ),
}


@pytest.mark.parametrize(("start", "sentence"), FAILS.values(), ids=FAILS)
def test_what_does_not_pass_gives_way_to_what_did(world: World, start: Start, sentence: str) -> None:
    switch(world.data, record("old"))
    world.starts["new"] = start
    told = failure(world, record())
    assert told.startswith(sentence)
    assert told.endswith("; the former service was started again and answers")
    assert world.text() == record("old")["text"]
    assert kept(world, "proved.json") == record("old")
    assert (world.home / "data/current").readlink() == Path("releases/release-old")


@pytest.mark.parametrize(
    ("devices", "unfit", "sentence"),
    [
        (["127.0.0.1:50052"], None, "the RPC server 127.0.0.1:50052 does not answer"),
        (["CUDA0"], "the loaded NVIDIA module is 1.0 and the driver's libraries are 2.0", "the loaded NVIDIA module"),
    ],
)
def test_what_works_is_not_stopped_for_devices_that_no_start_would_find(
    world: World, monkeypatch: pytest.MonkeyPatch, devices: list[str], unfit: str | None, sentence: str
) -> None:
    switch(world.data, record("old"))
    world.did.clear()
    world.unfit, world.devices = unfit, "gone"
    clock = iter(range(0, 10_000, 3))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    told = failure(world, record(devices=devices))
    assert told.startswith(sentence)
    assert told.endswith("; nothing was changed")
    assert world.did == []
    assert world.text() == record("old")["text"]


@pytest.mark.parametrize(("start", "sentence"), FAILS.values(), ids=FAILS)
def test_without_a_former_one_it_is_stopped_and_does_not_start_at_boot(
    world: World, start: Start, sentence: str
) -> None:
    world.starts["new"] = start
    assert failure(world, record()).endswith("; it was stopped")
    assert world.state == "inactive"
    assert world.enabled == "disabled"
    assert kept(world, "switch.json")["stopped"] == "77"
    assert kept(world, "proved.json") is None


def test_a_former_one_that_does_not_pass_either_is_told(world: World) -> None:
    switch(world.data, record("old"))
    world.starts = {"new": Start(log=ON_CPU), "old": Start(refused=True, log=())}
    told = failure(world, record())
    assert told.endswith(
        "; the former service was started again, and does not pass either: llama-server could not be started"
    )


def test_one_that_passed_before_and_does_not_now_is_not_replaced_by_an_older_one(world: World) -> None:
    switch(world.data, record("old"))
    switch(world.data, record())
    world.starts["new"] = Start(lost="it has no connection to the RPC server x:1")
    assert failure(world, record()).endswith("; it was stopped")
    assert kept(world, "last-good.json") == record("old")


def test_the_last_good_one_may_die_twice_and_still_comes_back(world: World) -> None:
    switch(world.data, record("old"))
    world.starts = {"new": Start(log=ON_CPU), "old": Start(restarts="2")}
    assert failure(world, record()).endswith("; the former service was started again and answers")


def test_a_unit_that_somebody_replaced_meanwhile_is_theirs(world: World) -> None:
    switch(world.data, record("old"))
    world.starts["new"] = Start(replaced=True)
    assert failure(world, record()) == "another run has replaced the unit meanwhile"
    assert world.text() == "[Service]\n"


def test_a_service_that_somebody_disabled_stays_disabled(world: World) -> None:
    switch(world.data, record("old"))
    world.enabled = "disabled"
    switch(world.data, record())
    assert world.enabled == "disabled"


def test_a_unit_that_systemd_does_not_enable_is_told(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.fails = "enable"
    switch(world.data, record())
    told = (
        "note: systemctl could not enable paddock-llama-server.service, and what happens at boot is not what is wanted"
    )
    assert told in capsys.readouterr().out


def test_one_that_shall_not_start_at_boot_does_not_and_may_later(world: World) -> None:
    switch(world.data, record("old", autostart=False))
    assert world.enabled == "disabled"
    switch(world.data, record())
    assert world.enabled == "enabled"


def test_the_users_own_drop_in_has_the_last_word(world: World) -> None:
    world.drop_ins = "/home/dev/.config/systemd/user/paddock-llama-server.service.d/own.conf"
    world.starts["new"] = Start(limits={"MemoryMax": "infinity", "MemorySwapMax": "infinity"})
    switch(world.data, record())


@pytest.mark.parametrize(("code", "passes"), [(401, True), (200, False), (0, False)])
def test_with_keys_nobody_is_answered_without_one(world: World, code: int, passes: bool) -> None:
    wanted = record(key_file=str(world.home / "keys"))
    world.starts["new"] = Start(answers={"unkeyed": (code, None)})
    if passes:
        switch(world.data, wanted)
    else:
        assert failure(world, wanted).startswith("llama-server answers without a key")


@pytest.mark.parametrize(
    "line",
    [
        "slot update_slots: forcing full prompt re-processing due to lack of cache data (likely due to SWA",
        "0.01 I llama_kv_cache_iswa: creating non-SWA KV cache",
        "0.01 I llama_memory_recurrent:        CPU RS buffer size =     1.00 MiB",
    ],
)
def test_a_model_that_cannot_go_back_in_its_cache_passes_and_that_is_told(world: World, line: str) -> None:
    cold = {"turn": (200, {"tokens_predicted": 16, "timings": {"cache_n": 0}})}
    world.starts["new"] = Start(log=(*LOG, line), answers=cold)
    switch(world.data, record())
    assert kept(world, "switch.json")["notes"] == [
        "this model computes a prompt anew at every turn: its cache cannot be gone back in"
    ]


@pytest.mark.parametrize("log", [(), ("Suppressed 4711 messages", "0.01 I srv: listening")])
def test_a_journal_that_does_not_tell_is_told_and_no_failure(world: World, log: tuple[str, ...]) -> None:
    world.starts["new"] = Start(log=log)
    switch(world.data, record())
    assert "the journal does not tell where the layers went" in kept(world, "switch.json")["notes"][0]


def test_a_service_on_the_cpu_that_is_wanted_there_passes(world: World) -> None:
    world.starts["new"] = Start(log=ON_CPU)
    switch(world.data, record(devices=[]))


def test_a_rollback_goes_to_the_one_before_and_proves_it(world: World) -> None:
    switch(world.data, record("old"))
    switch(world.data, record())
    rollback(world.data, "tg is 20 % worse")
    assert (kept(world, "proved.json"), kept(world, "last-good.json")) == (record("old"), record())


def test_after_a_switch_that_did_not_pass_the_present_service_is_no_way_back(world: World) -> None:
    switch(world.data, record("old"))
    world.starts["new"] = Start(log=ON_CPU)
    failure(world, record())
    world.did.clear()
    with pytest.raises(Trouble, match="there is no former service to go back to"):
        rollback(world.data, "")
    assert world.did == []


def test_without_a_former_service_there_is_nothing_to_go_back_to(world: World) -> None:
    switch(world.data, record())
    with pytest.raises(Trouble, match="there is no former service to go back to"):
        rollback(world.data, "")


def test_loading_is_no_failure_until_its_time_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 3))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    world.starts["new"] = Start(answers={"/health": (503, None)})
    assert failure(world, record(seconds=60)).startswith("llama-server was still loading its model after ")
