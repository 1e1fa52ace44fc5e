"""The model in the lab: a table of everything that goes wrong on the way, each row a real transfer by a real deploy;
whatever happens, the old model goes on serving."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.lab import models, small_gguf
from tests.lab.deploying import deploy
from tests.lab.hub import STRANGER, TOKEN
from tests.lab.model_lab import ROOT, SMALL, Bench, as_dev

pytestmark = pytest.mark.timeout(900)

Faults = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class Row:
    """Faults, and what comes of them. The first request to each of Hub and CDN is the header's, from the controller."""

    name: str
    faults: Faults = field(default_factory=list)
    code: int = 0
    says: str = ""
    waste: int = 400_000  # bytes beyond the file and its header
    data: tuple[tuple[str, Any], ...] = ()


HOSTS_OWN = {"path": "*/resolve/*", "skip": 1}
ROWS = [
    Row("nothing"),
    Row("dropped-again-and-again", [("drop", {"at": 600_000, "times": 4})], waste=1_500_000),
    # Slow for long enough that a line of progress comes from the middle, also where it began a second late.
    Row("slow-body", [("slow", {"rate": 200_000, "times": None, "skip": 1})], says="B/s, 0:0"),
    Row("stalled-for-a-while", [("stall", {"at": 700_000, "seconds": 3, "skip": 1})]),
    Row("too-many-requests", [("status", {"status": 429, "retry_after": "2", **HOSTS_OWN})]),
    Row(
        "too-many-of-ours",
        [("status", {"status": 429, "retry_after": "2", "path": "/api/*"})],
        says="asked again in 2 s",
    ),
    Row("server-errors", [("status", {"status": 500, "times": 2, **HOSTS_OWN})]),
    Row("wrong-body-once", [("corrupt", {"at": 1_500_000, "skip": 1})], waste=2_500_000),
    Row(
        "wrong-body",
        [("corrupt", {"at": 1_500_000, "times": None})],
        1,
        "; it came twice so, and was moved to",
        2_500_000,
    ),
    Row(
        "short-body",
        [("short", {"at": 1_600_000, "times": None})],
        1,
        "has 1600000 bytes of small-F32.gguf and not",
        5_000_000,
    ),
    Row("range-ignored", [("drop", {"at": 900_000}), ("no-range", {"times": None})], waste=4_000_000),
    Row("expired-redirect", [("expired", {"skip": 1})]),
    Row(
        "login-page",
        [("portal", {"host": "cdn", "times": None, "skip": 1})],
        1,
        "is there a login page in this network?",
    ),
    Row("rate-limited", data=(("download_rate_max", "4M"),)),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_each_trouble_on_the_way_ends_in_the_right_file_or_the_right_sentence(bench: Bench, row: Row) -> None:
    repo = bench.repo(row.name)
    for kind, details in row.faults:
        bench.hub.fault(kind, **details)
    run = bench.run(model_repo=repo.name, **dict(row.data))
    assert run.code == row.code, run.text
    assert row.says in run.text
    assert "Traceback" not in run.text
    size = repo.commits[repo.branches["main"]][SMALL].size
    assert bench.sent() <= size + min(size, 1 << 20) + row.waste
    if row.code == 0:
        bench.right(repo)
        return
    assert re.match(rf"paddock: one: download {SMALL}: ", run.last_words[-1])
    assert SMALL not in bench.on_host(row.name)
    bench.hub.reset()
    assert bench.run(model_repo=repo.name).code == 0
    bench.right(repo)


def test_what_moves_under_main_is_not_followed_while_the_lock_holds(bench: Bench) -> None:
    repo = bench.repo("moving")
    first = repo.branches["main"]
    assert bench.run(model_repo=repo.name).code == 0
    other = small_gguf.write(bench.folder / "moved.gguf", fill=7)
    moved = repo.commit({SMALL: other})
    bench.hub.reset()
    run = bench.run(model_repo=repo.name)
    assert run.code == 0
    assert bench.hub.counters()["log"] == [], "the lock holds and the model is there: nobody is asked"
    assert as_dev(bench.host, f"ls {ROOT}/paddock--moving") == first[:12] != moved[:12]


def test_a_repository_that_was_renamed_is_found(bench: Bench) -> None:
    run = bench.run(model_repo="paddock/old-moe", model_file=models.TINY_MOE_FILE)
    assert run.code == 0, run.text
    assert models.TINY_MOE_FILE in bench.on_host("old-moe")


def test_parts_in_a_subfolder_come_together_or_not_at_all(bench: Bench) -> None:
    parts = small_gguf.shards(bench.folder / "parts", "big-F32")
    files: dict[str, Path | bytes] = {f"F32/{name}": path for name, path in parts.items()}
    torn, whole = bench.repo("torn", dict(list(files.items())[:2])), bench.repo("parts", files)
    run = bench.run(model_repo=torn.name, model_file="F32")
    assert run.code == 1
    assert run.last_words[-1].endswith(
        "paddock/torn at main has 2 of the 3 parts of this model; it lacks F32/big-F32-00003-of-00003.gguf"
    )
    assert bench.on_host("torn") == []
    assert bench.run(model_repo=whole.name, model_file="F32").code == 0
    bench.right(whole, *files)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"<!DOCTYPE html>" * 100_000, "is not a GGUF: it does not begin like one"),
        (b"GGUF" + b"\1\0\0\0" + bytes(1_000_000), "is a GGUF of version 1, and llama.cpp reads 2 and 3"),
        (None, "is cut off: its tensor table needs"),
    ],
)
def test_a_file_that_is_no_model_is_refused_before_it_is_downloaded(
    bench: Bench, content: bytes | None, sentence: str
) -> None:
    name = f"no-model-{len(sentence)}"
    path = bench.folder / f"{name}.gguf"
    path.write_bytes(content or small_gguf.write(bench.folder / "cut.gguf").read_bytes()[:-1000])
    repo = bench.repo(name, {SMALL: path})
    run = bench.run(model_repo=repo.name)
    assert run.code == 1
    assert f"{SMALL} in {repo.name} {sentence}" in run.last_words[-1]
    assert {entry["user_agent"].split("/")[0] for entry in bench.hub.counters()["log"]} & {"curl"} == set()
    assert bench.on_host(name) == []


@pytest.mark.parametrize(
    ("token", "named", "code", "sentence"),
    [
        ("", False, 1, "paddock/locked is gated: accept its conditions on"),
        (TOKEN, False, 1, "and set hub_token_for="),
        (STRANGER, True, 1, "and the account of this machine's token may not read it"),
        ("hf_unknown", True, 1, "refuses this machine's token (401)"),
        (TOKEN, True, 0, "serving"),
    ],
)
def test_a_gated_repository_needs_the_right_token_for_a_hub_that_is_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, token: str, named: bool, code: int, sentence: str
) -> None:
    repo = bench.repo("locked", gated=True)
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    data = {"hub_token_for": f"http://{bench.lab.gateway}:8010"} if named else {}
    run = bench.run(model_repo=repo.name, **data)
    assert run.code == code, run.text
    assert sentence in run.text
    assert not token or token not in run.text
    assert bench.hub.counters()["cdn"]["authorization"] == {}
    if not named:
        assert bench.hub.counters()["hub"]["authorization"] == {}
    if code == 0:
        bench.right(repo)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (f"chmod 555 {ROOT}", f"chmod 755 {ROOT}", f"cannot be written by dev, and {SMALL} is to be downloaded to it"),
        (
            f"mount -t tmpfs -o size=4g none {ROOT}",
            f"umount {ROOT}",
            "is in memory (tmpfs), and a model there would take",
        ),
        (f"mount -o bind,ro {ROOT} {ROOT}", f"umount {ROOT}", "is on a file system that is mounted read-only by dev"),
    ],
)
def test_a_place_that_will_not_do_is_told_before_anything_is_downloaded(
    bench: Bench, before: str, after: str, sentence: str
) -> None:
    repo = bench.repo(f"place-{len(before)}")
    bench.host.sh(before)
    try:
        run = bench.run(model_repo=repo.name)
    finally:
        bench.host.sh(after)
    assert run.code == 1
    assert sentence in run.last_words[-1]


def test_a_file_of_somebody_elses_server_is_pinned_by_its_sum(bench: Bench) -> None:
    repo = bench.repo("anywhere")
    commit = repo.branches["main"]
    file = repo.commits[commit][SMALL]
    url = f"http://{bench.lab.gateway}:8010/{repo.name}/resolve/{commit}/{SMALL}?key=sesame"
    data = {"model_repo": None, "model_file": None, "model_url": url}
    run = bench.run("-v", **data, model_sha256=file.sha256)
    assert run.code == 0, run.text
    assert "sesame" not in run.text
    [at] = as_dev(bench.host, f"ls {ROOT}/url/{file.sha256[:12]}/{SMALL}").split()
    assert bench.host.sh(f"sha256sum {at}").stdout.split()[0] == file.sha256
    run = bench.run(**data, model_sha256="d" * 64)
    assert run.code == 1
    assert f"has sha256 {file.sha256} and not {'d' * 64}; it came twice so" in run.last_words[-1]


def test_a_header_tells_what_the_service_cannot_have_before_anything_is_downloaded(bench: Bench) -> None:
    repo = bench.repo("too-short")
    data = {"model_repo": repo.name, "context": 65536}
    dry = deploy(bench.lab, bench.write(**{**data, "context": 4096}), "--dry")
    assert f"download {SMALL} from {repo.name} (1.7 MB): it is not on the host" in dry.err
    assert (
        "its header says: qwen3moe, 4 layers, 8 experts, 2 used, 0.4 MB of experts a layer, 0.1 MB of attention"
        in dry.err
    )
    run = deploy(bench.lab, bench.write(**data), "-y")
    assert run.code == 1
    assert f"context=65536 is more than the 40960 tokens that {SMALL} was trained for" in run.last_words[-1]
    assert bench.on_host("too-short") == []


def test_asked_to_verify_every_byte_is_read_and_what_is_damaged_is_repaired(bench: Bench) -> None:
    repo = bench.repo("damaged")
    inventory = bench.write(model_repo=repo.name)
    assert bench.run(model_repo=repo.name).code == 0
    at = as_dev(bench.host, f"ls {ROOT}/paddock--damaged/*/{SMALL}")
    damage = (
        f't=$(stat -c %y {at}); printf x | dd of={at} bs=1 seek=900000 conv=notrunc status=none; touch -d "$t" {at}'
    )
    as_dev(bench.host, damage)
    bench.hub.reset()
    assert bench.run(model_repo=repo.name).code == 0
    assert bench.hub.counters()["log"] == [], "same size and time: nothing is read again"
    run = deploy(bench.lab, inventory, "-y", to="roles.model.verify")
    assert run.code == 0, run.text
    assert f"read {SMALL} again and compare it with its sha256" in run.text
    bench.right(repo)
    again = deploy(bench.lab, inventory, "-y", to="roles.model.verify")
    assert again.code == 0
    assert bench.sent() == repo.commits[repo.branches["main"]][SMALL].size


def test_models_that_nothing_refers_to_are_removed_beyond_those_that_are_kept(bench: Bench) -> None:
    lock = bench.folder / "inventory.lock.yml"
    for name in ("another", "one-more"):
        assert bench.run(model_repo=bench.repo(name).name).code == 0
    kept = lock.read_text()
    as_dev(bench.host, f"echo mine >{ROOT}/paddock--one-more/notes.txt")
    before = set(as_dev(bench.host, f"ls {ROOT}").split())
    repo = bench.repo("the-last")
    lock.unlink()
    data = {"model_repo": repo.name, "model_keep": 1}
    inventory = bench.write(**data)
    run = deploy(bench.lab, inventory, "-y", "--data", "only=model")
    assert run.code == 0, run.text
    # What serves is named by the unit; everything else was named by the lock alone.
    assert as_dev(bench.host, f"ls {ROOT}").split() == ["paddock--one-more", "paddock--the-last", "paddock--tiny-moe"]
    assert as_dev(bench.host, f"ls {ROOT}/paddock--one-more") == "notes.txt"
    assert {"paddock--another", "paddock--one-more"} < before
    assert re.search(
        r"remove the model paddock--one-more/\w{12} \(0.00 GB\): no unit, process or lock entry names it", run.text
    )
    assert deploy(bench.lab, inventory, "--dry", "--data", "only=model").text.count("remove the model") == 0
    lock.write_text(kept)
