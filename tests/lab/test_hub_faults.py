"""The lab's Hub goes wrong exactly as told, counts what happened, and cleans up after itself."""

from __future__ import annotations

import http.client
import io
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests
from huggingface_hub import HfApi, constants, hf_hub_download, hf_hub_url

from tests.lab import models
from tests.lab.hub import Fault, Hub
from tests.lab.hub.faults import spoiled
from tests.lab.hub.sample import MODEL, SIZE, WEIGHTS, noise, sample_hub

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One Hub for all tests of this file."""
    with sample_hub(tmp_path_factory.mktemp("repos")) as hub:
        yield hub


@pytest.fixture
def hub(running: Hub) -> Hub:
    """The Hub as it was at its start."""
    running.reset()
    return running


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of the sample weights."""
    return noise(tmp_path_factory.mktemp("content"), "weights").read_bytes()


def resolve(hub: Hub) -> str:
    """URL of the sample weights."""
    return hf_hub_url(MODEL, WEIGHTS, endpoint=hub.url)


def get(hub: Hub, **headers: str) -> requests.Response:
    """The weights, by a plain client that follows the redirect."""
    return requests.get(resolve(hub), headers=headers, timeout=2)


def test_a_status_comes_as_often_as_told_after_those_that_are_skipped(hub: Hub) -> None:
    hub.fault("status", status=503, skip=1, times=2, path="*/resolve/*")
    assert [get(hub).status_code for _ in range(4)] == [200, 503, 503, 200]


def test_too_many_requests_says_when_to_come_again(hub: Hub) -> None:
    hub.fault("status", status=429, retry_after="7", host="cdn")
    answer = get(hub)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")


def test_the_client_comes_again_after_too_many_requests(hub: Hub, tmp_path: Path) -> None:
    hub.fault("status", status=429, retry_after="0", method="HEAD", times=2)
    got = hf_hub_download(MODEL, WEIGHTS, endpoint=hub.url, local_dir=tmp_path, token=False)
    assert Path(got).stat().st_size == SIZE
    assert hub.counters()["hub"]["requests"][f"HEAD /{MODEL}/resolve/main/{WEIGHTS}"] == {"429": 2, "302": 1}


def test_a_dropped_body_ends_after_exactly_as_many_bytes(hub: Hub, content: bytes) -> None:
    hub.fault("drop", at=1_234_567)
    with urllib.request.urlopen(resolve(hub), timeout=5) as answer:
        assert answer.headers["Content-Length"] == str(SIZE)
        with pytest.raises(http.client.IncompleteRead) as caught:
            answer.read()
    assert caught.value.partial == content[:1_234_567]


@pytest.mark.parametrize(("chunk", "asked_again"), [(1 << 20, "bytes=1048576-"), (10 << 20, None)])
def test_the_client_resumes_a_dropped_body_by_whole_chunks(
    hub: Hub, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, asked_again: str | None
) -> None:
    # The client's own chunk is 10 MB: what came of an unfinished chunk is thrown away and asked for again.
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", chunk)
    hub.fault("drop", at=2_000_000)
    got = hf_hub_download(MODEL, WEIGHTS, endpoint=hub.url, local_dir=tmp_path, token=False)
    assert Path(got).read_bytes() == content
    assert [entry["range"] for entry in hub.counters()["log"] if entry["host"] == "cdn"] == [None, asked_again]


def test_a_corrupt_body_differs_in_one_byte(hub: Hub, content: bytes) -> None:
    hub.fault("corrupt", at=70_000, times=2)
    whole, part = get(hub).content, get(hub, Range="bytes=69999-70001").content
    assert [n for n in range(SIZE) if whole[n] != content[n]] == [70_000]
    assert part == whole[69_999:70_002]


def test_the_client_takes_a_corrupt_body_for_success(hub: Hub, content: bytes, tmp_path: Path) -> None:
    hub.fault("corrupt", at=70_000)
    got = hf_hub_download(MODEL, WEIGHTS, endpoint=hub.url, local_dir=tmp_path, token=False)
    assert Path(got).stat().st_size == SIZE
    assert Path(got).read_bytes() != content


def test_a_short_body_has_honest_headers(hub: Hub, content: bytes) -> None:
    hub.fault("short", at=1000, times=None)
    assert get(hub).content == content[:1000]
    assert get(hub, Range="bytes=2000-").status_code == 416


def test_a_range_is_ignored_on_demand(hub: Hub, content: bytes) -> None:
    hub.fault("no-range")
    answer = get(hub, Range="bytes=5-9")
    assert (answer.status_code, answer.content) == (200, content)
    assert "Content-Range" not in answer.headers


def test_a_stalled_body_sends_nothing_and_then_goes_on(hub: Hub, content: bytes) -> None:
    hub.fault("stall", at=500_000, seconds=0.4)
    started = time.monotonic()
    assert get(hub).content == content
    assert time.monotonic() - started >= 0.4
    hub.fault("stall", at=500_000, seconds=600)  # longer than the Hub lives: it does not go on in another test
    with pytest.raises(requests.exceptions.ConnectionError, match="timed out"):
        get(hub)


def test_a_slow_body_keeps_to_its_rate(hub: Hub) -> None:
    hub.fault("slow", rate=200_000)
    started = time.monotonic()
    assert len(get(hub, Range="bytes=0-99999").content) == 100_000
    assert time.monotonic() - started > 0.4
    pauses: list[float] = []
    list(spoiled(io.BytesIO(bytes(100_000)), 0, 100_000, [Fault("slow", rate=200_000)], pauses.append))
    assert sum(pauses) == pytest.approx(0.5), "no slower either; what else this machine does is its own"


def test_a_connection_can_end_or_wait_before_any_answer(hub: Hub) -> None:
    hub.fault("hangup", host="hub")
    with pytest.raises(requests.exceptions.ConnectionError):
        get(hub)
    hub.fault("wait", host="hub", seconds=0.3)
    started = time.monotonic()
    assert get(hub).status_code == 200
    assert time.monotonic() - started >= 0.3


def test_a_captive_portal_answers_200_with_its_own_page(hub: Hub) -> None:
    hub.fault("portal")
    answer = get(hub)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html")
    assert answer.content.startswith(b"<!DOCTYPE html>")


def test_main_moves_between_two_requests_and_goes_back_at_reset(hub: Hub) -> None:
    api = HfApi(endpoint=hub.url, token=False)
    before, following = api.model_info(MODEL).sha, api.model_info(MODEL, revision="next").sha
    hub.fault("move", method="HEAD", repo=MODEL, commit=following)
    assert api.model_info(MODEL).sha == before
    assert requests.head(resolve(hub), timeout=5).headers["X-Repo-Commit"] == following
    assert api.model_info(MODEL).sha == following
    hub.reset()
    assert api.model_info(MODEL).sha == before


def test_another_process_controls_it_by_http(hub: Hub) -> None:
    def control(path: str, data: object = None) -> requests.Response:
        return requests.request("GET" if data is None else "POST", f"{hub.url}/_lab/{path}", json=data, timeout=5)

    control("faults", [{"kind": "status", "status": 500, "times": 2}, {"kind": "portal", "host": "cdn"}])
    assert [fault["kind"] for fault in control("faults").json()["pending"]] == ["status", "portal"]
    assert [get(hub).status_code for _ in range(2)] == [500, 500]
    assert control("counters").json()["hub"]["requests"] == {f"GET /{MODEL}/resolve/main/{WEIGHTS}": {"500": 2}}
    branches = control("repos").json()[MODEL]["branches"]
    control("refs", {"repo": MODEL, "commit": branches["next"]})
    assert requests.head(resolve(hub), timeout=5).headers["X-Repo-Commit"] == branches["next"]
    control("reset", {})
    assert control("counters").json() == hub.counters()
    assert control("counters").json()["log"] == control("faults").json()["pending"] == []
    assert control("repos").json()[MODEL]["branches"] == branches
    for path, wrong in [("faults", {"kind": "flood"}), ("faults", {"colour": 1}), ("refs", {"repo": "no"}), ("x", {})]:
        assert control(path, wrong).status_code == 400
    with pytest.raises(ValueError, match="must not be negative"):
        Fault("drop", at=-1)


def test_the_rest_of_an_answer_is_not_counted_after_a_reset(hub: Hub) -> None:
    """Who is cut off is noticed a piece later, when the next test has begun."""
    hub.fault("slow", rate=10_000_000)
    with requests.get(resolve(hub), stream=True, timeout=5) as answer:
        answer.raw.read(10)
        hub.reset()
        assert len(answer.raw.read()) == SIZE - 10
    assert hub.counters()["cdn"]["bytes"] == {}


def test_one_connection_serves_many_requests(hub: Hub) -> None:
    port = int(hub.url.rsplit(":", 1)[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.connect()
    first = connection.sock
    for method, path in [("HEAD", f"/{MODEL}/resolve/main/{WEIGHTS}"), ("GET", "/x/y"), ("POST", "/a"), ("GET", "/b")]:
        connection.request(method, path, body=b"ignored" if method == "POST" else None)
        connection.getresponse().read()
        assert connection.sock is first
    connection.close()


def test_curl_resumes_what_was_dropped(hub: Hub, content: bytes, tmp_path: Path) -> None:
    hub.fault("drop", at=2_000_000)
    out = tmp_path / "weights"
    curl = ["curl", "-sSfL", "-o", str(out), resolve(hub)]
    assert subprocess.run(curl, capture_output=True, check=False, timeout=20).returncode == 18  # partial file
    subprocess.run([*curl, "-C", "-"], check=True, timeout=20)
    assert out.read_bytes() == content
    assert sum(hub.counters()["cdn"]["bytes"].values()) == SIZE


def test_a_client_that_goes_away_leaves_nothing_on_the_screen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with sample_hub(tmp_path) as hub:
        hub.fault("slow", rate=1_000_000)
        with requests.get(resolve(hub), stream=True, timeout=5) as answer:
            answer.raw.read(10)
    assert 0 < sum(hub.counters()["cdn"]["bytes"].values()) < SIZE
    assert capfd.readouterr() == ("", "")


def test_closing_ends_every_thread_even_in_a_stall(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with sample_hub(tmp_path) as hub:
        hub.fault("stall", at=0, seconds=600)
        with requests.get(resolve(hub), stream=True, timeout=5):
            port = int(hub.url.rsplit(":", 1)[1])
            with pytest.raises(OSError, match="refused"):
                socket.create_connection(("127.0.0.2", port), timeout=1)  # bound to its own address alone
            started = time.monotonic()
            hub.__exit__()
            assert time.monotonic() - started < 60, "and not the 600 s of the stall"
    assert set(threading.enumerate()) <= before


def test_as_a_process_it_serves_the_models_until_told_to_stop() -> None:
    if not (models.MODELS / models.GEMMA_FILE).exists():
        pytest.skip("the models are not in the cache yet: python -m tests.lab.models makes and fetches them")
    command = [sys.executable, "-m", "tests.lab.hub", "--listen", "127.0.0.1:0", "--cdn", "127.0.0.2:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        repos = json.loads(requests.get(f"{words[2]}/_lab/repos", timeout=5).content)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert set(repos) == {"paddock/tiny-moe", "paddock/gemma-270m", "paddock/gated"}
