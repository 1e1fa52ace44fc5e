"""Whether the model is there, whole and verified; and what the download is given."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from roles.model import decide, pin
from roles.model.observe import MODEL
from roles.observation import Observation
from roles.wishes import Wishes
from tests.unit import hosts
from tests.unit.deciding import Decide, acting, reasons, refusal, resting

HUB = hosts.wishes(hosts.HUB_DATA)
GIVEN = hosts.wishes()
FILE: dict[str, Any] = hosts.converged_answers(HUB)["model"]["file"]
ABSENT: dict[str, Any] = {"file": None, "is_gguf": False, "sidecar": None}
PATH = "/home/dev/.local/share/paddock/models/some.gguf"


def present(wanted: Wishes = HUB, token: str | None = None) -> Decide:
    return partial(decide.present, wanted, token)


def hub(**fields: Any) -> Observation:
    return hosts.converged(HUB, model={"path": PATH, **fields})


def test_a_verified_file_is_not_read_again() -> None:
    resting(present(), hub())


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
    assert reason in reasons(present(), hub(**fields))


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
    assert decide.lacking(hosts.PIN, hub(**fields)[MODEL]) == lacking


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


def test_the_download_is_capped_and_watched_by_the_size_of_its_part() -> None:
    wire = json.loads(acting(present(), hub(**ABSENT)).steps[0].script.args[0])
    assert (wire["name"], wire["watch"], wire["total"]) == ("download", f"{PATH}.part", hosts.PIN.size)
    assert wire["memory"] == 512 << 20
    last = wire["script"].rpartition("\njob ")[2]
    assert last == f"{PATH} {hosts.PIN.url} {hosts.PIN.size} {hosts.PIN.sha256}\n"


def test_a_token_travels_as_the_jobs_secret_and_nowhere_else() -> None:
    decision = acting(present(token="hf_secret"), hub(**ABSENT))
    wire = json.loads(decision.steps[0].script.args[0])
    assert wire.pop("secret") == 'header = "Authorization: Bearer hf_secret"'
    assert "hf_secret" not in json.dumps(wire)
    assert "hf_secret" not in repr(decision)
    assert json.loads(acting(present(), hub(**ABSENT)).steps[0].script.args[0])["secret"] == ""


def test_a_token_is_for_the_hubs_own_host_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pin, "get_token", lambda: "hf_secret")
    assert pin.token(HUB.settings.model) == "hf_secret"
    for endpoint in ("http://127.0.0.1:8010", "https://hf-mirror.test", "https://huggingface.co.evil.test"):
        assert pin.token(hosts.wishes(hosts.HUB_DATA, hub_endpoint=endpoint).settings.model) is None


def test_each_commit_of_a_repository_has_its_own_folder() -> None:
    assert MODEL.ask(HUB) == {"path": "~/.local/share/paddock/models/owner--name/cccccccccccc/some.gguf"}
    assert MODEL.ask(GIVEN) == {"path": hosts.MODEL_PATH}
