"""The controller's copies of the hosts' histories, and the page made of them: reports/ beside the inventory.

reports/index.html
reports/HOST/benchmarks.jsonl       the host's own file, byte by byte
reports/HOST/benchmarks-1.jsonl     the same from before the host was set up anew
reports/HOST/host.json              what the host is called
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from roles.benchmark.record import Result, history, taken_back

FILE = "benchmarks.jsonl"
MOST = 256 << 20  # bytes of history that a host may send
# A name that is a folder's as it stands: no other name becomes the same one, on file systems without capitals neither.
PLAIN = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?")
MADE = re.compile(r".*-[0-9a-f]{8}")


class NotCopied(Exception):
    """What a host sent is no history; the text says why."""


def folder_name(host: str) -> str:
    """A folder for a host of any name. One that had to be changed gets a digest of the name, as two may look alike."""
    if PLAIN.fullmatch(host) and not MADE.fullmatch(host) and ".." not in host:
        return host
    kept = re.sub(r"[^a-z0-9]+", "-", host.lower()).strip("-")[:40]
    return f"{kept or 'host'}-{hashlib.sha256(host.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def folder(reports: Path, host: str) -> Path:
    return reports / folder_name(host)


def have(reports: Path, host: str) -> tuple[int, str]:
    """Bytes of the copy, and their sha256: what the host need not send again."""
    data = _read(folder(reports, host) / FILE)
    return len(data), hashlib.sha256(data).hexdigest()


def add(reports: Path, host: str, answer: list[str]) -> None:
    """Take what copy_program.py told. Raises NotCopied, and OSError where nothing can be written here."""
    place = folder(reports, host)
    begin, rest = _parsed(answer)
    old = _read(place / FILE)
    if begin not in (0, len(old)):
        raise NotCopied(f"the host's answer begins at byte {begin}, and {len(old)} bytes are here; run it again")
    _make(reports)
    place.mkdir(exist_ok=True)
    if old and begin == 0 and rest != old:
        numbers = [int(path.stem.rpartition("-")[2]) for path in place.glob("benchmarks-*.jsonl") if _numbered(path)]
        (place / FILE).rename(place / f"benchmarks-{max(numbers, default=0) + 1}.jsonl")
        old = b""
    write(place / "host.json", json.dumps({"host": host}) + "\n")
    write(place / FILE, (old if begin else b"") + rest)


@dataclass(frozen=True)
class Past:
    """What is here of a host: its results, the oldest first, and the stamps of the services that were taken back."""

    results: tuple[Result, ...] = ()
    rejected: frozenset[str] = frozenset()


def past(reports: Path, host: str) -> Past:
    """All of a host that can be read here."""
    return _past(folder(reports, host))


def lacks(reports: Path, host: str, last: Result | None) -> bool:
    """Whether the host's newest run is not here, while others are: whoever measured it did not come to the end."""
    here = {result.run for result in past(reports, host).results}
    return bool(here and last and last.run not in here)


def fleet(reports: Path) -> dict[str, Past]:
    """All hosts that there are copies of, by name."""
    found = {}
    for path in sorted(reports.glob("*/host.json")):
        try:
            name = json.loads(path.read_text("utf-8"))["host"]
        except (OSError, ValueError, KeyError, TypeError):
            name = path.parent.name
        found[str(name)] = _past(path.parent)
    return found


def write(path: Path, content: str | bytes) -> None:
    """Whole or not at all."""
    draft = path.with_name(path.name + ".new")
    draft.write_bytes(content.encode("utf-8", "replace") if isinstance(content, str) else content)
    draft.replace(path)


def _make(reports: Path) -> None:
    """The folder; figures are nobody's source code, so git is told to leave it alone."""
    reports.mkdir(parents=True, exist_ok=True)
    if not (reports / ".gitignore").exists():
        write(reports / ".gitignore", "*\n")


def _parsed(answer: list[str]) -> tuple[int, bytes]:
    try:
        begin, packed = int(answer[-2]), base64.b64decode(answer[-1], validate=True)
        unpack = zlib.decompressobj()
        rest = unpack.decompress(packed, MOST)
    except (IndexError, ValueError, binascii.Error, zlib.error) as error:
        raise NotCopied(f"the host's history did not arrive whole ({error}); run it again") from None
    if not unpack.eof:
        raise NotCopied(f"the host's history is longer than {MOST >> 20} MiB, or did not arrive whole")
    return begin, rest


def _past(place: Path) -> Past:
    older = sorted(filter(_numbered, place.glob("benchmarks-*.jsonl")), key=lambda path: int(path.stem.split("-")[-1]))
    text = "\n".join(_read(path).decode("utf-8", "replace") for path in [*older, place / FILE])
    lines = text.split("\n")
    return Past(history(lines), taken_back(lines))


def _numbered(path: Path) -> bool:
    return path.stem.rpartition("-")[2].isdigit()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
