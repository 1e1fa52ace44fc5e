"""Whether what runs is what is wanted; each reason to restart it, and each reason not to try."""

from __future__ import annotations

import re
from typing import Any

import pytest

from roles.llama_cpp.release import wanted_release
from roles.service import sandbox
from roles.service.command import UNIT
from roles.service.observe import SERVICE
from roles.service.reasons import changes
from roles.wishes import Wishes
from tests.unit import hosts, services
from tests.unit.deciding import Decide, acting, left_out, reasons, refusal, resting
from tests.unit.serving import running, shown

STRANGER = {"port_taken": True, "port_holder": {"pid": 99, "name": "nginx"}}


def test_a_unit_that_is_new_is_started() -> None:
    assert reasons(running(), hosts.converged(service=services.absent())) == (
        f"start llama-server: {UNIT} is not on this host yet"
    )


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({}, {"context": 65536}, "-c 32768 -> 65536"),
        ({}, {"context": 65536, "ubatch": 2048}, "-c 32768 -> 65536, -ub 512 -> 2048"),
        ({}, {"cache_type_k": "q4_0"}, "-ctk f16 -> q4_0"),
        ({}, {"threads": 6}, "-t absent -> 6"),
        ({"threads": 6}, {}, "-t 6 -> absent"),
        ({}, {"temperature": 0.5}, "--temp absent -> 0.5"),
        ({}, {"service_memory_max": "20G"}, "MemoryMax 10096M -> 20G, MemoryHigh 9465M -> 19200M"),
        ({}, {"service_memory_swap_max": "1G"}, "MemorySwapMax 0 -> 1G"),
        ({}, {"port": 8080}, "--port 8091 -> 8080"),
    ],
)
def test_what_changed_in_the_unit_is_the_reason(before: dict[str, Any], after: dict[str, Any], reason: str) -> None:
    seen = hosts.with_plan(hosts.wishes(**after), hosts.converged(hosts.wishes(**before)))
    assert reasons(running(**after), seen) == f"restart llama-server: {reason}"


def test_a_benchmark_of_the_former_service_is_stopped_and_told_never_killed_in_silence() -> None:
    changed = hosts.with_plan(hosts.wishes(context=65536), hosts.converged(service={"measuring": True}))
    decision = acting(running(context=65536), changed)
    assert [step.what for step in decision.steps][:2] == ["stop the benchmark", "start llama-server"]
    assert decision.reasons[-1].startswith("the benchmark under way there, paddock-benchmark, is of the former one")
    resting(running(), hosts.converged(service={"measuring": True}))
    stopped = shown(ActiveState="inactive", Result="success", InactiveEnterTimestampMonotonic="5")
    told = left_out(running(), hosts.converged(service={**stopped, "measuring": True}))
    assert told == f"{UNIT} is left alone: paddock-benchmark measures, and starts it again"


@pytest.mark.parametrize(
    ("before", "after"), [({}, {"context_shift": True}), ({}, {"jinja": False}), ({"context_shift": True}, {})]
)
def test_a_changed_flag_is_told_without_its_neighbours(before: dict[str, Any], after: dict[str, Any]) -> None:
    told = reasons(running(**after), hosts.converged(hosts.wishes(**before)))
    flag = "jinja" if "jinja" in after else "context-shift"
    options = [word for word in told.removeprefix("restart llama-server").split() if word.startswith("-")]
    assert {option for option in options if option != "->"} == {f"--{flag}", f"--no-{flag}"}, told


def unsetting(text: str, *lines: str) -> str:
    return text.replace("\nExecStart", "".join(f"\nUnsetEnvironment={line}" for line in lines) + "\nExecStart")


def test_a_line_of_the_unit_that_changed_is_told_and_variables_are_counted() -> None:
    text = hosts.converged_answers()["service"]["unit"].replace("CPUWeight=20\n", "")
    told = reasons(running(), hosts.converged(service={"unit": unsetting(text, "A B", "C")}))
    assert told == "restart llama-server: CPUWeight absent -> 20", "nobody knows those of a release that is not there"
    assert changes(unsetting(text, "A B", "C"), unsetting(text, "A B C D")) == ("UnsetEnvironment 3 names -> 4 names")


def test_another_release_is_told() -> None:
    other = Wishes(hosts.wishes().settings, "f" * 40, None)
    built: dict[str, Any] = {"releases": {wanted_release(other, hosts.converged()).key: {}}}
    tried = hosts.with_plan(other, sandbox.sandboxed(other, hosts.converged(llama_cpp=built)).after)
    told = reasons(running(other), tried)
    assert re.fullmatch(r"restart llama-server: release 012345678-\w{8} -> fffffffff-\w{8}", told)


def test_a_model_file_that_was_replaced_under_its_name_is_another_model() -> None:
    file = {**hosts.converged_answers()["model"]["file"], "mtime_ns": 2}
    told = reasons(running(), hosts.with_plan(hosts.wishes(), hosts.converged(model={"file": file})))
    assert told == "restart llama-server: another model file"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (shown(ActiveState="failed"), "start llama-server: it is failed"),
        (
            shown(ActiveState="failed", Result="oom-kill"),
            "start llama-server: it is failed (the kernel killed it, as it outgrew its cap: oom-kill)",
        ),
        (shown(ActiveState="inactive"), "start llama-server: it is inactive"),
        ({"properties": {}, "port_taken": False}, f"{UNIT} is not enabled; start llama-server: it is not loaded"),
        ({"running_stamp": "0" * 16}, "restart llama-server: what runs is older than the unit on disk"),
        ({"running_stamp": None}, "restart llama-server: what runs is older than the unit on disk"),
        ({"proved": None}, "restart llama-server: the run that started it did not see it answer"),
        ({"proved": "0" * 16}, "restart llama-server: the run that started it did not see it answer"),
        (shown(MemoryMax="infinity"), f"MemoryMax is infinity and not {10096 << 20}"),
        (shown(MemorySwapMax="infinity"), "MemorySwapMax is infinity and not 0"),
        (shown(CPUWeight="100"), "CPUWeight is 100 and not 20"),
        (shown(UMask="0022"), "UMask is 0022 and not 0077"),
        (shown(TasksMax=""), "TasksMax is unknown to this systemd and not 1024"),
        (shown(NeedDaemonReload="yes"), "systemd has not loaded the unit as it is on disk"),
    ],
)
def test_what_is_not_as_wanted_is_the_reason(fields: dict[str, Any], reason: str) -> None:
    assert reasons(running(), hosts.converged(service=fields)) == reason


DROP_INS = "/home/dev/.config/systemd/user"


def test_a_limit_of_the_users_own_drop_in_has_the_last_word() -> None:
    limits = shown(MemoryMax="infinity", DropInPaths=f"{DROP_INS}/service.d/all.conf {DROP_INS}/{UNIT}.d/own.conf")
    resting(running(), hosts.converged(service=limits))


@pytest.mark.parametrize("folder", ["service.d", "other.service.d", f"{UNIT}.wants", ""])
def test_a_drop_in_for_others_too_does_not_excuse_another_limit(folder: str) -> None:
    limits = shown(MemoryMax="infinity", DropInPaths=f"{DROP_INS}/{folder}/all.conf" if folder else "")
    assert reasons(running(), hosts.converged(service=limits)) == f"MemoryMax is infinity and not {10096 << 20}"


def test_a_unit_that_somebody_edited_is_written_back() -> None:
    text = hosts.converged_answers()["service"]["unit"].replace("MemorySwapMax=0", "MemorySwapMax=infinity")
    decision = acting(running(), hosts.converged(service={"unit": text}))
    assert decision.reasons == ("restart llama-server: MemorySwapMax infinity -> 0",)
    assert decision.steps[0].diff == (f"~/.config/systemd/user/{UNIT}", text, decision.after[SERVICE].unit)


@pytest.mark.parametrize(
    ("decide", "changes", "sentence"),
    [
        (running(), {"host": {"user_manager": False}}, "the systemd manager of dev does not run"),
        (running(), {"service": STRANGER}, "port=8091 is taken by nginx (pid 99); stop it, or set another port"),
        (
            running(),
            {"service": {**STRANGER, "port_holder": None, "port_owner": "ann"}},
            "port=8091 is taken by a process of ann; stop it, or set another port",
        ),
        (
            running(),
            {"service": {**STRANGER, "port_holder": None}},
            "port=8091 is taken by a process of another user; stop it, or set another port",
        ),
        (running(backend="cuda"), {}, "a CUDA toolkit is needed"),
        (running(), {"host": {"memory_capped": False}}, "the memory controller is not delegated to dev's systemd"),
        (running(), {"llama_cpp": {"releases": {}}}, "of llama.cpp is not on this host; run the llama_cpp role too"),
        (running(), {"model": {"is_gguf": False}}, f"model_path={hosts.MODEL_PATH!r} is not a GGUF on this host"),
    ],
)
def test_a_host_that_cannot_serve_is_refused(decide: Decide, changes: dict[str, Any], sentence: str) -> None:
    fresh = services.absent()
    seen = hosts.converged(**{**changes, "service": {**fresh, **changes.get("service", {})}})
    assert sentence in refusal(decide, seen)


def test_the_port_is_ours_where_our_process_has_it() -> None:
    resting(running(), hosts.converged(service={"port_holder": {"pid": 4711, "name": "llama-server"}}))


def test_another_device_to_wait_for_is_told_without_the_paths_of_the_command() -> None:
    before, after = (
        hosts.converged(hosts.wishes(backend="rpc", rpc_servers=[f"127.0.0.1:{port}"], n_cpu_moe=2))[SERVICE].unit or ""
        for port in (50052, 50053)
    )
    told = changes(before, after)
    assert "wait-device 127.0.0.1:50052 (60 s) -> 127.0.0.1:50053 (60 s)" in told
    assert "ExecStartPre" not in told
    assert "paddock-switch" not in told
