"""A stand-in for llama-server: it counts tokens as words and tells the timings that a test wants."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from types import TracebackType
from typing import Any


class FakeLlama:
    """`timings` are merged over honest ones; `status` other than 200 is answered to everything."""

    def __init__(self) -> None:
        self.timings: dict[str, Any] = {}
        self.status = 200
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.authorizations: list[str] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.asked.append((self.path, body))
                fake.authorizations.append(str(self.headers["Authorization"]))
                answer = json.dumps(fake.answer(self.path, body)).encode()
                self.send_response(fake.status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "/tokenize":
            return {"tokens": list(range(len(body["content"].split())))}
        honest = {
            "cache_n": 0,
            "prompt_n": len(body["prompt"]),
            "prompt_per_second": 874.9876,
            "predicted_n": body["n_predict"],
            "predicted_per_second": 22.4567,
        }
        return {"content": "x", "timings": {**honest, **self.timings}}

    def completions(self) -> list[dict[str, Any]]:
        return [body for path, body in self.asked if path == "/completion"]

    def __enter__(self) -> FakeLlama:
        self.thread = Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
