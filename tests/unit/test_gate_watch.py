"""The watchdog starts the service only where that can help, never one that a person stopped, and says what it found."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from roles.service.gate import watch as module
from roles.service.gate.devices import SILENT
from roles.service.gate.host import alone
from roles.service.gate.switch import switch
from roles.service.gate.watch import watch
from tests.unit.gating import LOG, ON_CPU, PID, Start, World, record

FAILED = ("error: invalid argument: --gone",)
NO_PORT = ("couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8091",)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Its service was proved and runs."""
    monkeypatch.setattr(module, "suspend_fix", lambda: "NVreg_X=1 keeps VRAM")
    monkeypatch.setattr(module, "slept", lambda: 0.0)
    made = World(tmp_path, monkeypatch)
    switch(made.data, record())
    made.did.clear()
    return made


def noted(world: World) -> Any:
    return json.loads((world.home / "data/watchdog.json").read_text())


def test_a_service_that_is_as_proved_is_left_alone(world: World) -> None:
    assert watch(world.data, act=True) == ""
    assert world.did == []
    assert (noted(world)["said"], noted(world)["stamp"], noted(world)["pid"]) == ("", "new", PID)


def test_what_was_noted_is_not_written_again(world: World) -> None:
    watch(world.data, act=True)
    before = noted(world)["time"]
    watch(world.data, act=True)
    assert noted(world)["time"] == before


@pytest.mark.parametrize("state", ["inactive", "activating", "deactivating", "reloading"])
def test_one_that_a_person_stopped_or_that_is_on_its_way_is_left_alone(world: World, state: str) -> None:
    world.state, world.starts["new"] = state, Start(lost="gone")
    assert watch(world.data, act=True) == ""
    assert world.did == []


def test_a_unit_that_was_never_proved_is_left_alone(world: World) -> None:
    Path(world.home / ".config/systemd/user/paddock-llama-server.service").write_text("[Service]\n")
    world.state = "failed"
    assert watch(world.data, act=True) == ""
    assert world.did == []


def test_while_a_switch_is_at_work_nothing_is_looked_at(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.state = "failed"
    with alone(world.data, 0):
        assert watch(world.data, act=True) == ""
    assert "another run is at work on the service" in capsys.readouterr().out
    assert world.did == []


def test_a_host_without_a_service_has_nothing_to_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert watch(World(tmp_path, monkeypatch).data, act=True) == ""


def lose(world: World) -> None:
    """The device is gone until the next start."""
    world.starts["new"] = Start(lost="it has no connection to the RPC server x:1")
    begin = World.ctl

    def ctl(served: Any, *words: str) -> str | None:
        if words[0] == "restart":
            world.starts.clear()
        return begin(world, served, *words)

    world.ctl = ctl  # type: ignore[method-assign]


def test_a_lost_device_that_is_there_again_is_mended_by_a_start_which_is_proved(world: World) -> None:
    lose(world)
    told = watch(world.data, act=True)
    assert told == (
        "llama-server has lost its device: it has no connection to the RPC server x:1; it was started again and answers"
    )
    assert world.did == ["daemon-reload", "reset-failed", "restart"]
    assert noted(world)["said"] == told
    assert len(noted(world)["starts"]) == 1
    assert watch(world.data, act=True) == ""


def test_one_that_sleeps_has_given_its_device_back_and_lost_nothing(world: World) -> None:
    world.starts["new"] = Start(lost="it has no connection", answers={"/props": (200, {"is_sleeping": True})})
    assert watch(world.data, act=True) == ""
    assert world.did == []


def test_to_look_alone_starts_nothing(world: World) -> None:
    lose(world)
    assert watch(world.data, act=False).startswith("llama-server has lost its device")
    assert world.did == []
    assert not (world.home / "data/watchdog.json").exists()


def test_without_its_device_a_start_would_not_help(world: World) -> None:
    lose(world)
    world.devices = "the RPC server x:1 does not answer"
    assert watch(world.data, act=True).endswith("; a start would not help: the RPC server x:1 does not answer")
    assert world.did == []


def test_a_driver_that_needs_a_reboot_is_left_alone(world: World) -> None:
    switch(world.data, record("card", devices=[]))
    proved = record("card", devices=["CUDA0"])
    (world.home / "data/proved.json").write_text(json.dumps(proved))
    world.did.clear()
    world.starts["card"] = Start(lost="it holds no VRAM")
    world.unfit = "the loaded NVIDIA module is 570.1 and the driver's libraries are 580.2"
    told = watch(world.data, act=True)
    assert told.startswith("reboot: llama-server has lost its device: it holds no VRAM, and the loaded NVIDIA module")
    assert world.did == []


def test_a_card_that_nobody_can_be_asked_about_is_no_reason_to_start_what_may_work(world: World) -> None:
    world.starts["new"] = Start(lost=SILENT)
    told = "nvidia-smi does not answer, so whether llama-server has its device is not known"
    assert watch(world.data, act=True) == told
    assert world.did == []


def test_a_process_of_before_the_boot_does_not_speak_for_one_with_its_number(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def journal(served: Any, *words: str) -> list[str]:
        return list(ON_CPU if "--boot" in words else (*LOG, *ON_CPU))

    monkeypatch.setattr(vars(module)["Served"], "journal", journal)
    assert watch(world.data, act=True).startswith("llama-server runs on the CPU since its last start")


def test_after_a_suspend_the_fix_for_the_driver_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "slept", lambda: 3600.0)
    (world.home / "data/proved.json").write_text(json.dumps(record(devices=["CUDA0"])))
    world.starts["new"] = Start(lost="it holds no VRAM")
    world.devices = "llama.cpp sees no CUDA0 here"
    told = watch(world.data, act=True)
    assert told.endswith("; a start would not help: llama.cpp sees no CUDA0 here; NVreg_X=1 keeps VRAM")


def test_what_cannot_be_mended_yet_is_told_each_time(world: World) -> None:
    world.starts["new"], world.devices = Start(log=ON_CPU), "the RPC server x:1 does not answer"
    for _ in range(3):
        told = "llama-server runs on the CPU since its last start; a start would not help: the RPC server x:1"
        assert watch(world.data, act=True).startswith(told)
        assert noted(world)["said"].startswith(told)


def test_one_that_came_up_on_the_cpu_by_itself_is_found_once_per_process(world: World) -> None:
    world.starts["new"] = Start(log=ON_CPU)
    told = watch(world.data, act=True)
    assert told.startswith("llama-server runs on the CPU since its last start; it was started again, and does not pass")
    world.starts["new"] = Start(log=LOG)
    assert watch(world.data, act=True) == ""
    world.starts["new"] = Start(log=ON_CPU)  # a journal that rotates is not asked again about a process that was well
    assert watch(world.data, act=True) == ""


@pytest.mark.parametrize(("log", "starts"), [(FAILED, False), (NO_PORT, True), ((), True)])
def test_a_failed_one_is_started_where_its_cause_may_be_gone(world: World, log: tuple[str, ...], starts: bool) -> None:
    world.state, world.starts["new"] = "failed", Start(log=log)
    told = watch(world.data, act=True)
    assert told.startswith("llama-server has failed (exit-code)")
    assert ("restart" in world.did) is starts


def test_it_is_not_started_again_and_again(world: World) -> None:
    starts = [time.time() - 100 * at for at in range(3)]
    (world.home / "data/watchdog.json").write_text(json.dumps({"starts": starts}))
    world.state, world.starts["new"] = "failed", Start(log=NO_PORT)
    told = watch(world.data, act=True)
    assert told.endswith("; it was started 3 times within an hour, and is left alone now")
    assert world.did == []
    old = [time.time() - 4000 for _ in range(3)]
    (world.home / "data/watchdog.json").write_text(json.dumps({"starts": old}))
    watch(world.data, act=True)
    assert "restart" in world.did
    assert len(noted(world)["starts"]) == 1


def test_another_process_than_the_proved_one_is_told_and_left_alone(world: World) -> None:
    world.starts["new"] = Start(stamp="else")
    assert watch(world.data, act=True) == "what runs is another process than the one that was proved"
    assert world.did == []


def test_a_switch_that_a_power_cut_ended_is_taken_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cut(BaseException):
        """What no except catches, as nothing catches a power cut."""

    def cut(*_: Any) -> None:
        raise Cut

    with monkeypatch.context() as patch:
        patch.setattr("roles.service.gate.switch.prove", cut)
        with pytest.raises(Cut):
            switch(world.data, record("next"))
    assert json.loads((world.home / "data/proved.json").read_text())["stamp"] == "new"
    world.starts["next"] = Start(log=ON_CPU)
    assert watch(world.data, act=True).endswith("; the former service was started again and answers")
    assert "PADDOCK_STAMP=new\n" in world.text()
    assert watch(world.data, act=True) == ""


def test_a_switch_that_is_at_work_is_left_alone(world: World) -> None:
    (world.home / "data/candidate.json").write_text(json.dumps(record()))
    with alone(world.data, 0):
        assert watch(world.data, act=True) == "another run is at work on the service"
    assert world.did == []
