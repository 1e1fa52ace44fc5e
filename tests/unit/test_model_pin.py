"""A model is resolved once, with the Hub's own client against the lab's Hub; every no of the Hub has its sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from huggingface_hub import hf_hub_url

from roles import settings
from roles.lock import Lock, LockError
from roles.model import pin
from tests.lab.hub import STRANGER, TOKEN, Hub
from tests.lab.hub.repo import Repo
from tests.lab.hub.sample import MODEL, NESTED, SIZE, WEIGHTS, sample_hub
from tests.lab.small_gguf import shards
from tests.unit import pinning
from tests.unit.pinning import TOLD, anywhere, refused, resolve, with_token

hub, lock = pinning.hub, pinning.lock


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with sample_hub(tmp_path_factory.mktemp("repos")) as hub:
        parts = shards(tmp_path_factory.mktemp("parts"), "big-Q4_K_M")
        whole, torn = Repo("lab/parts"), Repo("lab/torn")
        files = {f"Q4_K_M/{name}": path for name, path in parts.items()}
        whole.commit({"README.md": b"#\n", **files})
        torn.commit(dict(list(files.items())[:2]))
        hub.add(whole, torn)
        yield hub


def test_commit_size_and_sha256_of_a_file_go_into_the_lock_and_are_asked_for_once(hub: Hub, lock: Lock) -> None:
    first = resolve(hub, lock)
    commit = hub.repo(MODEL).branches["main"]
    assert (first.source, first.commit, first.folder) == (MODEL, commit, f"lab--model/{commit[:12]}")
    assert first.size == SIZE
    assert first.sha256 == hub.repo(MODEL).commits[commit][WEIGHTS].sha256
    lock.save()
    asked = len(hub.counters()["log"])
    again = Lock(lock.path)
    assert resolve(hub, again) == first
    assert len(hub.counters()["log"]) == asked
    assert pin.locked(again) == (first.folder,)


def test_a_branch_that_moves_does_not_move_what_is_in_the_lock(hub: Hub, lock: Lock) -> None:
    first = resolve(hub, lock)
    hub.repo(MODEL).move("main", hub.repo(MODEL).branches["next"])
    assert resolve(hub, lock) == first
    assert resolve(hub, Lock(lock.path)).commit == hub.repo(MODEL).branches["next"]


def test_all_parts_of_a_model_are_pinned_in_their_order(hub: Hub, lock: Lock) -> None:
    found = resolve(hub, lock, model_repo="lab/parts", model_file="Q4_K_M")
    assert [one.path for one in found.files] == [f"Q4_K_M/big-Q4_K_M-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    assert found.size == sum(one.size for one in found.files)
    assert len({one.sha256 for one in found.files} | {found.sha256}) == 4
    told = refused(hub, lock, model_repo="lab/torn", model_file="Q4_K_M")
    assert told.endswith("has 2 of the 3 parts of this model; it lacks Q4_K_M/big-Q4_K_M-00003-of-00003.gguf")


@pytest.mark.parametrize("path", [WEIGHTS, NESTED, "Q8_0/größe #1 %.gguf"])
def test_the_url_of_a_file_is_the_hub_clients_own(path: str) -> None:
    wanted = settings.Model(model_repo=MODEL, model_file=path)
    assert pin.url(wanted, "c" * 40, path) == hf_hub_url(MODEL, path, revision="c" * 40)


@pytest.mark.parametrize(
    ("data", "url"),
    [
        (
            {"model_url": "http://h.example:8/é à/modèle.gguf?k=ü&a=%20b", "model_sha256": "d" * 64},
            "http://h.example:8/%C3%A9%20%C3%A0/mod%C3%A8le.gguf?k=%C3%BC&a=%20b",
        ),
        (
            {"model_url": "https://modèle.example:8/a.gguf", "model_sha256": "d" * 64},
            "https://xn--modle-6ra.example:8/a.gguf",
        ),
        (
            {"model_repo": "a/b", "model_file": "c.gguf", "hub_endpoint": "https://h.example/miroir/é"},
            "https://h.example/miroir/%C3%A9/a/b/resolve/" + "c" * 40 + "/c.gguf",
        ),
    ],
)
def test_an_address_beyond_ascii_is_written_as_every_client_takes_it(data: dict[str, Any], url: str) -> None:
    assert pin.url(settings.Model(**data), "c" * 40, "c.gguf") == url


def test_a_renamed_repository_is_found_under_its_old_name(hub: Hub, lock: Lock) -> None:
    assert resolve(hub, lock, model_repo="lab/old").sha256 == resolve(hub, lock).sha256


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            {"model_repo": "lab/nothing"},
            "has no model 'lab/nothing', or it is private and it needs a token: run `hf auth",
        ),
        (
            {"model_repo": "lab/private"},
            "has no model 'lab/private', or it is private and it needs a token: run `hf auth",
        ),
        ({"model_revision": "v9"}, "lab/model has no branch, tag or commit called 'v9'; it has v1"),
        ({"model_file": "model-Q5_K_M.gguf"}, f"lab/model at main has no file 'model-Q5_K_M.gguf'; it has {WEIGHTS}"),
        ({"model_file": "Q3_K"}, "lab/model at main has no GGUF quantized as 'Q3_K'; it has"),
        ({"model_revision": "v1"}, f"lab/model at v1 has no file '{WEIGHTS}', nor any GGUF"),
    ],
)
def test_what_is_not_there_is_told_with_its_remedy(hub: Hub, lock: Lock, data: dict[str, Any], sentence: str) -> None:
    assert sentence in refused(hub, lock, **data)


def test_a_token_is_used_where_its_hub_is_named_and_judged_there(
    hub: Hub, lock: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"and set hub_token_for='{hub.url}'" in refused(hub, lock, model_repo="lab/private")
    named = with_token(monkeypatch, hub, TOKEN)
    refused(hub, lock, model_repo="lab/private")
    assert hub.counters()["hub"]["authorization"] == {}
    assert resolve(hub, lock, model_repo="lab/private", **named).size == SIZE
    named = with_token(monkeypatch, hub, STRANGER)
    told = refused(hub, Lock(lock.path), model_repo="lab/private", **named)
    assert "or it is private and this machine's token may not see it" in told
    named = with_token(monkeypatch, hub, "hf_expired")
    told = refused(hub, Lock(lock.path), **named)
    assert "refuses this machine's token (401): run `hf auth login` on this machine or set HF_TOKEN anew, or" in told
    assert "hf_expired" not in told


def test_a_web_page_in_the_place_of_a_file_tells_no_size(hub: Hub, lock: Lock) -> None:
    hub.fault("portal")
    assert refused(hub, lock, **anywhere(hub)).startswith(f"127.0.0.1 sends a web page and not {WEIGHTS}; is there a")
    hub.fault("portal", content_type="application/octet-stream")
    assert refused(hub, lock, **anywhere(hub)) == f"{WEIGHTS} at 127.0.0.1 is not a GGUF: it does not begin like one"


def test_a_file_anywhere_is_pinned_by_its_sum_and_asked_for_its_size(hub: Hub, lock: Lock) -> None:
    found = resolve(hub, lock, **anywhere(hub, NESTED))
    assert [(one.path, one.size) for one in found.files] == [("model Q8+0.gguf", SIZE)]
    assert (found.source, found.folder) == ("127.0.0.1", f"url/{found.sha256[:12]}")
    hub.fault("no-range")
    assert resolve(hub, Lock(lock.path), **anywhere(hub, NESTED)) == found
    assert pin.locked(lock) == (found.folder,)


def test_the_query_of_a_url_may_be_a_secret_and_is_in_no_lock_and_no_sentence(hub: Hub, lock: Lock) -> None:
    found = resolve(hub, lock, **anywhere(hub))
    lock.save()
    assert "secret" not in lock.path.read_text()
    assert "secret" not in repr(found)
    hub.fault("status", status=404)
    told = refused(hub, Lock(lock.path.with_name("other.lock.yml")), **anywhere(hub))
    assert told == "127.0.0.1 answered 404 for model_url; look whether it still stands there"


def test_a_broken_entry_of_the_lock_is_told(lock: Lock) -> None:
    lock.put("model", f"{MODEL} main {WEIGHTS}", {"commit": "c" * 40, "files": []})
    with pytest.raises(LockError, match="is not whole; delete it"):
        pin.model(settings.Model(model_repo=MODEL, model_file=WEIGHTS), lock, TOLD.append)


def test_a_file_without_a_sha256_is_no_gguf(hub: Hub, lock: Lock) -> None:
    repo = Repo("lab/text")
    repo.commit({"a.gguf": b"a text"})
    hub.add(repo)
    assert refused(hub, lock, model_repo="lab/text", model_file="a.gguf").startswith("a.gguf in lab/text has no sha256")
