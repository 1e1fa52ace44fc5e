"""The benchmark on real servers: whole runs, killed ones, and circumstances that make figures doubtful."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roles.benchmark.record import Result, history
from tests.lab.common import Lab
from tests.lab.deploying import Run, deploy, start, target, write_inventory
from tests.lab.host import LabHost, boot
from tests.lab.hub.server import Hub
from tests.lab.inventory import GEMMA
from tests.lab.pressed import outer_pid, page_out, swap
from tests.lab.test_main_job import UNIT, as_dev, complete, show

pytestmark = pytest.mark.timeout(900)

MOE: dict[str, Any] = {"benchmark_depths": [0, 512, 1024], "benchmark_tokens": 8, "benchmark_repetitions": 2}
REAL: dict[str, Any] = {**GEMMA, "benchmark_tokens": 8}
FULL = "roles.benchmark.full"
PART = "$HOME/.local/share/paddock/benchmarks.jsonl.part"


@pytest.fixture(scope="module")
def host(converged_image: Path, hub: Hub, deploy_lab: Lab) -> LabHost:
    return boot("meter", converged_image, lab=deploy_lab)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    """The folder of this host's inventory."""
    place = tmp_path_factory.mktemp("meter")
    (place / "inventory.lock.yml").write_text((folder / "inventory.lock.yml").read_text())
    return place


def results(host: LabHost) -> tuple[Result, ...]:
    return history(as_dev(host, "cat ~/.local/share/paddock/benchmarks.jsonl").splitlines())


def right(run: Run) -> Run:
    assert run.code == 0, run.text
    return run


def wait_on(host: LabHost, condition: str, seconds: int = 60) -> None:
    as_dev(host, f"for i in $(seq {seconds * 10}); do {condition} && exit; sleep 0.1; done; exit 1", seconds + 10)


def cut_off(host: LabHost, lab: Lab, inventory: Path, when: str) -> None:
    """A full run whose unit is killed, whole, at a moment."""
    process = start(lab, inventory, "-y", to=FULL)
    wait_on(host, when)
    as_dev(host, "systemctl --user kill -s KILL paddock-benchmark")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, out + err
    assert "measure llama-server: it was killed (signal)" in err


def test_a_killed_full_run_resumes_and_costs_little(host: LabHost, deploy_lab: Lab, place: Path) -> None:
    right(deploy(deploy_lab, write_inventory(place, [target("meter", benchmark_depths=[])]), "-y"))
    pid, before = show(host, "MainPID"), len(results(host))
    inventory = write_inventory(place, [target("meter", **MOE)])
    cut_off(host, deploy_lab, inventory, f"""grep -qs '"n_depth": 512' {PART}""")
    as_dev(host, f"systemctl --user set-property --runtime {UNIT} CPUQuota=180%")
    try:
        run = right(deploy(deploy_lab, inventory, "-y", to=FULL))
    finally:
        as_dev(host, f"systemctl --user set-property --runtime {UNIT} CPUQuota=")
    assert show(host, "MainPID") == pid, "a benchmark is no reason to restart a service"
    assert len(results(host)) == before + 1
    result = results(host)[-1]
    assert (result.kind, result.interrupted, result.n_cpu_moe) == ("full", 1, 2)
    assert [row.n_depth for row in result.rows] == [0, 512, 1024]
    assert [len(row.tg.samples_ts) for row in result.rows] == [2, 2, 2]
    for row in result.rows[1:]:
        assert row.pp
        assert row.pp_at
        assert row.turn
        assert min(row.turn.cache_n) >= row.n_depth
    assert "cpu_quota" in [flag.flag for flag in result.flags]
    assert "cpu_quota: the unit may use 180 % of one processor (CPUQuota)" in " ".join(run.err.split())
    assert result.resources.samples > 1.8 * result.duration, "sampled twice a second, on a busy machine"
    assert result.runner["peak_bytes"] < 50e6
    assert result.runner["cpu_seconds"] < 0.15 + 0.01 * result.runner["seconds"], "1 %, beside its start"


def test_llama_bench_leaves_the_service_running_also_when_it_is_killed(
    host: LabHost, deploy_lab: Lab, place: Path
) -> None:
    data = {**MOE, "benchmark_depths": [0, 256], "benchmark_repetitions": 1, "benchmark_llama_bench": True}
    inventory = write_inventory(place, [target("meter", **data)])
    pid = show(host, "MainPID")
    cut_off(host, deploy_lab, inventory, "pgrep -x llama-bench >/dev/null")
    wait_on(host, f"systemctl --user is-active -q {UNIT}")
    complete(host)
    assert show(host, "MainPID") != pid
    right(deploy(deploy_lab, inventory, "-y", to=FULL))
    complete(host)
    result = results(host)[-1]
    assert (result.interrupted, result.left_out) == (1, ())
    told = [(row["n_prompt"], row["n_gen"], row["n_depth"]) for row in result.llama_bench]
    assert sorted(told) == [(0, 8, 0), (0, 8, 256), (256, 0, 0), (512, 0, 0), (512, 0, 256)]
    assert {row["build_commit"] for row in result.llama_bench} == {result.build_commit}
    assert {row["type_k"] for row in result.llama_bench} == {result.type_k} == {"q4_0"}
    assert {row["n_cpu_moe"] for row in result.llama_bench} == {result.n_cpu_moe}


def test_a_real_model_with_a_sliding_window_is_measured_at_a_deploy_and_in_full(
    host: LabHost, deploy_lab: Lab, place: Path
) -> None:
    inventory = write_inventory(place, [target("meter", **REAL)])
    smoke = right(deploy(deploy_lab, inventory, "-y"))
    right(deploy(deploy_lab, inventory, "-y", to=FULL))
    first, second = results(host)[-2:]
    assert (first.kind, second.kind) == ("smoke", "full")
    told = " ".join(smoke.err.split())
    # On cores that others use too, two minutes may not do for all of it; then it says so.
    assert len(first.rows) + len(first.left_out) == 3
    assert all(f"left out {sentence}" in told for sentence in first.left_out)
    assert ("1k pp / tg" in told) == (1024 in [row.n_depth for row in first.rows])
    assert first.duration < 120
    assert [row.n_depth for row in second.rows] == [0, 256, 1024]
    for result in (first, second):
        assert all(bool(row.turn and row.pp_at) == (row.n_depth > 0) for row in result.rows)
        assert "no_prompt_cache" not in [flag.flag for flag in result.flags]
        assert result.model_type.startswith("gemma3")
        assert result.resources.peak_ram_bytes > 100e6
    again = right(deploy(deploy_lab, inventory, "-y"))
    assert "measure at" not in again.err


def test_a_server_in_swap_is_flagged(host: LabHost, deploy_lab: Lab, place: Path, tmp_path: Path) -> None:
    data = {**REAL, "benchmark_depths": [0], "benchmark_repetitions": 1}
    inventory = write_inventory(place, [target("meter", **data)])
    with swap(tmp_path):
        assert page_out(outer_pid(host, int(show(host, "MainPID")))) > 1 << 20
        right(deploy(deploy_lab, inventory, "-y", to=FULL))
    flags = [flag.flag for flag in results(host)[-1].flags]
    busy = {"other_cpu_work", "wall_clock"}
    assert [flag for flag in flags if flag not in busy] == ["swap"], "what else this machine does is its own"
