"""A service that passes is remembered, and what is odd about it told; a rollback goes to the one before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from roles.service.gate import PROGRAM
from roles.service.gate.host import Trouble
from roles.service.gate.switch import rollback, switch
from tests.unit.gating import LOG, ON_CPU, Start, World, failure, kept, record


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


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


def test_its_exit_status_is_its_own_where_nobody_follows_any_more(tmp_path: Path) -> None:
    program = tmp_path / "bin/paddock-switch"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-ISB", program, "rollback"], stdout=writer, timeout=30, check=False)
    os.close(writer)
    assert done.returncode == 1, "as there is no former service; Python's own is 120"
