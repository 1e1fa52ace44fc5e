"""The lab's Hub answers real clients as the Hub does: files, revisions, redirects, ranges and access."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests
from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_download, hf_hub_url, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.lab.hub import STRANGER, TOKEN, Hub
from tests.lab.hub.sample import MODEL, NESTED, README, SIZE, WEIGHTS, noise, sample_hub

if TYPE_CHECKING:
    from collections.abc import Iterator

    from huggingface_hub import HfFileMetadata


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


def metadata(hub: Hub, repo: str, path: str, revision: str = "main", token: str | None = None) -> HfFileMetadata:
    """What the client learns by HEAD."""
    return get_hf_file_metadata(
        hf_hub_url(repo, path, revision=revision, endpoint=hub.url), token=token or False, endpoint=hub.url
    )


def resolve(hub: Hub, path: str = WEIGHTS) -> str:
    """URL of a file of the sample model."""
    return hf_hub_url(MODEL, path, endpoint=hub.url)


def test_model_info_states_size_and_sha256_of_every_weights_file(hub: Hub, content: bytes) -> None:
    info = HfApi(endpoint=hub.url, token=False).model_info(MODEL, files_metadata=True)
    files = {sibling.rfilename: sibling for sibling in info.siblings or []}
    assert set(files) == {"README.md", WEIGHTS, NESTED}
    assert (files[WEIGHTS].size, files["README.md"].size) == (SIZE, len(README))
    lfs = files[WEIGHTS].lfs
    assert lfs is not None
    assert (lfs.size, lfs.sha256) == (SIZE, hashlib.sha256(content).hexdigest())
    assert files["README.md"].lfs is None


def test_a_branch_a_tag_and_a_commit_are_revisions(hub: Hub) -> None:
    api = HfApi(endpoint=hub.url, token=False)
    main, first, following = (api.model_info(MODEL, revision=name).sha for name in ("main", "v1", "next"))
    assert len({main, first, following}) == 3
    assert api.model_info(MODEL).sha == main
    assert api.model_info(MODEL, revision=main).sha == main
    assert {branch.target_commit for branch in api.list_repo_refs(MODEL).branches} == {main, following}


def test_file_metadata_pins_the_commit_and_points_to_the_cdn(hub: Hub, content: bytes) -> None:
    found = metadata(hub, MODEL, WEIGHTS)
    assert found.commit_hash == HfApi(endpoint=hub.url, token=False).model_info(MODEL).sha
    assert (found.size, found.etag) == (SIZE, hashlib.sha256(content).hexdigest())
    assert found.location.startswith(f"{hub.cdn_url}/")


@pytest.mark.parametrize("path", [WEIGHTS, NESTED])
def test_the_client_downloads_weights_whole(hub: Hub, content: bytes, tmp_path: Path, path: str) -> None:
    got = hf_hub_download(MODEL, path, endpoint=hub.url, local_dir=tmp_path, token=False)
    assert Path(got).read_bytes() == content
    assert sum(hub.counters()["cdn"]["bytes"].values()) == SIZE


def test_the_client_downloads_a_whole_repository_by_its_tree(hub: Hub, tmp_path: Path) -> None:
    # With local_dir alone it would keep the listing of the tree in the user's own cache.
    snapshot_download(MODEL, endpoint=hub.url, local_dir=tmp_path, cache_dir=tmp_path / "cache", token=False)
    assert (tmp_path / "README.md").read_bytes() == README
    assert (tmp_path / NESTED).stat().st_size == SIZE
    tree = HfApi(endpoint=hub.url, token=False).list_repo_tree(MODEL)
    assert [entry.path for entry in tree] == ["Q8_0", "README.md", WEIGHTS]


@pytest.mark.parametrize(
    ("asked", "status", "start", "stop"),
    [
        ("bytes=0-23", 206, 0, 24),
        ("bytes=1000000-", 206, 1_000_000, SIZE),
        ("bytes=-10", 206, SIZE - 10, SIZE),
        ("bytes=2999999-9999999", 206, 2_999_999, SIZE),
        (f"bytes={SIZE}-", 416, 0, 0),
        ("bytes=0-1,5-6", 200, 0, SIZE),
        ("bytes=5-1", 200, 0, SIZE),
    ],
)
def test_the_cdn_serves_a_range(hub: Hub, content: bytes, asked: str, status: int, start: int, stop: int) -> None:
    answer = requests.get(resolve(hub), headers={"Range": asked}, timeout=10)
    assert (answer.status_code, answer.content) == (status, content[start:stop])
    if status == 206:
        assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{SIZE}"


def test_the_cdn_has_an_etag_of_its_own_which_if_range_knows(hub: Hub) -> None:
    first = requests.head(resolve(hub), timeout=10, allow_redirects=True)
    assert first.headers["ETag"].strip('"') != metadata(hub, MODEL, WEIGHTS).etag
    same = requests.get(first.url, headers={"Range": "bytes=10-", "If-Range": first.headers["ETag"]}, timeout=10)
    other = requests.get(first.url, headers={"Range": "bytes=10-", "If-Range": '"another"'}, timeout=10)
    assert (same.status_code, other.status_code) == (206, 200)


def test_the_cdn_refuses_a_link_that_is_altered_unsigned_or_expired(hub: Hub) -> None:
    link = metadata(hub, MODEL, WEIGHTS).location
    hub.fault("expired")
    expired = metadata(hub, MODEL, WEIGHTS).location
    altered = link.replace("Expires=1", "Expires=2")
    for url, status in [(link, 200), (altered, 403), (link.split("?")[0], 403), (expired, 403)]:
        assert requests.head(url, timeout=10).status_code == status


@pytest.mark.parametrize(
    ("token", "status"), [(None, 401), (STRANGER, 403)], ids=["without a token", "with a stranger's token"]
)
def test_a_gated_repository_shows_its_files_to_nobody_else(hub: Hub, token: str | None, status: int) -> None:
    with pytest.raises(GatedRepoError) as caught:
        metadata(hub, "lab/gated", WEIGHTS, token=token)
    assert caught.value.response.status_code == status
    assert HfApi(endpoint=hub.url, token=token or False).model_info("lab/gated").gated == "manual"


@pytest.mark.parametrize("repo", ["lab/gated", "lab/private", "lab/old-gated"])
def test_the_right_token_opens_and_never_reaches_the_cdn(hub: Hub, content: bytes, tmp_path: Path, repo: str) -> None:
    got = hf_hub_download(repo, WEIGHTS, endpoint=hub.url, local_dir=tmp_path, token=TOKEN)
    assert Path(got).read_bytes() == content
    counters = hub.counters()
    assert set(counters["hub"]["authorization"]) == {f"Bearer {TOKEN}"}
    assert counters["cdn"]["authorization"] == {}


def test_an_unknown_token_is_refused_even_by_a_public_repository(hub: Hub) -> None:
    with pytest.raises(HfHubHTTPError, match="Invalid credentials in Authorization header") as caught:
        metadata(hub, MODEL, WEIGHTS, token="hf_expired")
    assert caught.value.response.status_code == 401
    assert not isinstance(caught.value, RepositoryNotFoundError)


@pytest.mark.parametrize("repo", ["lab/private", "lab/nonexistent"])
@pytest.mark.parametrize(("token", "status"), [(None, 401), (STRANGER, 404)])
def test_a_private_repository_looks_nonexistent(hub: Hub, repo: str, token: str | None, status: int) -> None:
    with pytest.raises(RepositoryNotFoundError) as caught:
        HfApi(endpoint=hub.url, token=token or False).model_info(repo)
    assert caught.value.response.status_code == status
    with pytest.raises(RepositoryNotFoundError):
        metadata(hub, repo, WEIGHTS, token=token)


def test_a_revision_or_a_file_that_is_not_there_says_which(hub: Hub) -> None:
    with pytest.raises(RevisionNotFoundError):
        metadata(hub, MODEL, WEIGHTS, revision="v9")
    with pytest.raises(RevisionNotFoundError):
        HfApi(endpoint=hub.url, token=False).model_info(MODEL, revision="f" * 40)
    with pytest.raises(RemoteEntryNotFoundError):
        metadata(hub, MODEL, "nothing.gguf")
    with pytest.raises(RemoteEntryNotFoundError):
        metadata(hub, MODEL, WEIGHTS, revision="v1")


def test_a_renamed_repository_redirects_to_its_new_name(hub: Hub) -> None:
    assert HfApi(endpoint=hub.url, token=False).model_info("lab/old", revision="main").id == MODEL
    assert metadata(hub, "lab/old", WEIGHTS).size == SIZE
    assert requests.head(f"{hub.url}/lab/old/resolve/main/{WEIGHTS}", timeout=10).status_code == 307


def test_the_same_files_make_the_same_commit_ids(hub: Hub, tmp_path: Path) -> None:
    with sample_hub(tmp_path) as again:
        commits = [HfApi(endpoint=each.url, token=False).model_info(MODEL).sha for each in (hub, again)]
    assert commits[0] == commits[1]
