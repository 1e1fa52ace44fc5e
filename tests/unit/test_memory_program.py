"""The planner's program on a host, against a llama-fit-params that does as it is told: what it asks and leaves."""

from __future__ import annotations

import base64
import json
import os
import signal
import time
import zlib
from pathlib import Path

import pytest

from roles.memory.decide import PROGRAM
from roles.memory.plan import Plan
from tests.unit.fake_oracle import Fake
from tests.unit.programs import assert_old_python_can_run


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_old_python_can_run_it() -> None:
    assert_old_python_can_run(PROGRAM)


def test_the_model_is_asked_about_as_the_server_will_run_it_and_by_nobody_elses_settings(fake: Fake) -> None:
    fake.plan(extra=["--poll", "50", "--no-webui", "--slot-save-path", "/x"])
    words, _ = fake.calls()[0]
    assert words[2:16] == [*fake.wanted()["words"], "--poll", "50"]
    assert words[-2:] == ["--fit-print", "on"]
    assert "--slot-save-path" not in words
    assert "--no-webui" not in words


def test_a_model_that_is_still_to_come_is_a_twin_of_full_size_and_gone_afterwards(fake: Fake) -> None:
    header = b"GGUF and so on"
    packed = base64.b64encode(zlib.compress(header)).decode()
    twin = [{"name": f"m-0000{number}-of-00002.gguf", "size": 1 << 33, "header": packed} for number in (1, 2)]
    fake.plan(twin=twin, model="~/nowhere.gguf")
    words, size = fake.calls()[0]
    assert words[1] == str(fake.data / "plans/.twin/m-00001-of-00002.gguf")
    assert size == 1 << 33
    assert names(fake.data / "plans") == ["d1.json", "lock"]


def test_a_card_without_room_for_a_question_is_not_asked(fake: Fake) -> None:
    fake.smi = "echo 'NVIDIA RTX 3050, 120'"
    told = fake.refusal()
    assert told.startswith("NVIDIA RTX 3050 has 120 MiB of VRAM free, and llama.cpp needs about 400 to say")
    assert told.endswith("close what holds it (chrome 900)")
    assert fake.calls() == []


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (
            "sys.stderr.write('junk\\nerror: failed to load model\\n'); sys.exit(1)",
            "(status 1): error: failed to load model",
        ),
        ("os.abort()", "(status -6): nothing"),
        ("print('Host x y z'); sys.exit()", "(status 0): Host x y z"),
        (
            "print('CUDA7 1 2 3 \\nHost 1 2 3 '); sys.exit()",
            "llama-fit-params and llama-server do not agree on CUDA0, CUDA7",
        ),
    ],
)
def test_an_oracle_that_fails_is_quoted_and_nothing_is_recorded(fake: Fake, trouble: str, told: str) -> None:
    fake.trouble = trouble
    assert fake.refusal().endswith(told)
    assert fake.recorded() is None
    assert not (fake.data / "plans/.twin").exists()
    fake.trouble = ""
    assert fake.plan()["checked"]


def test_an_oracle_that_hangs_is_killed(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.trouble = "import time; time.sleep(60)"
    quick = PROGRAM.replace("ANSWER_SECONDS = 120", "ANSWER_SECONDS = 1")
    assert quick != PROGRAM
    monkeypatch.setattr("tests.unit.fake_oracle.PROGRAM", quick)
    assert fake.refusal().startswith("llama-fit-params gave no answer within 1 s")


@pytest.mark.parametrize("options", [(), ("-m", "-c")])
def test_a_release_that_cannot_tell_needs_numbers(fake: Fake, options: tuple[str, ...]) -> None:
    fake.options = options
    assert fake.refusal().startswith("this release of llama.cpp has no llama-fit-params --fit-print to plan with")
    plan = Plan.model_validate(fake.plan(n_cpu_moe=5, explicit=True))
    assert (plan.checked, plan.n_cpu_moe, plan.gpu_layers, plan.devices) == (False, 5, 99, ())


def test_what_a_killed_run_left_is_cleared_and_old_plans_go_with_their_release(fake: Fake) -> None:
    plans = fake.data / "plans"
    (plans / ".twin").mkdir(parents=True)
    (plans / ".twin/half").write_text("x")
    (plans / "gone.json").write_text(json.dumps({"release": "r0"}))
    (plans / "torn.json").write_text("{")
    (plans / "kept.json").write_text(json.dumps({"release": "r1"}))
    fake.plan()
    assert names(plans) == ["d1.json", "kept.json", "lock"]


def test_killed_in_the_middle_of_a_question_the_next_run_plans_as_if_nothing_had_been(fake: Fake) -> None:
    fake.trouble = "import time; time.sleep(60)"
    header = base64.b64encode(zlib.compress(b"GGUF")).decode()
    process = fake.start(twin=[{"name": "m.gguf", "size": 1 << 33, "header": header}])
    end = time.monotonic() + 30
    while not fake.calls() and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    assert names(fake.data / "plans") == [".twin", "lock"]
    fake.trouble = ""
    fake.plan()
    assert names(fake.data / "plans") == ["d1.json", "lock"]


def test_a_disk_that_is_full_is_told(fake: Fake) -> None:
    (fake.data / "plans/d1.json.new").mkdir(parents=True)
    assert fake.refusal().startswith("the plan cannot be recorded: Is a directory")
