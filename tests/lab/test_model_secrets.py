"""A token and a signed link are nowhere but where they must be: in no output of any mode, no process, no file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.lab.hub import TOKEN
from tests.lab.model_lab import ROOT, Bench, as_dev
from tests.lab.test_users import Watch

pytestmark = pytest.mark.timeout(900)

LINK = "Key-Pair-Id="  # in every link that the CDN takes
PASSWORD = "not-for-the-hub"  # in ~/.netrc
MODES = ["-v", "-vv", "-vvv", "--debug", "--debug-all", "--diff", "--json"]


@pytest.fixture
def named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The settings of a gated model; the token is where `hf auth login` leaves it, and in no environment."""
    store = bench.folder / "store"
    store.mkdir(exist_ok=True)
    (store / "token").write_text(TOKEN)
    monkeypatch.setenv("HF_HOME", str(store))
    (store / "netrc").write_text(f"default login me password {PASSWORD}\n")
    monkeypatch.setenv("NETRC", str(store / "netrc"))
    repo = bench.repo("secret", gated=True)
    return {"model_repo": repo.name, "hub_token_for": f"http://{bench.lab.gateway}:8010"}


def test_token_and_link_are_in_no_output_no_process_and_no_file(bench: Bench, named: dict[str, object]) -> None:
    watches = [Watch(TOKEN), Watch(LINK)]
    for watch in watches:
        watch.start()
    for mode in MODES:
        # Nothing is known, so that this machine asks the Hub and reads the header too.
        as_dev(bench.host, f"rm -rf {ROOT}/paddock--secret")
        (bench.folder / "inventory.lock.yml").unlink(missing_ok=True)
        shutil.rmtree(bench.lab.run_dir / "cache/paddock", ignore_errors=True)
        # Broken off, refused and slow on the way: the words about that must not hold them either.
        bench.hub.fault("drop", at=500_000, skip=1)
        bench.hub.fault("expired", skip=2)
        bench.hub.fault("slow", rate=2_000_000, times=None)
        run = bench.run(mode, **named)
        assert run.code == 0, run.text
        assert TOKEN not in run.text, mode
        assert LINK not in run.text, mode
        counters = bench.hub.counters()
        here = [entry for entry in counters["log"] if not entry["user_agent"].startswith("curl/")]
        assert {entry["host"] for entry in here} == {"hub", "cdn"}, mode
        assert [entry for entry in here if entry["path"].startswith("/api/")], mode
        assert set(counters["hub"]["authorization"]) == {f"Bearer {TOKEN}"}, mode
        assert counters["cdn"]["authorization"] == {}, mode
        bench.hub.reset()
    for watch in watches:
        watch.over.set()
        watch.join()
        assert watch.samples > 200
        assert watch.found == []
    bench.right(bench.hub.repo("paddock/secret"))
    for secret in (TOKEN, LINK):
        # Put together over there: the search must not find itself.
        half = len(secret) // 2
        places = "/etc /home /opt /root /run /tmp /usr/local /var"
        search = (
            f"p={secret[:half]}; p=${{p}}{secret[half:]}; grep -rlsFe $p {places}; journalctl --no-pager | grep -cF $p"
        )
        assert bench.host.sh(search, check=False, timeout=120).stdout.split() == ["0"], secret
        kept = [*bench.folder.glob("*.yml"), *Path(bench.lab.run_dir / "cache").rglob("*")]
        assert len(kept) > 3
        assert [path for path in kept if path.is_file() and secret.encode() in path.read_bytes()] == []


def test_a_refusal_on_the_way_names_neither(bench: Bench, named: dict[str, object]) -> None:
    as_dev(bench.host, f"rm -rf {ROOT}/paddock--secret")
    bench.hub.fault("status", host="hub", path="*/resolve/*", status=403, skip=0, times=None)
    run = bench.run("-vvv", **named)
    assert run.code == 1
    assert "refuses paddock/secret (403)" in run.last_words[-1] or "answered 403" in run.last_words[-1]
    assert TOKEN not in run.text
    assert LINK not in run.text
