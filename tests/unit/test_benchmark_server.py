"""How the benchmark's program asks llama-server: with which key, by which way, and what it says of one that fails."""

from __future__ import annotations

from typing import Any

import pytest

from roles.benchmark.server_program import NotAsExpected, Server
from tests.unit import measuring
from tests.unit.fake_llama import FakeLlama
from tests.unit.fake_systemd import FakeSystemd
from tests.unit.measuring import run

llama, systemd = measuring.llama, measuring.systemd


@pytest.mark.parametrize(("keys", "header"), [("# mine\n\nfirst \nsecond\n", "Bearer first"), (None, "Bearer none")])
def test_the_first_api_key_goes_to_the_server_in_a_header(
    systemd: FakeSystemd, llama: FakeLlama, keys: str | None, header: str
) -> None:
    path = systemd.home / "keys"
    if keys is not None:
        path.write_text(keys)
    done = run(systemd, llama.url, key_file=str(path) if keys is not None else "", depths=[0])
    assert done.returncode == 0, done.stdout
    assert set(llama.authorizations) == {header}


def test_a_proxy_of_the_users_is_not_asked(
    systemd: FakeSystemd, llama: FakeLlama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert run(systemd, llama.url, depths=[0]).returncode == 0


@pytest.mark.parametrize("error", [AttributeError("readline"), ValueError("read of closed file")])
def test_a_connection_that_was_closed_in_the_middle_of_reading_is_no_mistake_of_ours(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    server = Server("http://127.0.0.1:1", "")

    def closed(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(server, "_answer", closed)
    with pytest.raises(NotAsExpected, match="did not answer as expected"):
        server.complete([1], 1, False, 1)


def test_a_server_that_refuses_is_quoted(systemd: FakeSystemd, llama: FakeLlama) -> None:
    llama.status = 500
    done = run(systemd, llama.url)
    assert done.returncode == 1
    assert done.stdout == "paddock: llama-server did not answer as expected: HTTP 500: it broke\n"
    assert list((systemd.home / "data").iterdir()) == []


def test_a_service_that_does_not_run_is_told(systemd: FakeSystemd) -> None:
    measuring.prepared(systemd, MainPID=0)
    done = run(systemd, "http://127.0.0.1:1")
    assert done.stdout == "paddock: llama-server does not run, so there is nothing to measure\n"
