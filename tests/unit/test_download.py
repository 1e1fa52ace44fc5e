"""Every way in which a download goes wrong, each with a real transfer: the right file, or the right sentence."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from roles.model.transfer_program import Again, Part, transfer
from tests.lab.hub import STRANGER, TOKEN
from tests.lab.hub.repo import Repo
from tests.lab.hub.sample import NESTED, SIZE, WEIGHTS
from tests.unit import downloading, local, pinning
from tests.unit.downloading import Host, good

running, host = pinning.running, downloading.host


@pytest.mark.parametrize(
    ("faults", "said", "overhead"),
    [
        ([], "", 0),
        ([("drop", {"at": 700_000, "times": 3})], "curl: ", 300_000),
        ([("status", {"status": 429, "host": "hub", "retry_after": "1"})], "lab/model answered 429, again in 1 s", 0),
        ([("status", {"status": 429, "host": "cdn"})], "the server behind lab/model answered 429", 200),
        ([("status", {"status": 500, "times": 2})], "lab/model answered 500", 0),
        ([("status", {"status": 503, "host": "cdn", "times": 2})], "answered 503", 200),
        ([("hangup", {"host": "hub"})], "curl: Empty reply from server", 0),
        ([("expired", {})], "the link to the file has expired (403)", 200),
        ([("portal", {"host": "hub"})], "a web page came and not the file", 100),
        ([("portal", {"host": "cdn"})], "a web page came and not the file", 100),
        ([("portal", {"endless": True})], "a web page came and not the file", 200),
        (
            [("portal", {"endless": True, "content_type": "text/plain"})],
            f"something else came than {WEIGHTS}, of no known length",
            200,
        ),
        ([("status", {"status": 429, "host": "hub", "rate_limit": '"resolvers";r=0;t=0'})], "429, again in 1 s", 0),
        (
            [("drop", {"at": 900_000}), ("status", {"status": 416, "skip": 2})],
            f"rest of {WEIGHTS} (416), again",
            300_000,
        ),
        ([("short", {"at": 1000})], f"has 1000 bytes of {WEIGHTS} and not {SIZE}", 1000),
        ([("stall", {"at": 500_000, "seconds": 30})], "nothing came for 1 s after 0.5 MB, again", 300_000),
        ([("corrupt", {"at": 70_000})], "; it is downloaded once more", SIZE),
        ([("drop", {"at": 900_000}), ("no-range", {"skip": 1})], "sends the whole file", 2_500_000),
        ([("drop", {"at": 900_000}), ("no-range", {"skip": 1, "times": 2})], "sends the whole file", 4_500_000),
        ([("slow", {"rate": 3_000_000})], "", 0),
    ],
)
def test_what_goes_wrong_for_a_while_is_told_and_the_file_comes(
    host: Host, faults: list[tuple[str, dict[str, Any]]], said: str, overhead: int
) -> None:
    for kind, details in faults:
        host.hub.fault(kind, **details)
    code, lines = host.run()
    assert code == 0, lines
    assert said in "\n".join(lines)
    good(host)
    assert host.sent() - SIZE <= overhead


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (("status", {"status": 500}), "cannot be downloaded: lab/model answered 500 (4 times)"),
        (("status", {"status": 404, "host": "hub"}), f"lab/model answered 404 for {WEIGHTS}"),
        (("status", {"status": 403, "host": "cdn"}), "cannot be downloaded: the link to the file has expired (403)"),
        (("portal", {}), "cannot be downloaded: a web page came and not the file; is there a login page in"),
        (
            ("short", {"at": 1000}),
            f"has 1000 bytes of {WEIGHTS} and not {SIZE}, as its entry in the lock says (3 times)",
        ),
        (("hangup", {}), "cannot be downloaded: curl: Empty reply from server (4 times)"),
        (("corrupt", {"at": 70_000}), "; it came twice so, and was moved to "),
    ],
)
def test_what_goes_on_going_wrong_is_one_sentence_and_no_file_has_the_models_name(
    host: Host, fault: tuple[str, dict[str, Any]], sentence: str
) -> None:
    host.hub.fault(fault[0], times=None, **fault[1])
    code, lines = host.run()
    assert code == 1
    assert lines[-1].startswith("paddock: ")
    assert sentence in lines[-1]
    assert not host.path().exists()
    assert not host.path(f"{WEIGHTS}.json").exists()


def test_a_wrong_body_is_told_by_both_sums_and_kept_aside(host: Host) -> None:
    host.hub.fault("corrupt", at=70_000, times=None)
    _, lines = host.run()
    assert f" and not {host.pinned().sha256}; it came twice so" in lines[-1]
    assert host.path(f"{WEIGHTS}.bad").stat().st_size == SIZE
    assert host.sent() == 2 * SIZE
    host.hub.reset()
    assert host.run()[0] == 0
    good(host)


def test_several_files_come_one_after_the_other_and_each_is_verified(host: Host) -> None:
    host.files = (WEIGHTS, NESTED)
    host.hub.fault("drop", at=1_000_000, times=2)
    assert host.run()[0] == 0
    good(host, NESTED)
    assert host.path().read_bytes() == host.path(NESTED).read_bytes()
    assert host.sent() == 2 * SIZE


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ("", "wants a token (401)"),
        (STRANGER, "refused this machine's token (403)"),
        ("hf_x", "refused this machine's token"),
    ],
)
def test_a_gated_repository_wants_the_right_token(host: Host, token: str, sentence: str) -> None:
    host.repo, host.token = "lab/gated", token
    code, lines = host.run()
    assert code == 1
    assert sentence in lines[-1]
    assert token == "" or token not in "\n".join(lines)


def test_the_token_goes_to_the_hub_alone_and_is_nowhere_on_the_disk(host: Host) -> None:
    host.repo, host.token = "lab/gated", TOKEN
    host.hub.fault("drop", at=1_000_000)
    assert host.run()[0] == 0
    good(host)
    assert host.hub.counters()["hub"]["authorization"] == {f"Bearer {TOKEN}": 2}
    assert host.hub.counters()["cdn"]["authorization"] == {}
    for path in host.home.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(("scheme", "followed"), [("https", "=https"), ("http", "=http,https")])
def test_https_is_left_for_nothing_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, followed: str
) -> None:
    """A curl that only says how it was called: the lab's Hub speaks no https."""
    monkeypatch.setenv("PATH", local.tool(tmp_path / "bin", "curl", f'printf "%s\\n" "$@" >{tmp_path}/called\n'))
    job = {"rate": 0, "stall": 1, "source": "host.test", "token": False}
    file, secret = {"number": 0, "name": "a.gguf", "size": 10}, {"token": "", "urls": [f"{scheme}://host.test/a.gguf"]}
    with pytest.raises(Again):
        transfer(Part(str(tmp_path / "a.part")), file, job, secret)
    called = (tmp_path / "called").read_text().splitlines()
    assert called[called.index("--proto-redir") + 1] == followed


def test_a_rate_is_kept(host: Host) -> None:
    # curl lets megabytes pass before it measures, the more the busier the machine is: half of the file, say.
    big = host.home / "big.gguf"
    big.write_bytes(b"GGUF" + bytes(20_000_000))
    repo = Repo("lab/big")
    repo.commit({"big.gguf": big})
    host.hub.add(repo)
    host.repo, host.files, host.rate = "lab/big", ("big.gguf",), 5_000_000
    began = time.monotonic()
    assert host.run()[0] == 0
    assert time.monotonic() - began > 1.0, "it takes a fifth of that where nothing holds it back"
