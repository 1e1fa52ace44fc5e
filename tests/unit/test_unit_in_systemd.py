"""The unit and the words in it, read back by systemd itself where it is on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from roles.memory.ram import Limits
from roles.service.command import UNIT, Frame, arguments, escaped, unit_text
from tests.unit import seed
from tests.unit.hosts import MODEL_PATH

CAP = Limits(maximum=24 << 30, high=22 << 30, swap=0)
WORDS = {
    "plain": "plain",
    "a path": "/home/dev/.local/share/paddock/some-model_1.0.gguf",
    "blanks": "two  words",
    "leading blank": " x",
    "tab": "a\tb",
    "double quote": 'say "hi"',
    "single quote": "it's",
    "both quotes": """'"'""",
    "backslash": "back\\slash",
    "trailing backslash": "end\\",
    "backslash escapes": "\\n\\x41\\u00e4",
    "percent": "100%",
    "specifiers": "%h%n%%i",
    "variable": "$HOME",
    "braced variable": "${HOME}",
    "dollar at the end": "cash$",
    "two dollars": "$$",
    "semicolon": ";",
    "semicolon in a word": "a;b",
    "hash": "#hash",
    "brackets": "[Service]",
    "equals": "A=B",
    "glob": "*?",
    "unicode": "modèle-模型-🐎",
    "dash": "-",
    "empty": "",
}

EXPECTED = {
    "plain": "plain",
    "blanks": '"two  words"',
    "double quote": '"say \\"hi\\""',
    "single quote": '"it\'s"',
    "backslash": '"back\\\\slash"',
    "percent": "100%%",
    "variable": "$$HOME",
    "semicolon": '";"',
    "hash": '"#hash"',
    "unicode": "modèle-模型-🐎",
    "empty": '""',
}


@pytest.mark.parametrize(("name", "text"), EXPECTED.items())
def test_a_word_is_written_by_systemds_rules(name: str, text: str) -> None:
    assert escaped(WORDS[name]) == text


def dump(unit: Path, *lines: str) -> str:
    """What systemd understood: its parser dumps a unit when it is asked to verify it at level debug."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not on this machine")
    unit.write_text("\n".join([*lines, ""]), "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        env={**os.environ, "SYSTEMD_LOG_LEVEL": "debug", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def command_lines(dumped: str) -> list[list[str]]:
    return [split(line) for line in re.findall(r"^\s*Command Line: (.*)$", dumped, re.M)]


def split(line: str) -> list[str]:
    """systemd's dump back into words: bare, or in double quotes with C's escapes."""
    words = re.findall(r'"(?:[^"\\]|\\.)*"|\S+', line)
    return [re.sub(r"\\(.)", unescape, word[1:-1]) if word[0] == '"' else word for word in words]


def unescape(match: re.Match[str]) -> str:
    return {"t": "\t", "n": "\n"}.get(match[1], match[1])


@pytest.fixture(scope="module")
def read_back(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    unit = tmp_path_factory.mktemp("units") / "words.service"
    lines = [f"ExecStart=/bin/true {escaped(word)} end" for word in WORDS.values()]
    return dict(zip(WORDS, command_lines(dump(unit, "[Service]", "Type=oneshot", *lines)), strict=True))


@pytest.mark.parametrize("name", WORDS)
def test_systemd_reads_a_word_back_as_it_was(name: str, read_back: dict[str, list[str]]) -> None:
    program, *words = read_back[name]
    # $$ stands for $ (systemd.service, "Command lines"); that is settled when the process starts, after the parser.
    assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", words[0]), "systemd would put a variable here"
    assert (program, [word.replace("$$", "$") for word in words]) == ("/bin/true", [WORDS[name], "end"])


def test_what_is_not_escaped_does_not_come_back(tmp_path: Path) -> None:
    dumped = dump(tmp_path / "words.service", "[Service]", "Type=oneshot", "ExecStart=/bin/true two words %n")
    assert command_lines(dumped) == [["/bin/true", "two", "words", "words.service"]]


def test_systemd_accepts_the_seeds_unit_and_holds_its_cap(tmp_path: Path) -> None:
    told = subprocess.run(["systemctl", "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    systemd = int(told.split()[1])
    wanted = seed.wishes().settings.service
    words = ["/bin/true", *arguments(wanted, MODEL_PATH, (), device=True)]
    dumped = dump(tmp_path / UNIT, unit_text(words, "Mix-12G.gguf", Frame(CAP, systemd), ""))
    assert command_lines(dumped) == [words]
    assert "Unknown key" not in dumped
    held = dict(re.findall(r"^\s*(\w+): (.*)$", dumped, re.M))
    assert (int(held["MemoryMax"]), int(held["MemoryHigh"])) == (24 << 30, 22 << 30)
    assert (held["MemorySwapMax"], held["OOMPolicy"], held["UMask"]) == ("0", "stop", "0077")
    assert held["Description"] == "llama.cpp server (Mix-12G.gguf)"


def test_a_nasty_file_name_is_told_as_it_is(tmp_path: Path) -> None:
    name = 'my "best" $100% model\\1.gguf'
    dumped = dump(tmp_path / UNIT, unit_text(["/bin/true", "-m", name], name, Frame(CAP), ""))
    assert f"\tDescription: llama.cpp server ({name})\n" in dumped
    assert [word.replace("$$", "$") for word in command_lines(dumped)[0]] == ["/bin/true", "-m", name]
