"""What the lab's Hub and CDN saw and sent, so that tests can prove what a client did and did not do."""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import Any

LOG_LENGTH = 2000  # requests


class Counters:
    """Counts per host ("hub", "cdn"). Safe to use from many threads.

    requests       how often per "METHOD /path" and status
    bytes          body bytes handed to the network per path; a client that goes away may have read up to a socket
                   buffer (about 0.3 MB) less
    authorization  how often each Authorization header came
    log            the last requests in order of their end: host, method, path, range, status, bytes, user_agent
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

    def authorization(self, host: str, header: str) -> None:
        """A request to `host` carried this Authorization header."""
        with self._lock:
            self._authorization[host][header] += 1

    def sent(self, host: str, path: str, count: int) -> None:
        """`count` bytes of a body went out."""
        with self._lock:
            self._bytes[host][path] += count

    def done(self, entry: dict[str, Any]) -> None:
        """A request has ended, well or not: count it and add it to the log."""
        with self._lock:
            request = f"{entry['method']} {entry['path']}"
            self._requests[entry["host"]].setdefault(request, Counter())[str(entry["status"])] += 1
            self._log.append(entry)

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
            return {**hosts, "log": list(self._log)}
