"""250 MB that come whatever is killed, cut off or full on the way, with hardly a byte twice; counted by the Hub."""

from __future__ import annotations

import os
import re

import pytest

from tests.lab import models
from tests.lab.model_lab import GEMMA, PART, ROOT, Bench, as_dev, part_size, series, small_disk

pytestmark = pytest.mark.timeout(900)

SOAK = os.environ.get("PADDOCK_SOAK") == "1"


def test_a_connection_that_drops_every_20_megabytes_brings_250(bench: Bench) -> None:
    as_dev(bench.host, f"rm -rf {ROOT}/paddock--gemma-270m")
    bench.hub.fault("drop", at=20_000_000, times=None)
    run = bench.run(**GEMMA)
    assert run.code == 0, run.text
    repo = bench.hub.repo("paddock/gemma-270m")
    bench.right(repo, models.GEMMA_FILE)
    size = repo.commits[repo.branches["main"]][models.GEMMA_FILE].size
    assert bench.sent() < size * 1.1 + 13_000_000
    assert re.search(rf"{models.GEMMA_FILE}: \d+ MB of 253 MB, \d+ %, ", run.text)


@pytest.mark.parametrize("what", ["controller", "sshd", "curl", "unit"])
def test_killed_anywhere_the_rerun_attaches_or_resumes(bench: Bench, what: str) -> None:
    size = models.cached_gemma().stat().st_size
    points = 10 if SOAK else 2
    rate = 5_000_000 if SOAK else 20_000_000
    sent, kills, runs = series(bench, what, points, rate, seed=1)
    print(f"{what}: {sent / size:.4f} times the file on the wire, {kills} kills, {runs} runs")
    assert kills == points
    assert sent <= size * 1.1 + kills * 1_000_000


def test_a_disk_that_fills_up_at_60_percent_is_told_and_what_has_come_is_kept(bench: Bench) -> None:
    size = models.cached_gemma().stat().st_size
    with small_disk(bench, 1_700_000_000):
        bench.hub.fault("slow", rate=25_000_000, times=None)
        process = bench.start(**GEMMA)
        # All on the host: each second is a tenth of the model.
        wait = f"until test $(stat -c %s {PART} 2>/dev/null || echo 0) -ge {size * 3 // 10}; do sleep 0.05; done"
        left = f"$(($(df --output=avail -B1 {ROOT} | tail -n 1) - {size * 3 // 10}))"
        bench.host.sh(f"{wait}; fallocate -l {left} {ROOT}/filler", timeout=120)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 1, out + err
        last = err.strip().splitlines()[-1]
        assert f"download {models.GEMMA_FILE}: the disk is full: {ROOT}/paddock--gemma-270m/" in last
        assert "; what has come is kept, and the next run goes on with it" in last
        came = part_size(bench.host)
        assert 0.4 * size < came < 0.8 * size
        again = bench.run(**GEMMA)
        assert again.code == 1
        assert "GB free; it takes 0.1 GB for the model, and 1.1 GB to spare" in again.last_words[-1]
        bench.host.sh(f"rm {ROOT}/filler")
        bench.hub.reset()
        assert bench.run(**GEMMA).code == 0
        bench.right(bench.hub.repo("paddock/gemma-270m"), models.GEMMA_FILE)
        assert bench.sent() <= size - came + 1_000_000
