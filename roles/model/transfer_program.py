"""Runs on the host, as the first half of the download: one curl at a time, and what it brought.

curl is told of URL and token on standard input. It hands the answer with its headers over a pipe, so that nothing is
written before it is known to belong to the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from email.utils import parsedate_to_datetime
from typing import Any

BLOCK = 1 << 20
MAGIC = b"GGUF"
SET_PIPE_SIZE = 1031  # Linux's F_SETPIPE_SZ; Python has a name for it from 3.10 on


class Again(Exception):
    """This try came to nothing; another may not. `wait`: seconds that the server asked for."""

    def __init__(self, why: str, wait: int = 0) -> None:
        super().__init__(why)
        self.wait = wait


class Wrong(Again):
    """The server sent something else than the file; that may pass, but seldom does."""


class Ignored(Again):
    """The server sent the whole file where its rest was asked for."""


def say(text: str) -> None:
    print(text, flush=True)


def fail(sentence: str) -> None:
    say("paddock: " + sentence)
    sys.exit(1)


def gb(size: float) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


def size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def wait_asked(headers: Any) -> int:
    """Seconds that an answer asks to wait: Retry-After, in seconds or until a date, or the Hub's own RateLimit, as in
    `"resolvers";r=0;t=120` (huggingface.co/docs/hub/rate-limits)."""
    told = headers.get("retry-after", "").strip()
    if told.isdecimal():
        return int(told)
    with contextlib.suppress(TypeError, ValueError, IndexError):
        return max(int(parsedate_to_datetime(told).timestamp() - time.time()) + 1, 0)
    left = re.search(r";\s*t=([0-9]+)", headers.get("ratelimit", ""))
    return int(left.group(1)) + 1 if left else 0


def hashed(path: str) -> Any:
    """The sha256 of a file so far, to be gone on with."""
    total, block = hashlib.sha256(), bytearray(BLOCK)
    with open(path, "rb", buffering=0) as file:
        while True:
            count = file.readinto(block)
            if not count:
                return total
            total.update(memoryview(block)[:count])


class Part:
    """What has come of a file, on the file system where it will be, and the sha256 of that."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.size = os.fstat(self.file).st_size
        if self.size:
            say("reading what has come of " + os.path.basename(path))
        self.sha256 = hashed(path)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self.file, view)
            self.sha256.update(view[:written])
            self.size += written
            view = view[written:]

    def empty(self) -> None:
        os.ftruncate(self.file, 0)
        self.size, self.sha256 = 0, hashlib.sha256()

    def close(self) -> None:
        os.fsync(self.file)
        os.close(self.file)


class Answer:
    """The headers of curl's answers, redirects and all; the last one's are `status` and `headers`."""

    def __init__(self, stream: Any, host: str) -> None:
        self.status, self.elsewhere = 0, False
        self.headers: dict[str, str] = {}
        while True:
            words = stream.readline(65536).split(None, 2)
            if len(words) < 2 or not words[0].startswith(b"HTTP/"):
                return
            self.status, self.headers = int(words[1]), {}
            for line in iter(lambda: stream.readline(65536).strip(), b""):
                name, _, value = line.decode("latin-1").partition(":")
                self.headers[name.strip().lower()] = value.strip()
            where = self.headers.get("location", "")
            if self.status // 100 != 1 and (self.status // 100 != 3 or not where):
                return
            # Another host answers by a signed link, which may have expired.
            self.elsewhere = self.elsewhere or ("://" in where and where.split("/")[2] != host)

    def number(self, name: str) -> int | None:
        digits = self.headers.get(name, "").rpartition("/")[2]
        return int(digits) if digits.isdecimal() else None


def judge(answer: Answer, part: Part, file: dict[str, Any], job: dict[str, Any]) -> None:
    """Whether this answer goes on with the file. Raises Again, or ends with a sentence."""
    status, who = answer.status, "the server behind " + job["source"] if answer.elsewhere else job["source"]
    if status in (408, 429) or status >= 500:
        raise Again(f"{who} answered {status}", wait_asked(answer.headers))
    if answer.elsewhere and status in (401, 403, 404, 410):
        raise Again(f"the link to the file has expired ({status})")
    repository = "/" in job["source"]  # or a host that knows nothing of the Hub's tokens
    if repository and (status == 401 or (status == 403 and answer.headers.get("x-error-code") == "GatedRepo")):
        have = "refused this machine's token" if job["token"] else "wants a token"
        fail(f"{who} {have} ({status}): accept the conditions of the repository, then log in with `hf auth login`")
    if status in (200, 206, 416) and answer.headers.get("content-type", "").lower().startswith("text/html"):
        raise Wrong("a web page came and not the file; is there a login page in this network?")
    total = answer.number("content-range" if status in (206, 416) else "content-length")
    if status == 416 and total is None:
        raise Wrong(f"{who} does not have the rest of {file['name']} (416)")
    if status == 416 or (status in (200, 206) and total is not None and total != file["size"]):
        raise Wrong(f"{who} has {total} bytes of {file['name']} and not {file['size']}, as its entry in the lock says")
    if status == 200 and part.size:
        raise Ignored(f"{who} sends the whole file where its rest is asked for")
    if status not in (200, 206):
        fail(f"{who} answered {status} for {file['name']}")
    if status == 206 and not answer.headers.get("content-range", "").startswith(f"bytes {part.size}-"):
        raise Again(f"{who} sent another part of the file than was asked for")


def transfer(part: Part, file: dict[str, Any], job: dict[str, Any], secret: dict[str, Any]) -> None:
    """One curl. Raises Again with the reason where it did not bring the rest of the file."""
    url = secret["urls"][file["number"]]
    settings = ["url = " + json.dumps(url)]
    if secret["token"]:
        # curl gives it to no other host than the URL's.
        settings.append("header = " + json.dumps("Authorization: Bearer " + secret["token"]))
    argv = ["curl", "-q", "--config", "-", "--include", "--location", "--silent", "--show-error", "--globoff"]
    argv += ["--suppress-connect-headers", "--proto", "=http,https", "--connect-timeout", "30"]
    argv += ["--proto-redir", "=https" if url.startswith("https:") else "=http,https"]
    argv += ["--speed-limit", "1", "--speed-time", str(job["stall"])]
    argv += ["--limit-rate", str(job["rate"])] if job["rate"] else []
    argv += ["--range", f"{part.size}-"] if part.size else []
    before = part.size
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as curl:
        assert curl.stdin
        assert curl.stdout
        assert curl.stderr
        with contextlib.suppress(OSError):
            fcntl.fcntl(curl.stdout, SET_PIPE_SIZE, BLOCK)  # fewer turns between curl and this program
        try:
            curl.stdin.write("\n".join(settings).encode() + b"\n")
            curl.stdin.close()
            stream: Any = curl.stdout  # a reader with a buffer, whatever its type says
            answer = Answer(stream, url.split("/")[2])
            if answer.status:
                judge(answer, part, file, job)
            if answer.status == 200 and answer.number("content-length") is None:
                first = stream.read(len(MAGIC))  # a page may call itself anything, and not tell its length
                if first and first != MAGIC:
                    raise Wrong(f"something else came than {file['name']}, of no known length")
                part.write(first)
            while part.size < file["size"]:
                data = stream.read1(BLOCK)
                if not data:
                    break
                part.write(data[: file["size"] - part.size])
        except BrokenPipeError:
            pass
        finally:
            if part.size >= file["size"] or sys.exc_info()[0]:
                curl.kill()
            told = curl.stderr.read().decode("utf-8", "replace").strip().splitlines()
    if part.size < file["size"]:
        raise Again(
            ended(curl.returncode, told, job) + (f" after {gb(part.size - before)}" if part.size > before else "")
        )


def ended(status: int, told: list[str], job: dict[str, Any]) -> str:
    """How curl ended, in words; never with a URL."""
    if status == 28 and "Operation too slow" in " ".join(told):
        return f"nothing came for {job['stall']} s"
    if status < 0:
        return f"curl was killed (signal {-status})"
    words = told[-1].split(") ", 1)[-1] if told else "the connection ended"
    return "curl: " + " ".join(word for word in words.split() if "://" not in word)
