"""What the Hub and its CDN share: the server, the state, and answers with ranges and faults."""

from __future__ import annotations

import contextlib
import io
import json
import re
import socket
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

from tests.lab.hub.counters import CONTROL, Counters
from tests.lab.hub.faults import Fault, FaultBook, spoiled

if TYPE_CHECKING:
    from tests.lab.hub.repo import File, Repo

SEND_BUFFER = 128 * 1024  # bytes; small, so that "sent" and "received" stay close
IDLE_SECONDS = 60.0  # a keep-alive connection without a request is closed after this time
PORTAL = b"<!DOCTYPE html><html><title>Welcome</title><body>Please log in to use this network.</body></html>\n"


@dataclass
class Lab:
    """The state behind both listeners. `users`: every known token, and whether gated repositories accept it."""

    repos: dict[str, Repo]
    renames: dict[str, str]  # old name: new name
    users: dict[str, bool]
    link_seconds: float  # life of a link to the CDN
    cdn_url: str = ""
    faults: FaultBook = field(default_factory=FaultBook)
    counters: Counters = field(default_factory=Counters)
    closing: threading.Event = field(default_factory=threading.Event)
    failures: list[str] = field(default_factory=list)  # exceptions of handlers: mistakes of the lab itself

    def __post_init__(self) -> None:
        self._branches = {name: dict(repo.branches) for name, repo in self.repos.items()}

    def reset(self) -> None:
        """Forget all faults and counts, and put moved branches back where they were at the start."""
        self.faults.clear()
        self.counters.reset()
        for name, branches in self._branches.items():
            self.repos[name].branches = dict(branches)


class Server(ThreadingHTTPServer):
    """One listener, whose threads all end when it is closed."""

    daemon_threads = False  # so that server_close() joins them

    def __init__(self, address: tuple[str, int], handler: type[Handler], lab: Lab) -> None:
        self.lab = lab
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(address, handler)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection, then serve it in a thread of its own."""
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End one connection."""
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def close(self) -> None:
        """Stop listening, cut the open connections and wait for their threads."""
        self.shutdown()
        with self._open_lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is normal; anything else is a mistake of the lab and is kept for the tests."""
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            self.lab.failures.append(repr(error))
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Reads a request, lets the faults have their way, and answers."""

    protocol_version = "HTTP/1.1"
    server_version = "PaddockLabHub"
    sys_version = ""
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True
    host = ""  # "hub" or "cdn"
    server: Server

    def do_GET(self) -> None:
        """Serve one request of any method."""
        url = urlsplit(self.path)
        self.url_path = url.path
        self.query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        self.request_body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.faults: list[Fault] = []
        if url.path.startswith(CONTROL):
            self.control()
            return
        if header := self.headers.get("Authorization"):
            self.lab.counters.authorization(self.host, header)
        self.faults = self.lab.faults.take(self.host, self.command, url.path)
        if not self._faulty_answer():
            self.answer()

    do_HEAD = do_POST = do_GET

    @property
    def lab(self) -> Lab:
        """The shared state."""
        return self.server.lab

    def answer(self) -> None:
        """Answer the request; the two listeners differ here."""
        raise NotImplementedError

    def control(self) -> None:
        """Answer a request to /_lab/, which is neither counted nor spoiled."""
        self.reply(404, b"no control here\n")

    def fault(self, kind: str) -> Fault | None:
        """The fault of this kind that this request is to suffer, if any."""
        return next((fault for fault in self.faults if fault.kind == kind), None)

    def _faulty_answer(self) -> bool:
        """Do what must happen before or instead of the answer; True when it was instead."""
        if wait := self.fault("wait"):
            self.lab.closing.wait(wait.seconds)
        if move := self.fault("move"):
            self.lab.repos[move.repo].move(move.branch, move.commit)
        if self.fault("hangup"):
            self._begin(status=0)
            self.close_connection = True
            return True
        if fault := self.fault("portal"):
            self.reply(200, PORTAL, {"Content-Type": fault.content_type})
            return True
        if fault := self.fault("status"):
            headers = {"Retry-After": fault.retry_after, "RateLimit": fault.rate_limit}
            told = {name: value for name, value in headers.items() if value is not None}
            self.reply(fault.status, b"a fault on demand\n", told)
            return True
        return False

    def _begin(self, status: int) -> dict[str, Any]:
        """Count and log the answer that begins now; status 0: none. Returns the entry of the log."""
        entry = {
            "host": self.host,
            "method": self.command,
            "path": self.url_path,
            "range": self.headers.get("Range"),
            "status": status,
            "bytes": 0,
            "user_agent": self.headers.get("User-Agent"),
        }
        self.lab.counters.begin(entry)
        return entry

    def reply_json(self, data: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Answer with `data` as JSON."""
        body = json.dumps(data, indent=1).encode()
        self.reply(status, body, {"Content-Type": "application/json; charset=utf-8", **(headers or {})})

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Answer with a short body."""
        self._send(status, io.BytesIO(body), 0, len(body), {"Content-Type": "text/plain", **(headers or {})})

    def reply_file(self, file: File, etag: str, headers: dict[str, str]) -> None:
        """Answer with a file or with the one range of it that the request asks for (200, 206 or 416)."""
        short = self.fault("short")
        size = file.size if short is None else min(file.size, short.at)
        headers = {"Content-Type": "application/octet-stream", "ETag": etag, **headers}
        wanted = self.headers.get("Range")
        if self.fault("no-range") or self.headers.get("If-Range", etag) != etag:
            wanted = None
        else:
            headers["Accept-Ranges"] = "bytes"
        part = parse_range(wanted, size)
        with file.open() as source:
            if part is None:
                self._send(200, source, 0, size, headers)
            elif part[0] >= part[1]:
                self._send(416, source, 0, 0, {**headers, "Content-Range": f"bytes */{size}"})
            else:
                start, stop = part
                headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
                self._send(206, source, start, stop, headers)

    def _send(self, status: int, source: BinaryIO, start: int, stop: int, headers: dict[str, str]) -> None:
        entry = self._begin(status)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if any(fault.endless for fault in self.faults):
            self.send_header("Connection", "close")  # which ends the body too
        else:
            self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        if self.command == "HEAD":
            return
        for piece in spoiled(source, start, stop, self.faults, self.lab.closing.wait):
            self._send_piece(piece, entry)
        if entry["bytes"] < stop - start:
            self.close_connection = True  # a dropped body

    def _send_piece(self, piece: bytes, entry: dict[str, Any]) -> None:
        self.lab.counters.sent(entry, len(piece))
        try:
            self.wfile.write(piece)
        except OSError:
            self.lab.counters.sent(entry, -len(piece))
            raise

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the screen: the counters hold what tests want to know."""


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Start and stop (exclusive) of a Range header's one range; empty when it lies beyond `size` bytes.

    None: the whole file, also for what a server may ignore (several ranges, nonsense).
    """
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", (header or "").replace(" ", ""))
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if first == "":
        return max(0, size - int(last)), size
    start = int(first)
    if last and int(last) < start:
        return None
    return start, min(size, int(last) + 1) if last else size
