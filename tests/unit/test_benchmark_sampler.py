"""What the sampler reads: NVIDIA's long answers, /proc, cgroups; and that no series grows beyond what a chart shows."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.benchmark import sampler_program as sampler
from roles.benchmark import watch_program
from roles.benchmark.sampler_program import POINTS, RPC_SERVERS, Gpu, Process, Series, busy, read, rpc_servers
from roles.benchmark.watch_program import Watch
from tests.unit import fake_systemd, local, measuring

# A stand-in, as there is no GPU here: it answers as `nvidia-smi --loop-ms` does, a row for each card or process.
SMI = """case $* in
*--query-gpu*clocks_throttle*) {card} ;;
*--query-gpu*) while :; do echo 'GPU-1, 1500, 60, 40.5, 4, 8, 6000'; sleep 0.05; done ;;
*--query-compute*) while :; do
    echo 'GPU-1, 4711, 5342, /opt/llama, server'
    echo 'GPU-2, 9, [N/A], /usr/bin/x'
    sleep 0.05; done ;;
esac
"""
CARDS = """while :; do
echo 'GPU-2, 300, 40, [N/A], 1, 1, 500, 0x0000000000000001'
echo 'GPU-1, 1800, 71, 58.25, 4, 8, 6100, 0x0000000000000040'
sleep 0.05; done"""


class Other(Process):
    """A process of another number than any here."""

    def __init__(self) -> None:
        self.pid, self.folder, self.limit, self.quota = 4711, "/none", None, None
        self.workers = [self.pid]


def seen(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, card: str = CARDS) -> None:
    monkeypatch.setenv("PATH", local.tool(tmp_path / "bin", "nvidia-smi", SMI.replace("{card}", card)))


def test_vram_is_the_process_own_and_the_rest_is_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, monkeypatch)
    watch = Watch(Other(), {}, lambda: None)
    try:
        seen(lambda: len(watch.gpu.cards) == 2 and len(watch.gpu.processes) == 2)
        assert watch.of_gpu() == {
            "vram_mib": 5342.0,
            "vram_others_mib": 6600.0 - 5342.0,
            "gpu_clock_mhz": 1800.0,
            "gpu_temperature_c": 71.0,
            "gpu_power_w": 58.25,
            "pcie_gen": 4.0,
            "pcie_width": 8.0,
        }
        assert watch.counts == {"card": 1, "reasons": {"64": 1}, "others": ["x"]}
    finally:
        watch.gpu.end()


def test_memory_that_was_taken_between_two_answers_makes_no_negative_of_the_others() -> None:
    watch = Watch(Other(), {}, lambda: None)
    watch.gpu.end()
    now = time.monotonic()
    watch.gpu.cards["GPU-1"] = (now, [1800.0, 71.0, 58.0, 4.0, 8.0, 3000.0], 0)
    watch.gpu.processes["GPU-1", 4711] = (now, 5342.0, "llama-server")
    assert watch.of_gpu()["vram_others_mib"] == 0, "a record has no place for less"


def test_every_request_is_broken_off_as_long_as_the_cap_is_near(tmp_path: Path) -> None:
    process, stopped = Other(), []
    process.folder, process.limit = str(tmp_path), 1000 << 20
    watch = Watch(process, {}, lambda: stopped.append(True))
    watch.gpu.end()
    for held in (900, 951, 960, 900):
        (tmp_path / "memory.stat").write_text(f"anon {held << 20}\n")
        watch.look()
    assert len(stopped) == 2
    assert watch.near == "llama-server held 951 of the 1000 MiB that its unit may take"


def test_an_estimate_that_has_passed_is_told_no_more() -> None:
    watch = Watch(Other(), {}, lambda: None)
    watch.gpu.end()
    assert [watch.line(left) for left in (75.0, 0.4, -30.0)] == ["the warm-up, about 1:15 left", *["the warm-up"] * 2]


def test_what_others_work_is_what_the_server_did_not(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  300 100 200 5000 900 10 20 70 50 0\ncpu0 1 2 3\n")
    tick = os.sysconf("SC_CLK_TCK")
    found = busy([os.getpid()], str(tmp_path / "stat"))
    assert found
    assert found[0] == 700 / tick
    assert 0 < found[1] < sum(os.times()[:2]) + 1
    assert busy([0, os.getpid()]) is None
    assert busy([os.getpid(), 0]) is None, "or all that an RPC server had worked would be another's from its end on"
    watch = Watch(Other(), {}, lambda: None)
    watch.gpu.end()
    for now, worked in ((0.0, (100.0, 10.0)), (10.0, (120.0, 25.0)), (20.0, None), (30.0, (200.0, 30.0))):
        watch.of_others(now, worked)
    told = {name: watch.counts[name] for name in ("watched", "worked", "others_worked")}
    assert told == {"watched": 10.0, "worked": 20.0, "others_worked": 5.0}, "a gap is not counted"


def test_an_rpc_server_on_this_host_works_for_a_server_that_has_layers_elsewhere(tmp_path: Path) -> None:
    program = tmp_path / RPC_SERVERS[0]
    program.symlink_to("/bin/sleep")  # the kernel takes a process's name from the path
    waits = [sys.executable, "-c", "import time; time.sleep(30)", "--rpc", "127.0.0.1:50052"]
    with subprocess.Popen([program, "30"]) as rpc, subprocess.Popen(waits) as server:
        try:
            seen(lambda: "--rpc" in read(f"/proc/{server.pid}/cmdline"))
            seen(lambda: read(f"/proc/{rpc.pid}/comm").strip() == RPC_SERVERS[0])
            assert rpc.pid in rpc_servers(server.pid)
            assert rpc_servers(rpc.pid) == []
        finally:
            rpc.kill()
            server.kill()


def test_an_answer_that_is_old_counts_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, monkeypatch)
    watch = Watch(Other(), {}, lambda: None)
    seen(lambda: watch.gpu.cards and watch.gpu.processes)
    watch.gpu.end()
    monkeypatch.setattr(watch_program, "FRESH", -1.0)
    assert set(watch.of_gpu().values()) == {None}


def test_a_driver_that_does_not_know_the_reasons_tells_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(
        tmp_path,
        monkeypatch,
        """echo 'Field "clocks_throttle_reasons.active" is not a valid field to query.'; exit 2""",
    )
    gpu = Gpu()
    seen(lambda: gpu.cards)
    gpu.end()
    assert gpu.cards["GPU-1"][1:] == ([1500.0, 60.0, 40.5, 4.0, 8.0, 6000.0], 0)


def test_a_host_without_nvidia_smi_has_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    watch = Watch(Other(), {}, lambda: None)
    time.sleep(0.1)
    assert set(watch.of_gpu().values()) == {None}
    watch.gpu.end()


def test_nvidia_smi_does_not_outlive_a_runner_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, monkeypatch)
    text = "import time; from roles.benchmark.sampler_program import Gpu; gpu = Gpu(); time.sleep(0.5)\n"
    text += "print(*[tool.process.pid for tool in gpu.tools], flush=True); time.sleep(60)"
    with subprocess.Popen(["python3", "-c", text], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        pids = process.stdout.readline().split()
        process.kill()
    assert len(pids) == 2
    seen(lambda: not any(alive(pid) for pid in pids))


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_process_and_its_limits_are_the_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = fake_systemd.install(tmp_path)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    measuring.prepared(made, CPUQuotaPerSecUSec="1.800000s", ControlGroup="/user.slice/a")
    process = Process("some.service", "user")
    assert (process.pid, process.limit, process.quota) == (os.getpid(), 64 << 30, "180 %")
    assert process.folder == "/sys/fs/cgroup/user.slice/a"
    measuring.prepared(made, MemoryMax="infinity", CPUQuotaPerSecUSec="500ms")
    assert (Process("some.service", "user").limit, Process("some.service", "user").quota) == (None, "50 %")
    measuring.prepared(made)
    assert Process("some.service", "user").quota is None


@pytest.mark.parametrize(("manager", "pid"), [("user", 8), ("system", 7)])
def test_where_another_account_has_a_service_of_that_name_each_measures_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: str, pid: int
) -> None:
    both = 'test "$1" = --system && echo MainPID=7 || echo MainPID=8'
    monkeypatch.setenv("PATH", local.tool(tmp_path / "bin", "systemctl", both))
    assert Process("some.service", manager).pid == pid


def test_memory_is_the_cgroups_where_it_counts_and_else_the_process_own(tmp_path: Path) -> None:
    process = Other()
    process.pid, process.folder = os.getpid(), str(tmp_path)
    own = process.memory()
    assert own["current"] is None
    assert own["refaults"] is None
    assert (own["ram"] or 0) > (own["anon"] or 0) > 1 << 20
    (tmp_path / "memory.current").write_text("9000\n")
    (tmp_path / "memory.swap.current").write_text("77\n")
    stat = {"anon": 5000, "file": 3000, "shmem": 200, "slab_unreclaimable": 10, "workingset_refault_file": 42}
    (tmp_path / "memory.stat").write_text("".join(f"{name} {value}\n" for name, value in stat.items()))
    told = process.memory()
    names = ("current", "anon", "file", "swap", "held", "refaults")
    assert [told[name] for name in names] == [9000, 5000, 3000, 77, 5210, 42]


def test_waiting_for_the_disk_is_the_units_own(tmp_path: Path) -> None:
    process = Other()
    process.folder = str(tmp_path)
    assert process.stalled() == (None, None)
    lines = "some avg10=9.00 avg60=0.00 avg300=0.00 total=99\nfull avg10=1.25 avg60=0.00 avg300=0.00 total=2500000\n"
    (tmp_path / "io.pressure").write_text(lines)
    assert process.stalled() == (1.25, 2.5)


def test_what_grew_is_counted_from_the_first_look_and_over_a_new_beginning() -> None:
    watch = Watch(Other(), {}, lambda: None)
    for total in (100.0, 110.0, None, 115.0, 3.0, 4.0):
        watch.grown("refaults", total)
    watch.gpu.end()
    assert watch.seen["refaults"] == 11


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6)), min_size=1, max_size=1200))
def test_a_series_stays_short_and_keeps_its_peak(values: list[float | None]) -> None:
    series = Series({})
    for at, value in enumerate(values):
        series.add(float(at), {"vram_mib": value, "gpu_clock_mhz": value})
    assert len(series.seconds) == len(series.values.get("vram_mib", [])) <= POINTS
    assert series.seconds == sorted(series.seconds)
    whole = values[: len(values) - len(series.waiting)]
    known = [value for value in whole if value is not None]
    kept = [value for value in series.values.get("vram_mib", []) if value is not None]
    assert max(kept, default=None) == (round(max(known), 1) if known else None)
    clocks = [value for value in series.values.get("gpu_clock_mhz", []) if value is not None]
    assert all(min(known) - 0.1 <= value <= max(known) + 0.1 for value in clocks)


def test_a_series_goes_on_where_an_interrupted_run_left_it() -> None:
    series = Series({})
    for at in range(300):
        series.add(at * 0.5, {"ram_mib": 1.0})
    again = Series({"seconds": series.seconds, "series": series.values, "stride": series.stride})
    again.add(200.0, {"ram_mib": 2.0})
    again.add(200.5, {"ram_mib": 2.0})
    assert again.values["ram_mib"][-1] == 2.0
    assert again.seconds[-1] == 200.0


def test_numbers_of_proc_and_cgroups_are_bytes() -> None:
    assert sampler.pairs("VmRSS:\t  12 kB\nName:\tx y\nanon 5\nThreads:\t3\n") == {
        "VmRSS": 12288,
        "anon": 5,
        "Threads": 3,
    }


def test_the_processors_clock_is_told_where_the_kernel_tells_it() -> None:
    told = sampler.cpu_mhz()
    assert told is None or 100 < told < 10_000
