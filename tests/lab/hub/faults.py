"""Faults on demand: which request goes wrong, and how a body goes wrong."""

from __future__ import annotations

import dataclasses
import threading
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIECE = 64 * 1024  # bytes read and sent at a time

ANSWERS = {"status", "portal", "hangup"}  # the whole answer is the fault
BODIES = {"drop", "slow", "stall", "corrupt", "short", "no-range"}  # only a GET has a body to spoil
OTHERS = {"wait", "expired", "move"}
KINDS = ANSWERS | BODIES | OTHERS


@dataclasses.dataclass
class Fault:
    """One thing to do wrong, to the requests that match.

    kind      what happens, with the fields that it reads:
      status    answer `status`, with `Retry-After: retry_after` and `RateLimit: rate_limit` where they are set
      portal    answer 200 with the login page of a captive portal, called `content_type`; `endless`: without a length
      hangup    close the connection without an answer
      drop      close the connection after `at` bytes of the body
      slow      send `rate` bytes a second
      stall     after `at` bytes of the body send nothing for `seconds`, then go on
      corrupt   flip the byte at offset `at` of the file: right size, wrong content
      short     serve the file as if it ended after `at` bytes, with honest headers
      no-range  ignore Range: 200 and the whole body
      wait      nothing at all for `seconds`, then the answer
      expired   redirect to the CDN by a link that has expired
      move      move `branch` of `repo` to `commit` before answering (another push in between)
    path      pattern (`*`, `?`) on the path of the URL, without its query
    host      "hub", "cdn", or None for both; a fault of the body means the CDN unless it says otherwise
    method    "GET", "HEAD", or None for both
    skip      matching requests that stay well before the first that goes wrong
    times     how many go wrong; None: all until reset
    """

    kind: str
    path: str = "*"
    host: str | None = None
    method: str | None = None
    skip: int = 0
    times: int | None = 1
    status: int = 500
    retry_after: str | None = None
    rate_limit: str | None = None
    content_type: str = "text/html"
    endless: bool = False
    at: int = 0
    rate: int = 1 << 20
    seconds: float = 0.0
    repo: str = ""
    branch: str = "main"
    commit: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r}; known: {', '.join(sorted(KINDS))}")
        if self.host not in (None, "hub", "cdn"):
            raise ValueError(f"unknown host {self.host!r}; known: hub, cdn")
        if min(self.at, self.skip, self.seconds) < 0 or self.rate < 1:
            raise ValueError("at, skip and seconds must not be negative, and rate at least 1 byte a second")
        if self.kind in BODIES and self.host is None:
            self.host = "cdn"  # and not the few bytes of the redirect to it

    def matches(self, host: str, method: str, path: str) -> bool:
        """Whether this request is one of those meant."""
        if self.kind in BODIES and method != "GET":
            return False
        if self.kind == "expired" and "/resolve/" not in path:
            return False
        return self.host in (None, host) and self.method in (None, method) and fnmatchcase(path, self.path)


class FaultBook:
    """The faults that are still to happen. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def add(self, *faults: Fault) -> None:
        """Arrange for `faults`. The book keeps copies, whose `skip` and `times` it counts down."""
        with self._lock:
            self._faults += [dataclasses.replace(fault) for fault in faults]

    def clear(self) -> None:
        """Forget all faults."""
        with self._lock:
            self._faults.clear()

    def pending(self) -> list[dict[str, Any]]:
        """What is still to happen, ready for JSON."""
        with self._lock:
            return [dataclasses.asdict(fault) for fault in self._faults]

    def take(self, host: str, method: str, path: str) -> list[Fault]:
        """The faults of this request, counted as happened. At most one of ANSWERS, and then nothing else."""
        with self._lock:
            matching = [fault for fault in self._faults if fault.matches(host, method, path)]
            ready = [fault for fault in matching if fault.skip <= 0]
            for fault in matching:
                fault.skip -= fault.skip > 0
            chosen = [fault for fault in ready if fault.kind in ANSWERS][:1] or ready
            for fault in chosen:
                if fault.times is not None:
                    fault.times -= 1
            self._faults = [fault for fault in self._faults if fault.times is None or fault.times > 0]
            return chosen


def spoiled(
    source: BinaryIO, start: int, stop: int, faults: list[Fault], pause: Callable[[float], object]
) -> Iterator[bytes]:
    """The bytes `start` to `stop` (exclusive) of `source`, in pieces, with the faults of BODIES that shape them.

    A `drop` ends the iteration early. `pause` waits for a number of seconds.
    """
    by_kind = {fault.kind: fault for fault in faults}
    drop, slow = by_kind.get("drop"), by_kind.get("slow")
    stall, corrupt = by_kind.get("stall"), by_kind.get("corrupt")
    end = stop if drop is None else min(stop, start + drop.at)
    stall_at = None if stall is None else start + stall.at
    piece_size = PIECE if slow is None else max(1, min(PIECE, slow.rate // 10))
    position = start
    source.seek(start)
    while True:
        if stall is not None and position == stall_at:
            pause(stall.seconds)
            stall_at = None
        if position >= end:
            return
        edge = min(end, stall_at) if stall_at is not None and stall_at > position else end
        piece = source.read(min(piece_size, edge - position))
        if corrupt is not None and position <= corrupt.at < position + len(piece):
            spoilt = bytearray(piece)
            spoilt[corrupt.at - position] ^= 0xFF
            piece = bytes(spoilt)
        yield piece
        position += len(piece)
        if slow is not None:
            pause(len(piece) / slow.rate)
