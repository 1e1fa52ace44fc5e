"""What paddock-switch gets: itself, once on a host, and the record of a service that it is to prove."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

from roles.service import boot, decide, unit
from roles.service.command import UNIT
from roles.service.observe import SERVICE
from tests.unit import hosts, seed, services
from tests.unit.deciding import acting, reasons, resting
from tests.unit.serving import candidate, running


@pytest.mark.parametrize(("size", "seconds"), [(152_000_000, 123), (12_000_000_000, 360), (70_000_000_000, 1520)])
def test_a_big_model_gets_the_time_that_a_slow_disk_needs(size: int, seconds: int) -> None:
    seen = hosts.converged(model={"file": {**hosts.bare_answers()["model"]["file"], "size": size}})
    record = candidate(running(context=65536), seen)
    assert (record["load_bytes"], record["seconds"]) == (size, seconds)
    script = acting(running(context=65536), seen).steps[0].script
    assert script.seconds > 2 * (6 * seconds + 600), "the slowest disk, and its completions, for the last good too"


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
