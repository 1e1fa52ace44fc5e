"""Whether what runs is what is wanted; each reason to restart it, and each reason not to try."""

from __future__ import annotations

import json
import re
import shlex
from functools import partial
from typing import Any

import pytest

from roles.llama_cpp.release import wanted_release
from roles.observation import Observation
from roles.service import boot, decide, sandbox, unit
from roles.service.command import UNIT
from roles.service.observe import SERVICE
from roles.service.reasons import changes
from roles.wishes import Wishes
from tests.unit import hosts, machines, seed, services
from tests.unit.deciding import Decide, acting, left_out, reasons, refusal, resting

STRANGER = {"port_taken": True, "port_holder": {"pid": 99, "name": "nginx"}}


def running(wanted: Wishes | None = None, **data: Any) -> Decide:
    return partial(decide.running, wanted or hosts.wishes(**data))


def shown(**properties: str) -> dict[str, Any]:
    """systemd's answers about the converged unit, some of them changed."""
    return {"properties": {**hosts.converged_answers()["service"]["properties"], **properties}}


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


def test_a_line_of_the_unit_that_changed_is_told_and_variables_are_counted() -> None:
    text = hosts.converged_answers()["service"]["unit"].replace("CPUWeight=20\n", "")
    text = text.replace("\nExecStart", "\nUnsetEnvironment=A B\nUnsetEnvironment=C\nExecStart")
    told = reasons(running(), hosts.converged(service={"unit": text}))
    assert told == "restart llama-server: UnsetEnvironment 3 names -> absent, CPUWeight absent -> 20"


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


def test_a_service_that_somebody_disabled_runs_on_and_that_is_said() -> None:
    told = left_out(running(), hosts.converged(service=shown(UnitFileState="disabled")))
    assert told == f"somebody disabled {UNIT}, so it does not start at boot"


RESTING = {"ActiveState": "inactive", "Result": "success", "InactiveEnterTimestampMonotonic": "0"}
MANUAL = hosts.wishes(service_autostart=False)


def test_a_service_that_shall_not_start_at_boot_is_not_enabled_and_a_change_of_mind_is_the_reason() -> None:
    resting(running(MANUAL), hosts.converged(MANUAL))
    assert reasons(running(MANUAL), hosts.converged()) == f"{UNIT} is enabled, and service_autostart is False"
    never_enabled = {**shown(UnitFileState="disabled"), "proved": None}
    assert f"{UNIT} is not enabled" in reasons(running(), hosts.converged(service=never_enabled))
    fresh = hosts.converged(MANUAL, service=services.absent())
    assert acting(running(MANUAL), fresh).after[SERVICE].shown("UnitFileState") == "disabled"
    assert candidate(running(MANUAL), fresh)["autostart"] is False


LAPTOP = {**machines.machine(), "battery": True}


@pytest.mark.parametrize(
    ("machine", "data", "told"),
    [
        (LAPTOP, {}, True),
        (LAPTOP, {"sleep_idle_seconds": 600}, False),
        (LAPTOP, {"service_autostart": False}, False),
        (machines.machine(), {}, False),
    ],
)
def test_before_a_laptop_gets_a_service_that_is_always_there_it_is_said_what_that_costs_and_how_to_choose(
    machine: dict[str, Any], data: dict[str, Any], told: bool
) -> None:
    seen = hosts.converged(machine=machine, service=services.absent())
    assert ("sleep_idle_seconds=600 gives both back" in reasons(running(**data), seen)) == told


def test_one_that_shall_not_start_at_boot_is_left_stopped_after_it_and_that_is_said() -> None:
    after_boot = {**shown(UnitFileState="disabled", **RESTING), "port_taken": False}
    told = left_out(running(MANUAL), hosts.converged(MANUAL, service=after_boot))
    assert told.startswith(f"service_autostart is False, nobody has started {UNIT}, and it stays so; `systemctl")


def test_a_new_key_is_for_a_new_process() -> None:
    seen = hosts.converged(KEYED, service=with_keys(mtime_ns=6))
    assert "restart llama-server" in reasons(running(KEYED), seen)


STOPPED = shown(ActiveState="inactive", Result="success", InactiveEnterTimestampMonotonic="5000000")


# What `disable --now` leaves: systemd has forgotten when the unit was active.
BY_HAND = shown(UnitFileState="disabled", **RESTING)


@pytest.mark.parametrize("fields", [STOPPED, {"masked": True, "unit": None}, BY_HAND])
def test_a_service_that_somebody_stopped_stays_stopped_and_that_is_said(fields: dict[str, Any]) -> None:
    told = left_out(running(context=65536), hosts.converged(service={**fields, "port_taken": False}))
    assert told.startswith(f"somebody stopped {UNIT}, and it stays so; `systemctl --user start {UNIT}`")


@pytest.mark.parametrize(
    "fields",
    [
        shown(ActiveState="failed", Result="exit-code", InactiveEnterTimestampMonotonic="5000000"),
        shown(ActiveState="inactive", Result="success", InactiveEnterTimestampMonotonic="0"),
    ],
)
def test_one_that_failed_or_was_never_up_in_this_boot_is_started(fields: dict[str, Any]) -> None:
    assert "start llama-server" in reasons(running(), hosts.converged(service={**fields, "port_taken": False}))


DROP_INS = "/home/dev/.config/systemd/user"


def test_a_limit_of_the_users_own_drop_in_has_the_last_word() -> None:
    limits = shown(MemoryMax="infinity", DropInPaths=f"{DROP_INS}/service.d/all.conf {DROP_INS}/{UNIT}.d/own.conf")
    resting(running(), hosts.converged(service=limits))


@pytest.mark.parametrize("folder", ["service.d", "other.service.d", f"{UNIT}.wants", ""])
def test_a_drop_in_for_others_too_does_not_excuse_another_limit(folder: str) -> None:
    limits = shown(MemoryMax="infinity", DropInPaths=f"{DROP_INS}/{folder}/all.conf" if folder else "")
    assert reasons(running(), hosts.converged(service=limits)) == f"MemoryMax is infinity and not {10096 << 20}"


def with_keys(**fields: Any) -> dict[str, Any]:
    """What stands where the API keys are, on a host that was converged for them."""
    return {**hosts.converged_answers(KEYED)["service"], "key_file": {**services.KEY, **fields}}


KEYED = hosts.wishes(api_key_file="~/keys")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"mode": 0o640}, "can be read by others; it must be dev's own with mode 0600"),
        ({"uid": 0}, "belongs to another user"),
        ({"keys": 0}, "is not a file with a key in it"),
        ({"kind": "dir"}, "is not a file with a key in it"),
    ],
)
def test_api_keys_that_others_can_read_or_that_are_none_are_refused(fields: dict[str, Any], sentence: str) -> None:
    told = refusal(running(KEYED), hosts.converged(KEYED, service=with_keys(**fields)))
    assert told.startswith("api_key_file='~/keys' ")
    assert sentence in told


def test_the_key_itself_is_nowhere_in_the_unit_or_the_script() -> None:
    resting(running(KEYED), hosts.converged(KEYED, service=with_keys()))
    fresh = {**services.absent(), "key_file": services.KEY}
    decision = acting(running(KEYED), hosts.converged(KEYED, service=fresh))
    assert " --api-key-file /home/dev/keys " in (decision.after[SERVICE].unit or "")
    assert candidate(running(KEYED), hosts.converged(KEYED, service=fresh))["key_file"] == "/home/dev/keys"


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


def candidate(decide: Decide, seen: Observation) -> dict[str, Any]:
    """The record that paddock-switch gets."""
    script = acting(decide, seen).steps[0].script
    words = shlex.split(json.loads(script.args[0])["script"].rpartition("\njob ")[2])
    assert words[0] == "/home/dev/.local/share/paddock/bin/paddock-switch"
    record: dict[str, Any] = json.loads(words[1])
    return record


@pytest.mark.parametrize(("size", "seconds"), [(152_000_000, 123), (12_000_000_000, 360), (70_000_000_000, 1520)])
def test_a_big_model_gets_the_time_that_a_slow_disk_needs(size: int, seconds: int) -> None:
    seen = hosts.converged(model={"file": {**hosts.bare_answers()["model"]["file"], "size": size}})
    record = candidate(running(context=65536), seen)
    assert (record["load_bytes"], record["seconds"]) == (size, seconds)
    script = acting(running(context=65536), seen).steps[0].script
    assert script.seconds > 2 * (6 * seconds + 600), "the slowest disk, and its completions, for the last good too"


def test_another_device_to_wait_for_is_told_without_the_paths_of_the_command() -> None:
    before, after = (
        hosts.converged(hosts.wishes(backend="rpc", rpc_servers=[f"127.0.0.1:{port}"], n_cpu_moe=2))[SERVICE].unit or ""
        for port in (50052, 50053)
    )
    told = changes(before, after)
    assert "wait-device 127.0.0.1:50052 (60 s) -> 127.0.0.1:50053 (60 s)" in told
    assert "ExecStartPre" not in told
    assert "paddock-switch" not in told


def test_the_record_holds_all_that_a_service_is_made_of() -> None:
    after = acting(running(seed.wishes()), hosts.converged()).after[SERVICE]
    record = candidate(running(seed.wishes()), hosts.converged())
    assert (record["unit"], record["text"], record["stamp"]) == (UNIT, after.unit, after.running_stamp)
    limits = {"MemoryMax": str(24 << 30), "MemorySwapMax": "0", "UMask": "0077", "RestartMaxDelayUSec": "5min"}
    assert limits.items() <= record["limits"].items()
    assert (record["url"], record["context"]) == ("http://127.0.0.1:8091", 122880)
    assert f"/releases/{record['release']}/bin/llama-server" in record["server"]
    assert (record["model"], record["load_bytes"]) == (hosts.MODEL_PATH, 12_000_000_000)


@pytest.mark.parametrize(
    ("data", "devices", "layers"),
    [
        ({}, [], None),
        ({"backend": "rpc", "rpc_servers": ["127.0.0.1:50052"], "n_cpu_moe": 2}, ["127.0.0.1:50052"], 99),
        ({"backend": "rpc", "rpc_servers": ["127.0.0.1:50052"], "gpu_layers": 5}, ["127.0.0.1:50052"], 5),
    ],
)
def test_the_devices_that_are_demanded_are_in_the_record_and_waited_for_at_each_start(
    data: dict[str, Any], devices: list[str], layers: int | None
) -> None:
    wanted = hosts.wishes(**data)
    record = candidate(running(wanted), hosts.converged(wanted, service=services.absent()))
    assert (record["devices"], record["layers"]) == (devices, layers)
    waits = re.findall(r"^ExecStartPre=(.*)$", record["text"], re.M)
    program = "/home/dev/.local/share/paddock/bin/paddock-switch"
    assert waits == [f"{program} wait-device 60 {record['server']} {name}" for name in devices]


def test_where_no_layer_is_to_be_on_a_device_none_is_demanded() -> None:
    wanted = hosts.wishes(backend="rpc", rpc_servers=["127.0.0.1:50052"], gpu_layers=0)
    record = candidate(running(wanted), hosts.converged(wanted, service=services.absent()))
    assert (record["devices"], record["layers"]) == ([], 0)


def test_a_laptops_card_is_waited_for_by_its_name() -> None:
    seen = hosts.parsed(seed.laptop_answers())
    assert boot.devices(seed.wishes(), seen) == ("CUDA0",)


FAILED = {"stamp": "", "why": "--gone is no option of this release; it was stopped", "stopped": "5000000"}


def test_the_next_run_tells_why_the_last_switch_failed() -> None:
    stamp = hosts.converged()[SERVICE].running_stamp
    seen = hosts.converged(service={"switch": {**FAILED, "stamp": stamp}, **shown(ActiveState="failed")})
    assert reasons(running(), seen) == f"start llama-server: it is failed (the last time: {FAILED['why']})"


def test_one_that_the_gate_stopped_was_stopped_by_nobody() -> None:
    seen = hosts.converged(service={**STOPPED, "switch": FAILED, "port_taken": False})
    assert "start llama-server: it is inactive" in reasons(running(), seen)
    later = hosts.converged(service={**STOPPED, "switch": {**FAILED, "stopped": "4"}, "port_taken": False})
    assert left_out(running(), later).startswith("somebody stopped")


GUARDED = partial(decide.guarded, hosts.wishes())


def test_the_switch_and_its_watchdog_are_installed_once_and_again_when_they_are_others() -> None:
    assert reasons(GUARDED, hosts.converged(service={"guard": None})) == "paddock-switch is not there yet"
    resting(GUARDED, hosts.converged())
    other = {**hosts.converged_answers()["service"]["guard"], "program": "0" * 64}
    assert "another paddock-switch" in reasons(GUARDED, hosts.converged(service={"guard": other}))
    masked = {**hosts.converged_answers()["service"]["guard"], "timer": "masked"}
    resting(GUARDED, hosts.converged(service={"guard": masked}))


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:8091"), ("localhost", "http://localhost:8091"), ("::1", "http://[::1]:8091")],
)
def test_the_address_is_a_url(host: str, url: str) -> None:
    assert unit.url(hosts.wishes(host=host).settings.service) == url


LINGERING = partial(decide.lingering, False)


@pytest.mark.parametrize("fields", [{"lingers": False}, {"user_manager": False}])
def test_a_user_who_does_not_linger_is_made_to(fields: dict[str, Any]) -> None:
    (step,) = acting(LINGERING, hosts.converged(host=fields)).steps
    assert step.script.root
    assert step.script.args == ("dev", "1000", "/home/dev/.local/share/paddock/created")


def test_without_root_lingering_is_left_out_and_said_with_what_follows() -> None:
    told = left_out(LINGERING, hosts.bare(host={"root": "none"}))
    assert told.startswith("dev does not linger, so the service stops at logout and does not start at boot: ")
