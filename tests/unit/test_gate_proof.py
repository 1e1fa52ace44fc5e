"""What the gate compares: the time that a load may take, layers and buffers by the log, VRAM by the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roles.service.gate import proof
from roles.service.gate.host import Server, Trouble
from tests.unit.gating import LOG, PID, World, record


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("speed", "size", "seconds"),
    [
        (None, 12_000_000_000, 360),
        (500_000_000, 12_000_000_000, 360),
        (50_000_000, 12_000_000_000, 600),
        (1_000_000, 12_000_000_000, 2160),
    ],
)
def test_the_time_to_load_is_by_the_files_size_and_the_disks_speed(
    monkeypatch: pytest.MonkeyPatch, speed: float | None, size: int, seconds: int
) -> None:
    monkeypatch.setattr(proof, "disk_speed", lambda path: speed)
    assert proof.patience(record(load_bytes=size, seconds=120 + size // 50_000_000)) == seconds


def test_the_disk_is_measured_on_a_file_that_is_big_enough(tmp_path: Path) -> None:
    file = tmp_path / "model"
    with file.open("wb") as made:
        made.truncate(4 * proof.SAMPLE)
    assert (proof.disk_speed(str(file)) or 0) > 0
    assert proof.disk_speed(__file__) is None
    assert proof.disk_speed(str(tmp_path / "none")) is None


PLAN: dict[str, Any] = {"offloaded": 7, "devices": [{"device": "RPC0", "model": 11, "context": 3, "compute": 8}]}


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ({}, None),
        ({"offloaded": 6}, "7 of 7 layers are on the device, and 6 were planned"),
        (
            {"devices": [{"device": "RPC0", "model": 20, "context": 3, "compute": 8}]},
            "RPC0 holds 11 MiB of model, and 20",
        ),
        (
            {"devices": [{"device": "RPC0", "model": 11, "context": 9, "compute": 8}]},
            "RPC0 holds 3 MiB of context, and 9",
        ),
        (
            {"devices": [{"device": "RPC1", "model": 11, "context": 3, "compute": 8}]},
            "RPC1 holds 0 MiB of model, and 11",
        ),
    ],
)
def test_layers_and_buffers_are_where_the_plan_has_them(plan: dict[str, Any], sentence: str | None) -> None:
    told = proof.misplaced(record(plan={**PLAN, **plan}), list(LOG))
    assert (told or "").startswith(sentence or "")
    assert (told is None) is (sentence is None)


@pytest.mark.parametrize(("compute", "told"), [(8, 0), (7, 0), (4, 1)])
def test_buffers_to_compute_that_were_planned_too_small_are_told(compute: int, told: int) -> None:
    plan = {**PLAN, "devices": [{"device": "RPC0", "model": 11, "context": 3, "compute": compute}]}
    notes = proof.overdrawn(record(plan=plan), [*LOG, *LOG])  # laid out twice, and one of them stays
    assert len(notes) == told
    assert not told or notes[0].startswith("RPC0 holds 8 MiB to compute, and 4 were planned")
    assert proof.overdrawn(record(plan=None), list(LOG)) == []


def test_both_caches_of_a_sliding_window_and_a_recurrent_state_are_context() -> None:
    more = ("0.2 I llama_kv_cache: RPC0[x:1] KV buffer size = 4.00 MiB", "0.2 I m: RPC0[x:1] RS buffer size = 5.00 MiB")
    share = {"device": "RPC0", "model": 11, "context": 12, "compute": 8}
    assert proof.misplaced(record(plan={**PLAN, "devices": [share]}), [*LOG, *more]) is None


CUDA = [line.replace("RPC0[127.0.0.1:50052]", "CUDA0") for line in LOG]


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ({PID: 5342}, None),
        ({PID: 4800}, None),
        ({PID: None}, None),
        ({PID: 300}, "llama-server holds 300 MiB of VRAM, and 4500 to 7248 were planned"),
        ({PID: 8000}, "llama-server holds 8000 MiB of VRAM, and 4500 to 7248 were planned"),
    ],
)
def test_the_process_holds_the_vram_that_was_planned(
    world: World, monkeypatch: pytest.MonkeyPatch, held: dict[str, int | None], sentence: str | None
) -> None:
    monkeypatch.setattr(proof, "vram", lambda: held)
    monkeypatch.setattr(proof, "misplaced", lambda record, log: None)
    share = {"device": "CUDA0", "model": 4000, "context": 1000, "compute": 200}
    wanted = record(devices=["CUDA0"], plan={"offloaded": 7, "devices": [share]})
    if sentence:
        with pytest.raises(Trouble, match=sentence):
            proof.on_device(wanted, CUDA, PID)
    else:
        notes = proof.on_device(wanted, CUDA, PID)
        assert bool(notes) is (held[PID] is None)
    assert proof.on_device({**wanted, "plan": None}, CUDA, PID) is not None, "without a plan there is none to compare"


class Props(Server):
    """A server that tells this of itself."""

    def __init__(self, **settings: int) -> None:
        super().__init__(record())
        self.settings = settings

    def ask(self, path: str, body: Any = None, seconds: float = 30, keyed: bool = True) -> tuple[int, Any]:
        return 200, {"default_generation_settings": self.settings}


def test_a_smaller_context_is_refused_and_one_that_an_old_build_does_not_tell_is_not() -> None:
    for told in ({}, {"n_ctx": 4096}, {"n_ctx": 4352}):
        proof.right_model(record(), Props(**told))
    with pytest.raises(Trouble, match="a context of 2048 and not 4096 tokens"):
        proof.right_model(record(), Props(n_ctx=2048))
