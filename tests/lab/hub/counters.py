"""What the lab's Hub and CDN saw and sent, so that tests can prove what a client did and did not do."""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import Any

LOG_LENGTH = 2000  # requests
CONTROL = "/_lab/"  # paths of the tests' own requests, which are not counted


class Counters:
    """Counts per host ("hub", "cdn"). Safe to use from many threads.

    requests       how often per "METHOD /path" and status
    bytes          body bytes handed to the network per path; a client that goes away may have read less,
                   by what the buffers of the two sockets hold
    authorization  how often each Authorization header came
    log            the last answers in their order: host, method, path, range, status, bytes, user_agent
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Start again at nothing."""
        with self._lock:
            self._requests: dict[str, dict[str, Counter[str]]] = {"hub": {}, "cdn": {}}
            self._bytes: dict[str, Counter[str]] = {"hub": Counter(), "cdn": Counter()}
            self._authorization: dict[str, Counter[str]] = {"hub": Counter(), "cdn": Counter()}
            self._log: deque[dict[str, Any]] = deque(maxlen=LOG_LENGTH)
            # An answer that is cut off notices it a piece later, when a test may have begun to count anew.
            self._begun: dict[int, dict[str, Any]] = {}

    def authorization(self, host: str, header: str) -> None:
        """A request to `host` carried this Authorization header."""
        with self._lock:
            self._authorization[host][header] += 1

    def begin(self, entry: dict[str, Any]) -> None:
        """An answer begins: count it and log `entry`. Before its first byte, so that a client cannot outrun us."""
        if entry["path"].startswith(CONTROL):
            return
        with self._lock:
            request = f"{entry['method']} {entry['path']}"
            self._requests[entry["host"]].setdefault(request, Counter())[str(entry["status"])] += 1
            self._log.append(entry)
            self._begun[id(entry)] = entry

    def sent(self, entry: dict[str, Any], count: int) -> None:
        """`count` bytes of this answer's body go out (or, negative, did not after all)."""
        with self._lock:
            entry["bytes"] += count
            if id(entry) in self._begun:
                self._bytes[entry["host"]][entry["path"]] += count

    def snapshot(self) -> dict[str, Any]:
        """All of it as plain dictionaries and lists, ready for JSON."""
        with self._lock:
            hosts = {
                host: {
                    "requests": {request: dict(by) for request, by in self._requests[host].items()},
                    "bytes": dict(self._bytes[host]),
                    "authorization": dict(self._authorization[host]),
                }
                for host in ("hub", "cdn")
            }
            return {**hosts, "log": [dict(entry) for entry in self._log]}
