"""A stand-in for llama-server: tokens are words, one slot keeps the last conversation, timings are as a test wants."""

from __future__ import annotations

import contextlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import TracebackType
from typing import Any

REPLY = 7  # every token of an answer


class FakeLlama:
    """`timings` are merged over honest ones; `status` other than 200 is answered to everything. `pause`: seconds before
    the first token that the server's own clock does not know of. `hang`: no token comes until the client has gone.
    `slow_turn`: seconds more where the cache may be used. `forgets`: nothing of a conversation is kept. `n_ctx`: what
    /props tells."""

    def __init__(self) -> None:
        self.timings: dict[str, Any] = {}
        self.status, self.n_ctx, self.pause, self.slow_turn = 200, 8192, 0.0, 0.0
        self.hang = self.forgets = False
        self.slot: list[int] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.authorizations: list[str] = []
        self.over = Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.tell(200, fake.known(self.path))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.asked.append((self.path, body))
                fake.authorizations.append(str(self.headers["Authorization"]))
                if fake.status != 200:
                    self.tell(fake.status, {"error": {"message": "it broke"}})
                elif self.path == "/tokenize":
                    self.tell(200, {"tokens": list(range(len(body["content"].split())))})
                elif fake.hang:
                    fake.over.wait(20)
                else:
                    fake.over.wait(fake.pause + fake.slow_turn * body["cache_prompt"])
                    self.tell(200, *fake.events(body))

            def tell(self, status: int, *answers: dict[str, Any]) -> None:
                lines = [json.dumps(answer) for answer in answers]
                text = lines[0] if len(lines) == 1 else "".join(f"data: {line}\n\n" for line in lines)
                self.send_response(status)
                self.end_headers()
                with contextlib.suppress(BrokenPipeError):  # who asked was killed
                    self.wfile.write(text.encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def known(self, path: str) -> dict[str, Any]:
        if path == "/props":
            told = {"build_info": "b1000-f7cb80cb8", "model_ftype": "Q4_K - Medium"}
            return {**told, "default_generation_settings": {"n_ctx": self.n_ctx}}
        if path == "/v1/models":
            return {"data": [{"meta": {"size": 18228262, "n_params": 27018752}}]}
        return {"status": "ok"}

    def events(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The answer as a stream: a token each, then the timings."""
        prompt, count = body["prompt"], body["n_predict"]
        same = 0
        while body["cache_prompt"] and same < min(len(prompt) - 1, len(self.slot)) and prompt[same] == self.slot[same]:
            same += 1
        same = 0 if self.forgets else same
        self.slot = [*prompt, *[REPLY] * (count - 1)]  # the last token is told and not read
        honest = {
            "cache_n": same,
            "prompt_n": len(prompt) - same,
            "prompt_ms": 1.0,
            "prompt_per_second": 874.9876,
            "predicted_n": count,
            "predicted_ms": 1.0,
            "predicted_per_second": 22.4567,
        }
        tokens: list[dict[str, Any]] = [{"tokens": [REPLY], "stop": False} for _ in range(count)]
        return [*tokens, {"tokens": [], "stop": True, "timings": {**honest, **self.timings}}]

    def completions(self) -> list[dict[str, Any]]:
        return [body for path, body in self.asked if path == "/completion"]

    def __enter__(self) -> FakeLlama:
        self.thread = Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.over.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
