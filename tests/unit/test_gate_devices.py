"""Whether devices are there, and whether a process has them: real sockets and files, stand-ins for NVIDIA's tools."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from roles.service.gate import PROGRAM, devices
from roles.service.gate.host import Server
from tests.unit import local
from tests.unit.programs import assert_old_python_can_run

PID = str(os.getpid())
NODES = {f"/dev/{name}" for name in devices.NODES}
LISTED = "echo 'Available devices:'; echo '  CUDA0: NVIDIA GeForce RTX 3050 (6144 MiB, 5500 MiB free)'"


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The device nodes that are there; a test may take some away."""
    there = set(NODES)
    real = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: path in there if path.startswith("/dev/") else real(path))
    monkeypatch.setattr(devices, "unfit_driver", lambda: None)
    return there


def tool(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> str:
    monkeypatch.setenv("PATH", local.tool(folder, name, text), prepend=":")
    return str(folder / name)


def test_an_rpc_server_that_answers_is_there(listening: str) -> None:
    assert devices.wait("/none", [listening], 0) is None


def test_one_that_does_not_answer_is_told() -> None:
    assert devices.wait("/none", ["127.0.0.1:1"], 0) == "the RPC server 127.0.0.1:1 does not answer"
    assert devices.wait("/none", ["nonsense:"], 0) == "the RPC server nonsense: does not answer"


def test_a_device_that_comes_later_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["not yet", "not yet", None])
    monkeypatch.setattr(devices, "missing", lambda program, wanted: next(answers))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert devices.wait("/none", ["x:1"], 60) is None


def test_a_card_is_there_where_llama_cpp_lists_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: set[str]
) -> None:
    program = tool(tmp_path / "bin", monkeypatch, "llama-server", LISTED)
    assert devices.wait(program, ["CUDA0"], 0) is None
    assert devices.wait(program, ["CUDA0", "CUDA1"], 0) == "llama.cpp sees no CUDA1 here"


@pytest.mark.parametrize(
    ("said", "gone", "told"),
    [
        ("echo '  (none)'", (), "llama.cpp sees no CUDA0 here"),
        (
            "echo '  (none)'",
            ("/dev/nvidia-uvm",),
            "llama.cpp sees no CUDA0 here: /dev/nvidia-uvm missing",
        ),
        (
            "echo 'ggml_cuda_init: failed to initialize CUDA: unknown error' >&2",
            (),
            "llama.cpp sees no CUDA0 here: CUDA does not work: unknown error; ",
        ),
    ],
)
def test_a_card_that_is_not_listed_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: set[str], said: str, gone: tuple[str, ...], told: str
) -> None:
    nodes -= set(gone)
    program = tool(tmp_path / "bin", monkeypatch, "llama-server", said)
    assert (devices.wait(program, ["CUDA0"], 0) or "").startswith(told)


def test_a_driver_that_needs_a_reboot_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/sys/module/nvidia/version": "570.124.06\n"}
    monkeypatch.setattr(devices, "read", lambda path, most=0: files.get(path))
    monkeypatch.setattr(devices, "library_versions", lambda: {"libcuda.so.1": "580.65.06"})
    assert devices.wait("/none", ["CUDA0"], 3600) == (
        "the loaded NVIDIA module is 570.124.06 and the driver's libraries are 580.65.06; reboot"
    )


@pytest.mark.parametrize(("loaded", "library"), [("570.1", "570.1"), ("570.1", None), ("", "570.1")])
def test_a_driver_that_fits_or_is_not_there_needs_no_reboot(
    monkeypatch: pytest.MonkeyPatch, loaded: str, library: str | None
) -> None:
    monkeypatch.setattr(devices, "read", lambda path, most=0: loaded or None)
    monkeypatch.setattr(devices, "library_versions", lambda: {"libcuda.so.1": library})
    assert devices.unfit_driver() is None


def test_who_listens_on_a_port_is_known() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        assert devices.listens(str(os.getpid()), port)
        other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        assert not devices.listens(str(other.pid), port)
        other.communicate(timeout=10)
    assert not devices.listens(str(os.getpid()), port)


def test_what_speaks_no_http_answers_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as thief:
        server = Server({"url": f"http://127.0.0.1:{thief.getsockname()[1]}", "key_file": ""})
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(server.ask, "/health")
            end, _ = thief.accept()
            end.recv(4096)
            end.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            end.close()
            assert asked.result(timeout=10) == (0, None)


def test_a_process_has_its_rpc_server_while_it_is_connected(listening: str) -> None:
    assert devices.lost(PID, [listening]) == f"it has no connection to the RPC server {listening}"
    host, _, port = listening.rpartition(":")
    with socket.create_connection((host, int(port))):
        assert devices.lost(PID, [listening]) is None
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            assert devices.lost(str(other.pid), [listening]) is not None, "it is another's connection"
            other.communicate(b"\n")
    assert devices.lost(PID, [listening]) is not None


@pytest.mark.parametrize(
    ("said", "lost"),
    [
        ("echo 'PID, 5342'", None),
        ("echo 'PID, [N/A]'", None),
        ("echo '1, 5342'", "it holds no VRAM: nvidia-smi does not list it"),
        ("true", "it holds no VRAM: nvidia-smi does not list it"),
        ("exit 15", "nvidia-smi does not answer"),
    ],
)
def test_a_process_has_its_card_where_the_driver_lists_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: set[str], said: str, lost: str | None
) -> None:
    tool(tmp_path / "bin", monkeypatch, "nvidia-smi", said.replace("PID", PID))
    assert devices.lost(PID, ["CUDA0"]) == lost


def test_a_node_that_went_away_is_told_and_nvidia_smi_is_not_asked(nodes: set[str]) -> None:
    nodes.discard("/dev/nvidia0")
    assert devices.lost(PID, ["CUDA0"]) == "/dev/nvidia0 went away"


def test_vram_on_several_cards_is_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path / "bin", monkeypatch, "nvidia-smi", "printf '7, 100\\n7, 200\\n8, [N/A]\\n'")
    assert devices.vram() == {"7": 300, "8": None}


def test_a_service_on_the_cpu_has_nothing_to_lose() -> None:
    assert devices.wait("/none", [], 0) is None
    assert devices.lost(PID, []) is None


def test_the_program_is_one_file_that_old_python_can_run(tmp_path: Path) -> None:
    head, _, rest = PROGRAM.partition("\n")
    assert head == "#!/usr/bin/env -S python3 -ISB"
    assert_old_python_can_run(rest)
    assert "from roles" not in rest
    made = tmp_path / "bin/paddock-switch"
    made.parent.mkdir()
    made.write_text(PROGRAM)
    made.chmod(0o755)
    for words, code, said in (
        (["wait-device", "0", "/none", "127.0.0.1:1"], 1, "paddock: the RPC server 127.0.0.1:1 does not answer\n"),
        (["bogus"], 1, "paddock: what shall be done? One of switch, rollback, check, watch, wait-device\n"),
        (["check"], 0, ""),
        (["rollback"], 1, "paddock: there is no former service to go back to\n"),
    ):
        done = subprocess.run([str(made), *words], capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (code, said, "")
