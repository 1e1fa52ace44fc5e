"""Whether the model is there, whole and verified; and what the download is given."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from roles import settings
from roles.model import decide, hub
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.operation import Decision
from roles.wishes import Anatomy, Wishes
from tests.unit import hosts
from tests.unit.deciding import Decide, acting, left_out, reasons, refusal, resting

HUB = hosts.wishes(hosts.HUB_DATA)
GIVEN = hosts.wishes()
FILE: dict[str, Any] = hosts.converged_answers(HUB)["model"]["file"]
ABSENT: dict[str, Any] = {"file": None, "is_gguf": False, "sidecar": None}
PATH = "/home/dev/.local/share/paddock/models/some.gguf"


def present(wanted: Wishes = HUB, token: str | None = None) -> Decide:
    return partial(decide.present, wanted, token)


def there(**fields: Any) -> Observation:
    return hosts.converged(HUB, model={"path": PATH, **fields})


def test_a_verified_file_is_not_read_again() -> None:
    resting(present(), there())


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (ABSENT, "download some.gguf from owner/name (12.0 GB): it is not on the host"),
        ({**ABSENT, "part_size": 9_000_000_000}, "(12.0 GB, 3.0 GB of it still to come): it is not on the host"),
        ({**ABSENT, "part_size": 11_999_500_000}, "(12.0 GB, 0.5 MB of it still to come): it is not on the host"),
        ({"sidecar": None}, "it is not what was pinned"),
        ({"sidecar": {"sha256": "e" * 64, "size": hosts.PIN.size, "mtime_ns": 7}}, "it is not what was pinned"),
        ({"sidecar": {"sha256": hosts.PIN.sha256, "size": hosts.PIN.size, "mtime_ns": 8}}, "it is not what was pinned"),
        ({"sidecar": {"sha256": hosts.PIN.sha256, "size": 5, "mtime_ns": 7}}, "it is not what was pinned"),
    ],
)
def test_what_is_not_there_or_not_verified_is_downloaded(fields: dict[str, Any], reason: str) -> None:
    assert reason in reasons(present(), there(**fields))


@pytest.mark.parametrize(
    ("fields", "lacking"),
    [
        ({}, 0),
        (ABSENT, 12_000_000_000),
        ({**ABSENT, "part_size": 9_000_000_000}, 3_000_000_000),
        ({**ABSENT, "part_size": 13_000_000_000}, 0),
        ({"sidecar": None}, 0),
        ({"file": {**FILE, "size": 5}}, 12_000_000_000),
    ],
)
def test_only_what_is_still_to_come_needs_room(fields: dict[str, Any], lacking: int) -> None:
    assert decide.lacking(hosts.PIN, there(**fields)[MODEL]) == lacking


def test_without_curl_the_packages_role_is_named() -> None:
    seen = hosts.converged(HUB, host={"commands": {}}, model=ABSENT)
    assert refusal(present(), seen) == "no curl to download the model with; run the packages role first"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"file": None}, "does not exist on the host"),
        ({"file": {"kind": "dir", "mode": 0o755, "uid": 0, "size": 0, "mtime_ns": 0}}, "is not a file"),
        ({"is_gguf": False}, "is not a GGUF, or cannot be read"),
    ],
)
def test_a_file_that_the_inventory_promised_is_looked_at(fields: dict[str, Any], sentence: str) -> None:
    told = refusal(present(GIVEN), hosts.converged(model=fields))
    assert told == f"model_path={hosts.MODEL_PATH!r} {sentence}"


def test_such_a_file_needs_no_sidecar() -> None:
    resting(present(GIVEN), hosts.converged(model={"sidecar": None}))


def wire(decision: Decision) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(decision.steps[0].script.args[0])
    return told


def argument(decision: Decision) -> dict[str, Any]:
    """What the download's program is told."""
    [word] = shlex.split(wire(decision)["script"].rpartition("\njob ")[2])
    told: dict[str, Any] = json.loads(word)
    return told


def test_the_download_is_capped_and_watched_by_its_files() -> None:
    decision = acting(present(), there(**ABSENT))
    told = wire(decision)
    assert (told["name"], told["watch"], told["total"]) == ("download", [PATH], hosts.PIN.size)
    assert told["memory"] == 512 << 20
    assert argument(decision) == {
        "files": [{"path": PATH, "size": hosts.PIN.size, "sha256": hosts.PIN.sha256}],
        "revision": "c" * 40,
        "source": "owner/name",
        "rate": 0,
        "again": False,
        "stall": 60,
        "pauses": [1, 2, 4, 8, 16, 30, 60, 60, 60],
    }


def test_a_rate_is_handed_on_in_bytes() -> None:
    slow = hosts.wishes(hosts.HUB_DATA, download_rate_max="5M")
    assert argument(acting(present(slow), there(**ABSENT)))["rate"] == 5 << 20


def test_token_and_url_travel_as_the_jobs_secret_and_nowhere_else() -> None:
    decision = acting(present(token="hf_secret"), there(**ABSENT))
    told = wire(decision)
    assert json.loads(told.pop("secret")) == {"token": "hf_secret", "urls": [hosts.FILE.url]}
    for secret in ("hf_secret", hosts.FILE.url):
        assert secret not in json.dumps(told)
        assert secret not in repr(decision)
    assert hosts.FILE.url not in repr(hosts.PIN)
    assert json.loads(wire(acting(present(), there(**ABSENT)))["secret"])["token"] == ""


def test_a_token_is_for_the_hubs_own_host_and_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_secret")
    assert hub.token(HUB.settings.model) == "hf_secret"
    for endpoint in ("http://127.0.0.1:8010", "https://hf-mirror.test", "https://huggingface.co.evil.test"):
        data = {**hosts.HUB_DATA, "hub_endpoint": endpoint}
        assert hub.token(hosts.wishes(data).settings.model) is None
        assert hub.token(hosts.wishes(data, hub_token_for="https://other.test").settings.model) is None
        assert hub.token(hosts.wishes(data, hub_token_for=f"{endpoint}/").settings.model) == "hf_secret"
    anywhere: dict[str, Any] = {"model_url": "https://huggingface.co/a.gguf", "model_sha256": "d" * 64}
    assert hub.token(settings.Model(**anywhere)) is None


def test_each_commit_of_a_repository_has_its_own_folder() -> None:
    models = "~/.local/share/paddock/models"
    path = f"{models}/owner--name/cccccccccccc/some.gguf"
    assert MODEL.ask(HUB) == {"path": path, "rest": [], "models": models}
    assert MODEL.ask(GIVEN) == {"path": hosts.MODEL_PATH, "rest": [], "models": models}


PARTS = tuple(
    replace(hosts.FILE, path=f"Q4/some-{number:05}-of-00003.gguf", size=1_000_000_000, sha256=f"{number}" * 64)
    for number in (1, 2, 3)
)
SHARDED = replace(HUB, model=replace(hosts.PIN, files=PARTS))


def parts(*there_are: int) -> Observation:
    """A host on which some of the three parts are there and verified."""
    files = [
        {
            "path": f"/m/{part.path}",
            "file": {**FILE, "size": part.size} if number in there_are else None,
            "sidecar": {"sha256": part.sha256, "size": part.size, "mtime_ns": 7} if number in there_are else None,
            "part_size": 0,
        }
        for number, part in enumerate(PARTS, 1)
    ]
    return hosts.converged(HUB, model={**files[0], "rest": files[1:]})


def test_a_model_in_several_files_is_there_when_all_of_them_are() -> None:
    resting(present(SHARDED), parts(1, 2, 3))
    assert decide.lacking(SHARDED.model or hosts.PIN, parts(1, 3)[MODEL]) == 1_000_000_000
    told = reasons(present(SHARDED), parts(1, 3))
    assert told.startswith("download Q4/some-00001-of-00003.gguf and 2 more from owner/name (3.0 GB, 1.0 GB of it st")
    decision = acting(present(SHARDED), parts())
    assert [one["path"] for one in argument(decision)["files"]] == [f"/m/{part.path}" for part in PARTS]
    assert len(wire(decision)["watch"]) == 3
    assert len(json.loads(wire(decision)["secret"])["urls"]) == 3
    folder = "~/.local/share/paddock/models/owner--name/cccccccccccc/Q4"
    assert MODEL.ask(SHARDED)["rest"] == [f"{folder}/some-0000{number}-of-00003.gguf" for number in (2, 3)]


def test_several_files_have_one_sum_that_changes_with_each() -> None:
    pin = SHARDED.model or hosts.PIN
    others = [replace(pin, files=(*PARTS[:at], hosts.FILE, *PARTS[at + 1 :])) for at in range(3)]
    assert len({pin.sha256, *(other.sha256 for other in others)}) == 4
    assert hosts.PIN.sha256 == hosts.FILE.sha256


def test_what_the_header_told_stands_until_the_file_is_there() -> None:
    told = Anatomy("qwen3moe", 48, 128, 8, (150_000_000,) * 48, 900_000_000, 40_960, mla=True, chat_template="{{x}}")
    ahead = replace(HUB, model=replace(hosts.PIN, anatomy=told))
    decision = acting(present(ahead), there(**ABSENT))
    assert decision.reasons[1] == (
        "its header says: qwen3moe, 48 layers, 128 experts, 8 used, 150.0 MB of experts a layer, 900.0 MB of attention,"
        " trained for 40960 tokens, chat template"
    )
    after = decision.after[MODEL]
    assert (after.architecture, after.layers, after.trained_context, after.mla) == ("qwen3moe", 48, 40_960, True)
    whole = there(trained_context=5, mla=False)[MODEL]
    assert decide.known(ahead.model, whole) == whole


def test_verifying_reads_everything_whatever_the_sidecar_says() -> None:
    decision = decide.verified(HUB, None, there())
    assert decision.reasons == ("read some.gguf again and compare it with its sha256 (12.0 GB)",)
    assert argument(decision)["again"] is True
    told = left_out(partial(decide.verified, GIVEN, None), hosts.converged())
    assert told == "model_path is a file of your own, and there is no sha256 to verify it with"


def test_a_given_model_in_several_files_needs_all_of_them() -> None:
    told = refusal(present(GIVEN), hosts.converged(model={"missing": ["/models/b-00002-of-00002.gguf"]}))
    assert told.endswith("is the first of several parts, and /models/b-00002-of-00002.gguf is not beside it")
