"""A model is known by its header alone: fetched by Range, however long, whatever the server does, and kept."""

from __future__ import annotations

import errno
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roles import settings
from roles.lock import CannotPin
from roles.model import header
from roles.wishes import Anatomy, ModelPin
from tests.lab import small_gguf
from tests.lab.hub import STRANGER, TOKEN, Hub
from tests.lab.hub.repo import Repo
from tests.lab.hub.sample import sample_hub
from tests.unit import hosts, pinning
from tests.unit.pinning import pinned

SMALL, LONG, TORN, TEXT = "small-F32.gguf", "long.gguf", "torn.gguf", "text.gguf"
ROOT = Path(__file__).parents[2]
TOKENS = 100_000  # a header of some 4 MB: three requests

hub = pinning.hub


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("gguf")
    small, long = small_gguf.write(folder / SMALL), small_gguf.write(folder / LONG, tokens=TOKENS)
    (folder / TORN).write_bytes(small.read_bytes()[:-100_000])
    (folder / TEXT).write_bytes(b"<!DOCTYPE html>" * 1000)
    parts = small_gguf.shards(folder / "parts", "parts")
    files: dict[str, Any] = {SMALL: small, LONG: long, TORN: folder / TORN, TEXT: folder / TEXT, **parts}
    repo, gated = Repo("lab/ggufs"), Repo("lab/locked", gated=True)
    repo.commit(files)
    gated.commit(files)
    with sample_hub(tmp_path_factory.mktemp("repos")) as hub:
        hub.add(repo, gated)
        yield hub


def wanted(hub: Hub, file: str, repo: str = "lab/ggufs", **data: Any) -> settings.Model:
    return settings.Model(model_repo=repo, model_file=file, hub_endpoint=hub.url, **data)


def read(hub: Hub, file: str, **data: Any) -> Anatomy:
    model = wanted(hub, file, **data)
    return header.anatomy(pinned(model), model, lambda line: None)


def ranges(hub: Hub) -> list[str]:
    return [entry["range"] for entry in hub.counters()["log"] if entry["host"] == "cdn"]


def sent(hub: Hub) -> int:
    return sum(hub.counters()["cdn"]["bytes"].values())


KNOWN = Anatomy(
    architecture="qwen3moe",
    layers=small_gguf.LAYERS,
    experts=small_gguf.EXPERTS,
    experts_used=2,
    expert_bytes=(small_gguf.EXPERT_BYTES,) * small_gguf.LAYERS,
    attention_bytes=small_gguf.ATTENTION_BYTES,
    trained_context=small_gguf.TRAINED,
    dense_bytes=small_gguf.DENSE_BYTES,
    cache_row=small_gguf.CACHE_ROW,
    chat_template="{{ messages }}",
)


def test_one_short_request_tells_what_the_model_is(hub: Hub) -> None:
    assert read(hub, SMALL) == KNOWN
    assert ranges(hub) == ["bytes=0-1048575"]


def test_a_long_vocabulary_is_read_to_its_end_and_no_further(hub: Hub) -> None:
    assert read(hub, LONG) == KNOWN
    assert ranges(hub) == ["bytes=0-1048575", "bytes=1048576-4194303"]
    assert sent(hub) <= 4 << 20


def test_it_is_kept_by_sha256_and_asked_for_once(hub: Hub) -> None:
    read(hub, LONG)
    hub.reset()
    assert read(hub, LONG) == KNOWN
    assert ranges(hub) == []
    model = pinned(wanted(hub, LONG))
    path = header.twin(model.files[0])
    assert path is not None
    assert path.stat().st_size < 4 << 20
    assert header.kept(replace(model, files=hosts.PIN.files)) is None


def test_each_part_of_a_model_has_its_own_header_and_they_tell_the_whole(hub: Hub) -> None:
    assert read(hub, "parts-00001-of-00003.gguf") == KNOWN
    assert len(ranges(hub)) == 3
    model = pinned(wanted(hub, "parts-00002-of-00003.gguf"))
    assert all(header.twin(file) for file in model.files)


@pytest.mark.parametrize(
    ("kind", "details"),
    [
        ("no-range", {"times": None}),
        ("drop", {"at": 300_000}),
        ("status", {"status": 503, "host": "cdn"}),
        ("status", {"status": 429, "retry_after": "0"}),
        ("hangup", {"host": "cdn"}),
        ("expired", {"host": "hub"}),
    ],
)
def test_a_server_with_its_own_mind_is_coped_with(hub: Hub, kind: str, details: dict[str, Any]) -> None:
    model = wanted(hub, LONG)
    known = pinned(model)
    hub.fault(kind, **details)
    assert header.anatomy(known, model, lambda line: None) == KNOWN
    assert sent(hub) < 2 * known.size


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (TEXT, "text.gguf in lab/ggufs is not a GGUF: it does not begin like one"),
        (TORN, "torn.gguf in lab/ggufs is cut off: its tensor table needs "),
    ],
)
def test_what_is_no_model_is_told_before_it_is_downloaded(hub: Hub, file: str, sentence: str) -> None:
    with pytest.raises(CannotPin) as told:
        read(hub, file)
    assert str(told.value).startswith(sentence)


def test_a_gated_repository_is_told_before_it_is_downloaded(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        CannotPin, match=r"lab/locked is gated: accept its conditions on http.*, then run `hf auth login`"
    ):
        read(hub, SMALL, repo="lab/locked")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: STRANGER)
    with pytest.raises(CannotPin, match=r"is gated, and the account of this machine's token may not read it"):
        read(hub, SMALL, repo="lab/locked", hub_token_for=hub.url)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: TOKEN)
    assert read(hub, SMALL, repo="lab/locked", hub_token_for=hub.url) == KNOWN
    assert hub.counters()["cdn"]["authorization"] == {}


def test_a_netrc_is_neither_sent_nor_put_in_the_place_of_the_token(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setattr("huggingface_hub.get_token", lambda: TOKEN)
    assert read(hub, SMALL, repo="lab/locked", hub_token_for=hub.url) == KNOWN
    counters = hub.counters()
    assert set(counters["hub"]["authorization"]) == {f"Bearer {TOKEN}"}
    assert counters["cdn"]["authorization"] == {}


def test_no_library_logs_an_address_whatever_is_logged(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    read(hub, SMALL)
    assert len(ranges(hub)) == 1
    assert [record.getMessage() for record in caplog.records if "Key-Pair-Id" in record.getMessage()] == []
    assert not [record for record in caplog.records if record.name.partition(".")[0] in ("urllib3", "httpx2")]


def test_without_a_network_the_header_is_not_known_and_no_obstacle(hub: Hub) -> None:
    model = wanted(hub, SMALL)
    known = pinned(model)
    hub.fault("status", status=500, times=None)
    with pytest.raises(header.CannotRead, match="answered 500 3 times"):
        header.anatomy(known, model, lambda line: None)


def test_a_cache_that_cannot_be_written_is_no_trouble(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert read(hub, SMALL) == KNOWN


def test_it_is_fetched_only_for_a_model_that_is_still_to_come(hub: Hub) -> None:
    wishes = hosts.wishes(hosts.HUB_DATA)
    hub.fault("status", times=None)
    assert header.informed(wishes, hosts.converged(wishes), lambda line: None) == wishes
    assert hub.counters()["log"] == []
    there = replace(wishes, model=pinned_small(hub))
    model = header.informed(there, hosts.bare(model=hosts.ABSENT), None).model
    assert model is not None
    assert model.anatomy is None


def pinned_small(hub: Hub) -> ModelPin:
    hub.reset()
    return pinned(wanted(hub, SMALL))


def test_a_machine_without_room_for_a_header_cannot_read_it(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("roles.model.gguf_header.tempfile.NamedTemporaryFile", full)
    with pytest.raises(
        header.CannotRead, match=r"the header of small-F32.gguf cannot be read on this machine: .*space"
    ):
        read(hub, SMALL)


def test_a_run_that_needs_no_header_loads_nothing_for_one() -> None:
    modules = ("requests", "huggingface_hub", "gguf", "numpy")
    program = f"import sys, roles.overview; print([name for name in {modules!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
