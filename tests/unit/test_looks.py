"""What the parts of the probe see, on real files, sockets and processes of this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from roles import probe_tools
from roles.benchmark.observe import look_at_benchmark
from roles.gpu.classify import Nvidia
from roles.host import HOST
from roles.llama_cpp import cuda
from roles.llama_cpp.observe import LLAMA_CPP, LlamaCppSeen, look_at_llama_cpp
from roles.model.observe import MODEL, ModelSeen, look_at_model
from tests.unit import hosts, local
from tests.unit.test_gguf import write

UNIT = "paddock-llama-server.service"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_tool_that_is_missing_hangs_or_fails_is_told_apart() -> None:
    assert probe_tools.run(["paddock-no-such-tool"]) is None
    assert probe_tools.run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == {"rc": 3, "out": "out\n", "err": "err\n"}
    hung = probe_tools.run(["sleep", "60"], 0.1)
    assert hung is not None
    assert hung["rc"] is None
    assert "no answer within 0.1 s" in hung["err"]


def test_a_tool_gets_no_input_and_its_bytes_need_not_be_text() -> None:
    assert probe_tools.run(["cat"]) == {"rc": 0, "out": "", "err": ""}
    said = probe_tools.run(["sh", "-c", r"printf 'a\377b'"])
    assert said is not None
    assert said["out"] == "a\ufffdb"


def model(path: Path) -> ModelSeen:
    return ModelSeen.model_validate(look_at_model({"path": str(path), "rest": [], "models": str(path.parent)}))


def test_a_model_is_known_by_its_header_and_its_sidecar(tmp_path: Path) -> None:
    path = write(tmp_path / "some.gguf")
    stat = path.stat()
    sidecar = {"sha256": "d" * 64, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    (tmp_path / "some.gguf.json").write_text(json.dumps(sidecar))
    seen = model(path)
    assert (seen.is_gguf, seen.verified, seen.part_size) == (True, "d" * 64, 0)
    path.write_bytes(path.read_bytes() + b"more")
    assert model(path).verified is None


@pytest.mark.parametrize("sidecar", ["", "{", "null", "5", "[]", "{}", '"x"', '{"sha256": "d", "size": 4}'])
def test_a_sidecar_that_is_torn_or_not_ours_is_none(tmp_path: Path, sidecar: str) -> None:
    path = tmp_path / "some.gguf"
    path.write_bytes(b"GGUF")
    (tmp_path / "some.gguf.json").write_text(sidecar)
    assert model(path).verified is None


def test_a_model_may_be_a_link_and_need_not_be_there(tmp_path: Path) -> None:
    (tmp_path / "link.gguf").symlink_to(write(tmp_path / "real"))
    linked = model(tmp_path / "link.gguf")
    assert linked.file is not None
    assert (linked.file.kind, linked.is_gguf) == ("file", True)
    absent = model(tmp_path / "no" / "such" / "folder" / "some.gguf")
    assert (absent.file, absent.is_gguf) == (None, False)


def test_half_a_download_and_a_wrong_one_are_seen_by_their_size(tmp_path: Path) -> None:
    (tmp_path / "some.gguf.part").write_bytes(b"12345")
    (tmp_path / "some.gguf.bad").write_bytes(b"123")
    seen = model(tmp_path / "some.gguf")
    assert (seen.part_size, seen.bad_size) == (5, 3)


def test_a_home_is_the_hosts_own(home: Path) -> None:
    (home / "some.gguf").write_bytes(b"GGUF")
    assert look_at_model({"path": "~/some.gguf", "rest": [], "models": "~/models"})["path"] == str(home / "some.gguf")


def llama_cpp(**data: Any) -> LlamaCppSeen:
    return LlamaCppSeen.model_validate(look_at_llama_cpp(LLAMA_CPP.ask(hosts.wishes(**data))))


def release(home: Path, name: str = "a-1", stamp: str = "{}", sizes: str | None = "0 644 bin/server\n") -> Path:
    """A release on this machine: one empty program, its stamp and its list of sizes."""
    folder = home / ".local/share/paddock/releases" / name
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/server").touch(0o644)
    (folder / "stamp.json").write_text(stamp)
    (folder / "flags.txt").write_text("--cache-ram\n-fit\n")
    if sizes is not None:
        (folder / "sizes").write_text(sizes)
    return folder


def test_releases_are_those_with_a_stamp_and_drafts_are_none(home: Path) -> None:
    release(home, stamp='{"commit": "aaaa"}')
    release(home, ".b-2")
    (release(home, "c-3") / "stamp.json").unlink()
    assert llama_cpp().releases == {"a-1": {"commit": "aaaa"}}


@pytest.mark.parametrize(
    "sizes",
    [
        None,
        "",
        "\n",
        "0",
        "0 644 bin/other\n",
        "0 644 bin/server\n0 644 lib/libggml.so\n",
        "1 644 bin/server\n",
        "0 755 bin/server\n",
        "0 644 .\n",
        "\x00" * 64,
    ],
)
def test_a_release_that_is_not_whole_is_no_release(home: Path, sizes: str | None) -> None:
    release(home, sizes=sizes)
    assert llama_cpp().releases == {}


@pytest.mark.parametrize("stamp", ['{"commit": "aa', "5"])
def test_a_release_with_a_torn_stamp_is_no_release(home: Path, stamp: str) -> None:
    release(home, stamp=stamp)
    assert llama_cpp().releases == {}


def test_a_release_tells_its_options_its_size_and_whether_it_is_in_use(home: Path) -> None:
    release(home, sizes="0 644 bin/server\n")
    release(home, "b-2", sizes="700 644 bin/gone\n")
    unit = home / ".config/systemd/user/mine.service.d"
    unit.mkdir(parents=True)
    (unit / "own.conf").write_text(f"ExecStart={home}/.local/share/paddock/releases/b-2/bin/llama-server")
    seen = llama_cpp()
    assert seen.options == {"a-1": ("--cache-ram", "-fit")}
    assert {name: one.size for name, one in seen.shelf.items()} == {"a-1": 0, "b-2": 700}, "damaged ones lie there too"
    assert seen.in_use == ("b-2",)
    (home / ".local/share/paddock/last-good.json").write_text("ExecStart=/x/releases/a-1/bin/llama-server")
    assert set(llama_cpp().in_use) == {"a-1", "b-2"}


def test_a_release_that_does_not_tell_its_options_is_none(home: Path) -> None:
    (release(home) / "flags.txt").unlink()
    assert llama_cpp().releases == {}


def test_this_machines_compilers_and_libc_are_seen(home: Path) -> None:
    seen = llama_cpp()
    assert seen.compiler is not None
    assert all(Path(path).exists() and version[0].isdigit() for path, version in seen.compilers.items())
    assert seen.libc.startswith("glibc ")
    assert "sse2" in seen.cpu_flags or os.uname().machine != "x86_64"


def test_a_compiler_that_does_not_work_is_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = llama_cpp().compilers
    monkeypatch.setenv("PATH", local.tool(home / "bin", "g++", "exit 1\n"))
    after = llama_cpp()
    assert after.compiler is None
    assert after.compilers.items() <= before.items()


def nvcc(root: Path, release: str) -> Path:
    local.tool(root / "bin", "nvcc", f'echo "Cuda compilation tools, release {release}, V{release}.1"\n')
    return root


def test_a_toolkit_on_the_path_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "cuda").mkdir()
    root = nvcc(home / "cuda", "13.2")
    monkeypatch.setenv("PATH", f"{root}/bin", prepend=":")
    assert llama_cpp().toolkits[str(root / "bin/nvcc")].version == "13.2"
    assert llama_cpp(backend="cpu").toolkits == {}, "nobody looks for what is not needed"


@pytest.mark.parametrize("name", ["cuda-13.2", "cuda", "~/cuda-13.2"])
def test_a_toolkit_that_the_inventory_names_is_found_wherever_it_is(home: Path, name: str) -> None:
    (home / "cuda-13.2").mkdir()
    (home / "cuda").symlink_to(nvcc(home / "cuda-13.2", "13.2"))
    data: dict[str, Any] = {"backend": "cuda", "cuda_toolkit": name if name[0] == "~" else str(home / name)}
    seen, wanted = llama_cpp(**data), hosts.wishes(**data).settings.llama_cpp
    assert cuda.toolkit(wanted.cuda_toolkit, Nvidia("none"), seen, hosts.bare()[HOST]).version == "13.2"


def test_the_newest_gcc_that_a_toolkit_allows_is_read_from_its_header(home: Path) -> None:
    (home / "cuda").mkdir()
    header = nvcc(home / "cuda", "13.2") / "targets/x86_64-linux/include/crt/host_config.h"
    header.parent.mkdir(parents=True)
    header.write_text("#if __GNUC__ > 15\n#error -- unsupported GNU version! gcc versions later than 15 ...\n")
    seen = llama_cpp(backend="cuda", cuda_toolkit=str(home / "cuda"))
    assert seen.toolkits[str(home / "cuda/bin/nvcc")].gcc_max == 15


def history(home: Path, *lines: str) -> Any:
    path = home / "benchmarks.jsonl"
    path.write_text("".join(lines))
    return look_at_benchmark({"history": "~/benchmarks.jsonl", "schema": 2})["last"]


def test_the_last_figures_are_the_newest_whole_line_of_a_run_of_this_service(home: Path) -> None:
    old, new = '{"schema": 2, "kind": "full", "a": 1}\n', '{"schema": 2, "kind": "smoke", "a": 2}\n'
    assert history(home) is None
    assert history(home, old, new) == {"schema": 2, "kind": "smoke", "a": 2}
    assert history(home, old, new, '{"schema": 2, "ki') == {"schema": 2, "kind": "smoke", "a": 2}
    assert history(home, '{"sche\n', old) == {"schema": 2, "kind": "full", "a": 1}
    others = ['{"schema": 1}\n', '{"schema": 2, "kind": "ab"}\n']
    assert history(home, old, "\n", "5\n", "null\n", *others) == {"schema": 2, "kind": "full", "a": 1}


def test_what_only_charts_need_stays_on_the_host(home: Path) -> None:
    resources = '{"peak_ram_bytes": 5, "seconds": [1], "series": {"ram_mib": [1]}, "phases": []}'
    line = f'{{"schema": 2, "kind": "full", "resources": {resources}}}\n'
    assert history(home, line)["resources"] == {"peak_ram_bytes": 5}


def test_there_need_not_be_a_history(home: Path) -> None:
    assert look_at_benchmark({"history": "~/no/such.jsonl", "schema": 2}) == {"last": None}


def test_no_odd_file_on_the_host_hides_it(home: Path) -> None:
    """The whole way: what is found is an answer that can be read."""
    folder = home / ".local/share/paddock/releases/a-1"
    folder.mkdir(parents=True)
    (folder / "stamp.json").write_text("{}")
    (folder / "sizes").write_text("aaaa\n")
    (home / "some.gguf").write_bytes(b"GGUF")
    (home / "some.gguf.json").write_text('{"name": "somebody else\'s"}')
    answers = hosts.converged_answers()
    answers["model"] = look_at_model({"path": "~/some.gguf", "rest": [], "models": "~/models"})
    answers["llama_cpp"] |= {"releases": look_at_llama_cpp(LLAMA_CPP.ask(hosts.wishes()))["releases"]}
    seen = hosts.parsed(answers)
    assert (seen[LLAMA_CPP].releases, seen[MODEL].verified) == ({}, None)


def test_a_release_whose_libraries_are_gone_is_no_release(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = release(home)
    for said, releases in {
        "\tlibssl.so.3 => not found\n": [],
        "\tlibc.so.6 => /lib/libc.so.6 (0x1)\n": [folder.name],
    }.items():
        path = local.tool(home / "bin", "ldd", f"printf '{said}'\n".replace("\t", ""))
        monkeypatch.setenv("PATH", path)
        assert list(llama_cpp().releases) == releases
