"""A service that does not pass gives way to the one before, or is stopped, and the reason is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles.service.gate.switch import switch
from tests.unit.gating import LOG, ON_CPU, Start, World, failure, kept, record


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


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


def test_loading_is_no_failure_until_its_time_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 3))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    world.starts["new"] = Start(answers={"/health": (503, None)})
    assert failure(world, record(seconds=60)).startswith("llama-server was still loading its model after ")
