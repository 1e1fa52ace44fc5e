"""What the parts of the probe see, on real files, sockets and processes of this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roles import on_host
from roles.benchmark.observe import look_at_benchmark
from roles.llama_cpp import cmake
from roles.llama_cpp.observe import LLAMA_CPP, LlamaCppSeen, look_at_llama_cpp
from roles.model.observe import ModelSeen, look_at_model
from roles.service.observe import look_at_service
from tests.unit import hosts, local

UNIT = "paddock-llama-server.service"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_tool_that_is_missing_hangs_or_fails_is_told_apart() -> None:
    assert on_host.run(["paddock-no-such-tool"]) is None
    assert on_host.run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == {"rc": 3, "out": "out\n", "err": "err\n"}
    hung = on_host.run(["sleep", "60"], 0.1)
    assert hung is not None
    assert hung["rc"] is None
    assert "timed out" in hung["err"]


def test_a_tool_gets_no_input_and_its_bytes_need_not_be_text() -> None:
    assert on_host.run(["cat"]) == {"rc": 0, "out": "", "err": ""}
    said = on_host.run(["sh", "-c", r"printf 'a\377b'"])
    assert said is not None
    assert said["out"] == "a\ufffdb"


def model(path: Path) -> ModelSeen:
    return ModelSeen.model_validate(look_at_model({"path": str(path)}))


def test_a_model_is_known_by_its_first_bytes_and_its_sidecar(tmp_path: Path) -> None:
    path = tmp_path / "some.gguf"
    path.write_bytes(b"GGUF and more")
    stat = path.stat()
    sidecar = {"sha256": "d" * 64, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    (tmp_path / "some.gguf.json").write_text(json.dumps(sidecar))
    seen = model(path)
    assert (seen.is_gguf, seen.verified, seen.part_size) == (True, "d" * 64, 0)
    assert seen.disk_free > 0
    path.write_bytes(b"GGUF and other")
    assert model(path).verified is None


@pytest.mark.parametrize("sidecar", ["", "{", "null"])
def test_a_torn_sidecar_is_none(tmp_path: Path, sidecar: str) -> None:
    path = tmp_path / "some.gguf"
    path.write_bytes(b"GGUF")
    (tmp_path / "some.gguf.json").write_text(sidecar)
    assert model(path).verified is None


def test_a_model_may_be_a_link_and_need_not_be_there(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"GGUF")
    (tmp_path / "link.gguf").symlink_to(tmp_path / "real")
    linked = model(tmp_path / "link.gguf")
    assert linked.file is not None
    assert (linked.file.kind, linked.is_gguf) == ("file", True)
    absent = model(tmp_path / "no" / "such" / "folder" / "some.gguf")
    assert (absent.file, absent.is_gguf) == (None, False)
    assert absent.disk_free > 0


def test_half_a_download_is_seen_by_its_size(tmp_path: Path) -> None:
    (tmp_path / "some.gguf.part").write_bytes(b"12345")
    assert model(tmp_path / "some.gguf").part_size == 5


def test_a_home_is_the_hosts_own(home: Path) -> None:
    (home / "some.gguf").write_bytes(b"GGUF")
    assert look_at_model({"path": "~/some.gguf"})["path"] == str(home / "some.gguf")


def llama_cpp(**data: Any) -> LlamaCppSeen:
    return LlamaCppSeen.model_validate(look_at_llama_cpp(LLAMA_CPP.ask(hosts.wishes(**data))))


def test_releases_are_those_with_a_stamp_and_drafts_are_none(home: Path) -> None:
    releases = home / ".local/share/paddock/releases"
    for name in ("a-1", ".b-2", "c-3"):
        (releases / name).mkdir(parents=True)
        (releases / name / "stamp.json").write_text('{"commit": "aaaa"}')
    (releases / "c-3" / "stamp.json").unlink()
    assert llama_cpp().releases == {"a-1": {"commit": "aaaa"}}


@pytest.mark.parametrize("stamp", ['{"commit": "aa', "5"])
def test_a_release_with_a_torn_stamp_is_no_release(home: Path, stamp: str) -> None:
    folder = home / ".local/share/paddock/releases/a-1"
    folder.mkdir(parents=True)
    (folder / "stamp.json").write_text(stamp)
    assert llama_cpp().releases == {}


def test_this_machines_compiler_and_libc_are_seen(home: Path) -> None:
    seen = llama_cpp()
    assert seen.compiler.split(".")[0].isdigit()
    assert seen.libc.startswith("glibc ")
    assert "sse2" in seen.cpu_flags or os.uname().machine != "x86_64"


def test_gpus_are_those_that_nvidia_smi_lists(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = "NVIDIA GeForce RTX 3050, 8.6, 6144, 750, 580.1"
    monkeypatch.setenv("PATH", local.tool(home / "bin", "nvidia-smi", f'echo "$*" >{home}/asked; echo "{row}"\n'))
    assert [gpu.compute_cap for gpu in llama_cpp().gpus] == ["8.6"]
    assert "--query-gpu=name,compute_cap,memory.total,memory.used,driver_version" in (home / "asked").read_text()
    assert llama_cpp(backend="cpu").gpus == (), "nobody asks a driver that is not needed"


def nvcc(root: Path, release: str) -> Path:
    local.tool(root / "bin", "nvcc", f'echo "Cuda compilation tools, release {release}, V{release}.1"\n')
    return root


def test_a_toolkit_on_the_path_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "cuda").mkdir()
    root = nvcc(home / "cuda", "13.2")
    monkeypatch.setenv("PATH", f"{root}/bin", prepend=":")
    assert llama_cpp().toolkits.get(str(root / "bin/nvcc")) == "13.2"


@pytest.mark.parametrize("linked", [False, True])
def test_a_toolkit_that_the_inventory_names_is_found_wherever_it_is(home: Path, linked: bool) -> None:
    (home / "cuda-13.2").mkdir()
    root = nvcc(home / "cuda-13.2", "13.2")
    if linked:
        (home / "cuda").symlink_to(root)
        root = home / "cuda"
    data: dict[str, Any] = {"backend": "cuda", "cuda_toolkit": str(root)}
    seen = llama_cpp(**data)
    assert cmake.toolkit(hosts.wishes(**data).settings.llama_cpp, seen).version == "13.2"


def history(home: Path, *lines: str) -> Any:
    path = home / "benchmarks.jsonl"
    path.write_text("".join(lines))
    return look_at_benchmark({"history": "~/benchmarks.jsonl"})["last"]


def test_the_last_figures_are_the_newest_whole_line(home: Path) -> None:
    old, new = '{"schema": 1, "tg": 1}\n', '{"schema": 1, "tg": 2}\n'
    assert history(home) is None
    assert history(home, old, new) == {"schema": 1, "tg": 2}
    assert history(home, old, new, '{"schema": 1, "t') == {"schema": 1, "tg": 2}
    assert history(home, '{"sche\n', old) == {"schema": 1, "tg": 1}
    assert history(home, old, "\n", "5\n", "null\n", '{"schema": 2}\n') == {"schema": 1, "tg": 1}


def test_there_need_not_be_a_history(home: Path) -> None:
    assert look_at_benchmark({"history": "~/no/such.jsonl"}) == {"last": None}


@pytest.fixture(params=["127.0.0.1", "::1"])
def listening(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """An address on loopback that this process listens on."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    try:
        server = socket.create_server((request.param, 0), family=family)
    except OSError as error:
        pytest.skip(f"this machine has no {request.param}: {error}")
    with server:
        yield request.param, server.getsockname()[1]


def test_a_port_is_taken_by_whoever_listens(home: Path, listening: tuple[str, int]) -> None:
    seen = look_at_service({"unit": UNIT, "port": listening[1]})
    comm = Path("/proc/self/comm").read_text().strip()
    assert (seen["port_taken"], seen["port_holder"]) == (True, {"pid": os.getpid(), "name": comm})


def test_a_port_that_only_a_client_uses_is_free(home: Path, listening: tuple[str, int]) -> None:
    with socket.create_connection(listening) as client:
        port = client.getsockname()[1]
        seen = look_at_service({"unit": UNIT, "port": port})
    assert (seen["port_taken"], seen["port_holder"]) == (False, None)


def test_the_unit_its_properties_and_its_process_are_seen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home / ".config/systemd/user"
    folder.mkdir(parents=True)
    (folder / UNIT).write_text("[Service]\n")
    stamped = {**os.environ, "PADDOCK_STAMP": "0123456789abcdef"}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=stamped, stdin=subprocess.PIPE) as process:
        said = f"echo ActiveState=active; echo MainPID={process.pid}; echo Odd=a=b\n"
        monkeypatch.setenv("PATH", local.tool(home / "bin", "systemctl", said))
        seen = look_at_service({"unit": UNIT, "port": 1})
        process.communicate(b"\n")
    assert seen["unit"] == "[Service]\n"
    assert seen["properties"] == {"ActiveState": "active", "MainPID": str(process.pid), "Odd": "a=b"}
    assert seen["running_stamp"] == "0123456789abcdef"


def test_a_host_without_a_unit_or_systemctl_has_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    seen = look_at_service({"unit": UNIT, "port": 1})
    assert (seen["unit"], seen["properties"], seen["running_stamp"]) == (None, {}, None)
