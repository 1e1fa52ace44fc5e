"""The Hub in trouble: what is waited for, for how long, and what is said when it was in vain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
import requests
from huggingface_hub.errors import LocalEntryNotFoundError

from roles import settings
from roles.lock import Lock
from roles.model import hub as the_hub
from roles.model.transfer_program import wait_asked
from tests.lab.hub import Hub
from tests.lab.hub.sample import MODEL, SIZE, WEIGHTS
from tests.unit import pinning
from tests.unit.pinning import TOLD, anywhere, refused, resolve

running, hub, lock = pinning.running, pinning.hub, pinning.lock


def test_too_many_requests_are_waited_for_and_shown(hub: Hub, lock: Lock) -> None:
    hub.fault("status", status=429, retry_after="1", times=2)
    assert resolve(hub, lock).size == SIZE
    assert TOLD == ["the Hub is asked again in 1 s: it answered 429"] * 2
    hub.fault("status", status=429, retry_after="4000", times=None)
    told = refused(hub, Lock(lock.path))
    assert told.startswith(f"{hub.url} has answered too many requests from here (429); try again later")


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        ({"rate_limit": '"resolvers";r=0;t=0'}, 1),
        ({"retry_after": "Mon, 01 Jan 2001 00:00:00 GMT"}, 0),
        ({"retry_after": "\xb2"}, 0),
    ],
)
def test_a_rate_limit_is_waited_for_however_it_is_told(
    hub: Hub, lock: Lock, fault: dict[str, str], seconds: int
) -> None:
    hub.fault("status", status=429, **fault)
    assert resolve(hub, lock).size == SIZE
    assert list(TOLD) == [f"the Hub is asked again in {seconds} s: it answered 429"]


def test_the_time_that_is_asked_for_is_understood() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert wait_asked({"retry-after": soon, "ratelimit": '"api";r=0;t=3'}) in range(88, 92)
    assert wait_asked({"ratelimit": '"resolvers";r=0;t=120'}) == 121
    assert wait_asked({"retry-after": "soon", "ratelimit": "none"}) == 0
    assert the_hub.LONGEST > 301, "the Hub's windows are of 300 s"


def test_a_netrc_goes_to_nobody(hub: Hub, lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("default login me password mine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    resolve(hub, lock)
    resolve(hub, lock, **anywhere(hub))
    counters = hub.counters()
    assert (counters["hub"]["authorization"], counters["cdn"]["authorization"]) == ({}, {})
    assert len(counters["log"]) > 2


def test_a_server_in_trouble_is_asked_again_a_few_times(hub: Hub, lock: Lock) -> None:
    hub.fault("status", status=503, times=2)
    assert resolve(hub, lock).size == SIZE
    hub.fault("hangup", times=1)
    assert resolve(hub, Lock(lock.path)).size == SIZE
    hub.fault("status", status=500, times=None)
    assert refused(hub, Lock(lock.path)) == f"{hub.url} answered 500 3 times; try again later"


@pytest.mark.parametrize(
    ("endpoint", "sentence"),
    [
        ("http://127.0.0.1:1", "127.0.0.1 cannot be reached: it refuses the connection"),
        ("http://no-such-host.invalid", "the name no-such-host.invalid cannot be resolved; look at hub_endpoint"),
    ],
)
def test_a_hub_that_cannot_be_reached_is_told_by_its_name(hub: Hub, lock: Lock, endpoint: str, sentence: str) -> None:
    assert refused(hub, lock, hub_endpoint=endpoint).startswith(sentence)


def test_plain_http_behind_https_and_a_broken_proxy_are_told_apart(
    hub: Hub, lock: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = {"model_repo": None, "model_file": None, "model_sha256": "d" * 64}
    told = refused(hub, lock, **url, model_url=f"{hub.url.replace('http', 'https')}/a.gguf")
    assert told.startswith("127.0.0.1 does not speak https there")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    told = refused(hub, lock, **url, model_url="http://elsewhere.invalid/a.gguf")
    assert told.startswith("the proxy on the way to elsewhere.invalid does not let this through")


def test_the_truth_behind_the_clients_own_wrapping_is_told() -> None:
    response = requests.Response()
    response.status_code = 429
    wrapped = LocalEntryNotFoundError("cannot find the requested files in the disk cache")
    wrapped.__cause__ = requests.HTTPError(response=response)
    wanted = settings.Model(model_repo=MODEL, model_file=WEIGHTS)
    assert the_hub.sentence(wrapped, wanted, None).startswith("https://huggingface.co has answered too many requests")
