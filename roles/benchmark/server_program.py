"""Runs on the host: one pass through llama-server as it is served, by its own clock (`timings`) and by ours.

Prompts are token ids, so nothing is added or cut. Answers are streamed: the first token's arrival parts reading from
generating for our clock too.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any, NamedTuple

WAIT = 600  # seconds that a server may take to load its model


class NotAsExpected(Exception):
    """llama-server answered something else; the text is a sentence."""


class TooLate(Exception):
    """The pass took longer than it may."""


class Pass(NamedTuple):
    """`timings` are the server's. Seconds until the first token, and from there to the last; `reply`: its token ids."""

    timings: dict[str, Any]
    first: float
    rest: float
    reply: list[int]

    @property
    def pp(self) -> float:
        return float(self.timings["prompt_per_second"])

    @property
    def tg(self) -> float:
        return float(self.timings["predicted_per_second"])

    @property
    def pp_wall(self) -> float | None:
        return self.timings["prompt_n"] / self.first if self.first > 0 else None

    @property
    def tg_wall(self) -> float | None:
        return (self.timings["predicted_n"] - 1) / self.rest if self.rest > 0 else None

    @property
    def disagreement(self) -> float:
        """Seconds that our clock saw and the server's did not."""
        return self.first + self.rest - self.seconds

    @property
    def seconds(self) -> float:
        """The server's own."""
        return float(self.timings["prompt_ms"] + self.timings["predicted_ms"]) / 1000


class Server:
    """llama-server at a URL. A pass can be broken off from another thread."""

    def __init__(self, url: str, key_file: str) -> None:
        self.place, self.key = urllib.parse.urlsplit(url), "none"
        self.connection: http.client.HTTPConnection | None = None
        if key_file:
            with open(key_file) as file:
                lines = [line.strip() for line in file]
            self.key = next((line for line in lines if line and line[0] != "#" and not set('"\\') & set(line)), "none")

    def ask(self, path: str, body: Any = None, seconds: float = 60) -> Any:
        """An answer as a whole. Raises NotAsExpected and OSError."""
        return json.load(self._answer(path, body, seconds))

    def complete(self, prompt: list[int], tokens: int, cache: bool, seconds: float) -> Pass:
        """A completion of exactly so many tokens. Raises NotAsExpected, TooLate and OSError."""
        body = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "cache_prompt": cache, "temperature": 0}
        reply: list[int] = []
        began, first = time.monotonic(), 0.0
        try:
            for event in self._events({**body, "seed": 1, "stream": True, "return_tokens": True}, seconds):
                now = time.monotonic() - began
                first = first or now
                reply += event.get("tokens") or []
                if event.get("stop"):
                    return Pass(event["timings"], first, now - first, reply)
                if now > seconds:
                    raise TooLate
        except socket.timeout:  # noqa: UP041 - another class before Python 3.10
            raise TooLate from None
        # AttributeError and ValueError too: a connection that was closed by another thread in the middle of reading.
        except (AttributeError, KeyError, ValueError, http.client.HTTPException) as error:
            raise NotAsExpected(f"llama-server did not answer as expected: {error!r}") from None
        finally:
            self.stop()
        raise NotAsExpected("llama-server broke off in the middle of an answer")

    def stop(self) -> None:
        """Break off what is under way; the server sees the closed connection, and stops too."""
        connection, self.connection = self.connection, None
        if connection:
            if connection.sock:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()

    def wait(self, seconds: float = WAIT) -> None:
        """Until the model is loaded. Raises NotAsExpected."""
        end = time.monotonic() + seconds
        while True:
            try:
                self.ask("/health", seconds=5)
                return
            except (OSError, NotAsExpected) as error:
                if time.monotonic() > end:
                    raise NotAsExpected(f"llama-server does not answer: {error}") from None
            time.sleep(0.5)

    def _answer(self, path: str, body: Any, seconds: float) -> http.client.HTTPResponse:
        """Never through a proxy: the server is on this machine."""
        self.stop()
        connection = http.client.HTTPConnection(self.place.hostname or "", self.place.port, timeout=seconds)
        self.connection = connection
        headers = {"Content-Type": "application/json", "Authorization": "Bearer " + self.key}
        text = None if body is None else json.dumps(body).encode()
        connection.request("GET" if text is None else "POST", path, text, headers)
        answer = connection.getresponse()
        if answer.status != 200:
            said = answer.read(4096).decode("utf-8", "replace")
            with contextlib.suppress(ValueError, KeyError, TypeError):
                said = json.loads(said)["error"]["message"]
            raise NotAsExpected(f"llama-server did not answer as expected: HTTP {answer.status}: {said[:200]}")
        return answer

    def _events(self, body: dict[str, Any], seconds: float) -> Iterator[dict[str, Any]]:
        for line in self._answer("/completion", body, seconds):
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                if "error" in event:
                    raise NotAsExpected(f"llama-server did not answer as expected: {event['error'].get('message')}")
                yield event
            elif line.startswith(b"error: "):
                raise NotAsExpected(
                    f"llama-server did not answer as expected: {line[7:207].decode('utf-8', 'replace')}"
                )
