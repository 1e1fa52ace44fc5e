"""What is built beside the commit: patches beside the inventory, the page from the Hub, wheels from pip's report."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from roles.llama_cpp import source, wheels
from roles.lock import CannotPin, Lock
from roles.wishes import UiPin
from tests.unit import hosts, pinning

DIGEST = "e" * 64
PAGES: dict[str, tuple[int, str]] = {
    "b100": (200, f"{DIGEST}  dist.tar.gz\n"),
    "b101": (404, "Entry not found"),
    "b102": (200, "<html>a captive portal</html>"),
    "b103": (503, "try again"),
    "b104": (403, "a proxy does not like it"),
}

lock = pinning.lock


@pytest.fixture
def hub() -> Iterator[str]:
    """A server with the pages of some tags; the Hub itself is not here."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, text = PAGES[self.path.split("/")[-2]]
            self.send_response(code)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def page(lock: Lock, hub: str, ref: str, web_ui: str = "prebuilt") -> UiPin | None:
    wanted = hosts.wishes(hosts.HUB_DATA, llama_ref=ref, hub_endpoint=hub, web_ui=web_ui).settings
    return source.page(wanted, lock)


def test_the_page_of_a_tag_is_pinned_by_its_sha256_and_asked_for_once(lock: Lock, hub: str) -> None:
    url = f"{hub}/buckets/ggml-org/llama-ui/resolve/b100/dist.tar.gz"
    assert page(lock, hub, "b100") == UiPin(DIGEST, url)
    gone = "http://127.0.0.1:1"
    assert page(lock, gone, "b100") == UiPin(DIGEST, url.replace(hub, gone)), "the lock knows it"


def test_a_tag_without_a_page_is_remembered_as_that(lock: Lock, hub: str) -> None:
    assert page(lock, hub, "b101") is None
    assert page(lock, "http://127.0.0.1:1", "b101") is None


@pytest.mark.parametrize(("ref", "web_ui"), [("master", "prebuilt"), ("b100", "off"), ("b100", "build")])
def test_nothing_is_asked_where_there_is_nothing_to_ask_for(lock: Lock, ref: str, web_ui: str) -> None:
    assert page(lock, "http://127.0.0.1:1", ref, web_ui) is None
    assert not lock.changed


@pytest.mark.parametrize(("ref", "status"), [("b102", 200), ("b103", 503), ("b104", 403)])
def test_an_answer_that_is_no_digest_is_not_believed(lock: Lock, hub: str, ref: str, status: int) -> None:
    with pytest.raises(CannotPin, match=f"answered {status} without a sha256; try again, or set web_ui='off'"):
        page(lock, hub, ref)


def test_a_hub_that_cannot_be_reached_is_named_with_the_way_out(lock: Lock) -> None:
    with pytest.raises(CannotPin, match=r"cannot be had from http://127\.0\.0\.1:1/.*set web_ui='off'"):
        page(lock, "http://127.0.0.1:1", "b100")


def test_why_there_is_no_page_is_told() -> None:
    wanted = hosts.wishes(llama_ref="master", web_ui="prebuilt").settings
    assert source.without_page(wanted, None) == (
        "no page at the port: ready-made ones are for tags such as b10864, and llama_ref='master' is none"
    )
    wanted = hosts.wishes(llama_ref="b101", web_ui="prebuilt").settings
    assert source.without_page(wanted, None) == (
        "no page at the port: llama.cpp had no ready-made one for b101 (make update-pins asks again)"
    )
    assert source.without_page(wanted, UiPin(DIGEST, "u")) is None
    assert source.without_page(hosts.wishes().settings, None) is None, "none is wanted"


def test_patches_lie_beside_the_inventory_or_where_they_say(tmp_path: Path) -> None:
    (tmp_path / "one.patch").write_bytes(b"1\r\n")
    (tmp_path / "else").mkdir()
    other = tmp_path / "else" / "two.patch"
    other.write_text("2")
    found = source.patches(("one.patch", str(other)), tmp_path)
    assert [patch.text for patch in found] == ["1\r\n", "2"], "a patch to a file of DOS lines has them too"
    assert found[0].sha256 != found[1].sha256


@pytest.mark.parametrize(
    ("content", "told"), [(None, "No such file"), (b"\xff\xfe\x00", "it is not a text")], ids=["missing", "binary"]
)
def test_a_patch_that_cannot_be_read_is_named_with_its_place(tmp_path: Path, content: bytes | None, told: str) -> None:
    if content is not None:
        (tmp_path / "bad.patch").write_bytes(content)
    with pytest.raises(
        CannotPin, match=rf"llama_patches: 'bad\.patch' cannot be read at {tmp_path}/bad\.patch: {told}"
    ):
        source.patches(("bad.patch",), tmp_path)


# As pip 23.2 printed it for cuda-toolkit 13.2, cut to two packages: the index is not here for a unit test.
REPORT = {
    "install": [
        {
            "download_info": {"url": f"https://files.test/{name}.whl", "archive_info": {"hashes": {"sha256": digest}}},
            "metadata": {"name": name, "version": version},
        }
        for name, version, digest in [
            ("nvidia-cuda-nvcc", "13.2.86", "a" * 64),
            ("nvidia-cublas", "13.4.1.3", "b" * 64),
            ("cuda-toolkit", "13.2.2", "c" * 64),
        ]
    ]
}


def pip(monkeypatch: pytest.MonkeyPatch, code: int = 0, out: str = "", err: str = "") -> list[list[str]]:
    """Let pip answer so; the commands that were run."""
    asked: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, code, out, err)

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_the_wheels_of_a_toolkit_are_resolved_once_with_their_hashes(
    lock: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = pip(monkeypatch, out=json.dumps(REPORT))
    wanted = hosts.wishes(cuda_toolkit="wheel:13.2").settings.llama_cpp
    pin = wheels.toolkit(wanted, lock)
    assert pin is not None
    assert [(wheel.name, wheel.version) for wheel in pin.wheels] == [
        ("nvidia-cuda-nvcc", "13.2.86"),
        ("nvidia-cublas", "13.4.1.3"),
    ], "the metapackage itself holds nothing"
    assert asked[0][-1] == "cuda-toolkit[nvcc,cudart,cccl,cublas,crt,nvvm]==13.2.*"
    assert wheels.toolkit(wanted, lock) == pin
    assert len(asked) == 1, "the lock knows it"
    assert pin.folder.startswith("~/.local/share/paddock/toolkits/13.2-")


def test_a_version_that_does_not_exist_is_told_in_pips_words(lock: Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    pip(monkeypatch, 1, err="ERROR: Could not find a version that satisfies the requirement cuda-toolkit==99.9.*\n")
    with pytest.raises(CannotPin, match=r"cuda_toolkit='wheel:99\.9' cannot be resolved: Could not find a version"):
        wheels.toolkit(hosts.wishes(cuda_toolkit="wheel:99.9").settings.llama_cpp, lock)
    assert not lock.changed


@pytest.mark.parametrize("out", ["", "{}", '{"install": [{"metadata": {"name": "x"}}]}'])
def test_a_report_that_cannot_be_read_is_no_toolkit(lock: Lock, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    pip(monkeypatch, out=out)
    with pytest.raises(CannotPin, match="pip's report cannot be read"):
        wheels.toolkit(hosts.wishes(cuda_toolkit="wheel:13.2").settings.llama_cpp, lock)


@pytest.mark.parametrize("data", [{}, {"cuda_toolkit": "/opt/cuda"}, {"cuda_toolkit": "wheel:13.2", "backend": "cpu"}])
def test_without_wheels_in_the_inventory_nobody_is_asked(
    lock: Lock, monkeypatch: pytest.MonkeyPatch, data: dict[str, Any]
) -> None:
    asked = pip(monkeypatch)
    assert wheels.toolkit(hosts.wishes(**data).settings.llama_cpp, lock) is None
    assert asked == []
