"""What the gate needs of a host: the unit in its systemd manager, its journal, the server's HTTP, files of its own."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from roles.probe_tools import api_keys, read, run


class Trouble(Exception):
    """Why a service is not what it should be, in one sentence."""


class Served:
    """The unit of a record, in its systemd manager."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record, self.name = record, record["unit"]
        user = record["manager"] == "user"
        self.flags = ["--user"] if user else []
        folder = os.path.expanduser("~/.config/systemd/user") if user else "/etc/systemd/system"
        self.path = os.path.join(folder, self.name)

    def ctl(self, *words: str, seconds: float = 60) -> str | None:
        """What systemctl printed; None where it failed or hung."""
        done = run(["systemctl", *self.flags, *words], seconds)
        return done["out"].strip() if done and done["rc"] == 0 else None

    def show(self, *names: str) -> dict[str, str]:
        """Properties as systemd prints them. A manager that is busy is asked again. Raises Trouble."""
        for _ in range(5):
            told = self.ctl("show", "--property=" + ",".join(names), self.name)
            if told is not None:
                return dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
            time.sleep(1)
        raise Trouble("systemd does not answer")

    def text(self) -> str:
        """The unit file as it is on disk."""
        return read(self.path) or ""

    def holds(self, record: dict[str, Any]) -> bool:
        """Whether the unit on disk is this record's."""
        return "PADDOCK_STAMP=" + record["stamp"] + "\n" in self.text()

    def journal(self, *words: str) -> list[str]:
        """The unit's lines, and systemd's own about it. Nothing where this user may not read them."""
        command = ["journalctl", *self.flags, "--unit=" + self.name, "--output=cat", "--no-pager", "--quiet", *words]
        done = run(command, 30)
        return done["out"].splitlines() if done else []

    def since(self, moment: float, pid: str = "") -> list[str]:
        """Its lines since a moment (seconds since 1970), of one process where one is named."""
        return self.journal(f"--since=@{moment:.3f}", *(["_PID=" + pid] if pid else []))


class Server:
    """llama-server's HTTP. Never through a proxy: it is on this machine. The key shows up in no process list."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.url, keys = record["url"], api_keys(record["key_file"])
        self.key = keys[0] if keys else ""
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(self, path: str, body: Any = None, seconds: float = 30, keyed: bool = True) -> tuple[int, Any]:
        """HTTP status and JSON; status 0 where nobody answers in time, or what answers speaks no HTTP."""
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        if keyed and self.key:
            request.add_header("Authorization", "Bearer " + self.key)
        try:
            with self.opener.open(request, timeout=seconds) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            error.close()
            return error.code, None
        except (OSError, ValueError, http.client.HTTPException):
            return 0, None


def load(path: str) -> Any:
    """A file of our own; None where it is not there, torn, or somebody else's."""
    try:
        told = json.loads(read(path) or "null")
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def save(path: str, value: Any) -> None:
    """Whole or not at all. Where root keeps it, the user who deploys must be able to read it; no key is in it."""
    write(path, json.dumps(value, ensure_ascii=False) + "\n", 0o644 if os.getuid() == 0 else 0o600)


def write(path: str, text: str, mode: int = 0o644) -> None:
    new = os.path.join(os.path.dirname(path), "." + os.path.basename(path) + ".new")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


@contextlib.contextmanager
def alone(data: str, seconds: float) -> Iterator[None]:
    """Two of us must not write over each other. Raises Trouble where another is at work for too long."""
    with open(os.path.join(data, "service.lock"), "w") as lock:
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= end:
                    waited = f", and did not end within {seconds:.0f} s" if seconds else ""
                    raise Trouble(f"another run is at work on the service{waited}") from None
                time.sleep(0.2)
        yield


def say(text: str) -> None:
    """For who follows, who may be gone."""
    try:
        print(text, flush=True)
    except BrokenPipeError:  # what is still unwritten when Python ends would make its exit status 120
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:  # a full disk
        pass


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"
