"""Runs on the host, in a transient unit: gets a model by curl, each file under its name once its sha256 is right.

Killed anywhere and run again, it goes on where it was. What to get comes as JSON in the first argument; the URLs and
the token in a file in memory, which is removed at once. curl is told of them on standard input, and hands the answer
with its headers over a pipe, so that nothing is written before it is known to belong to the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from typing import Any

BLOCK = 1 << 20
SPARE = 64 << 20  # bytes to leave free on the disk


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

    def __init__(self, stream: Any) -> None:
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
            # Behind an absolute redirect another host answers, by a signed link that may have expired.
            self.elsewhere = self.elsewhere or "://" in where

    def number(self, name: str) -> int | None:
        digits = self.headers.get(name, "").rpartition("/")[2]
        return int(digits) if digits.isdigit() else None


def judge(answer: Answer, part: Part, file: dict[str, Any], job: dict[str, Any]) -> None:
    """Whether this answer goes on with the file. Raises Again, or ends with a sentence."""
    status, who = answer.status, "the server behind " + job["source"] if answer.elsewhere else job["source"]
    if status in (408, 429) or status >= 500:
        raise Again(f"{who} answered {status}", answer.number("retry-after") or 0)
    if answer.elsewhere and status in (401, 403, 404, 410):
        raise Again(f"the link to the file has expired ({status})")
    if status == 401 or (status == 403 and answer.headers.get("x-error-code") == "GatedRepo"):
        have = "refused this machine's token" if job["token"] else "wants a token"
        fail(f"{who} {have} ({status}): accept the conditions of the repository, then log in with `hf auth login`")
    total = answer.number("content-range" if status in (206, 416) else "content-length")
    if status == 416 or (status in (200, 206) and total is not None and total != file["size"]):
        if answer.headers.get("content-type", "").startswith("text/html"):
            raise Wrong("a web page came and not the file; is there a login page in this network?")
        raise Wrong(f"{who} has {total} bytes of {file['name']} and not {file['size']}")
    if status == 200 and part.size:
        raise Ignored(f"{who} sends the whole file where its rest is asked for")
    if status not in (200, 206):
        fail(f"{who} answered {status} for {file['name']}")
    if status == 206 and not answer.headers.get("content-range", "").startswith(f"bytes {part.size}-"):
        raise Again(f"{who} sent another part of the file than was asked for")


def transfer(part: Part, file: dict[str, Any], job: dict[str, Any], secret: dict[str, Any]) -> None:
    """One curl. Raises Again with the reason where it did not bring the rest of the file."""
    settings = ["url = " + json.dumps(secret["urls"][file["number"]])]
    if secret["token"]:
        # curl gives it to no other host than the URL's.
        settings.append("header = " + json.dumps("Authorization: Bearer " + secret["token"]))
    argv = ["curl", "-q", "--config", "-", "--include", "--location", "--silent", "--show-error", "--globoff"]
    argv += ["--suppress-connect-headers", "--proto", "=http,https", "--connect-timeout", "30"]
    argv += ["--speed-limit", "1", "--speed-time", str(job["stall"])]
    argv += ["--limit-rate", str(job["rate"])] if job["rate"] else []
    argv += ["--range", f"{part.size}-"] if part.size else []
    before = part.size
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as curl:
        assert curl.stdin
        assert curl.stdout
        assert curl.stderr
        try:
            curl.stdin.write("\n".join(settings).encode() + b"\n")
            curl.stdin.close()
            stream: Any = curl.stdout  # a reader with a buffer, whatever its type says
            answer = Answer(stream)
            if answer.status:
                judge(answer, part, file, job)
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


def download(part: Part, file: dict[str, Any], job: dict[str, Any], secret: dict[str, Any]) -> None:
    """Until the part is as long as the file; gives up after many tries in a row without a byte."""
    tries = ignored = 0
    while part.size < file["size"]:
        before = part.size
        say("downloading")
        try:
            transfer(part, file, job, secret)
            continue
        except Again as again:
            why = again
        if isinstance(why, Ignored):
            ignored += 1
            if ignored % 2 == 0:
                part.empty()
            if ignored > 8:
                fail(f"{file['name']} cannot be downloaded: {why}, and breaks off before its end")
        tries = 1 if part.size > before else tries + 1
        if tries > (2 if isinstance(why, Wrong) else len(job["pauses"])):
            kept = f"; {gb(part.size)} of {gb(file['size'])} are kept for the next run" if part.size else ""
            fail(f"{file['name']} cannot be downloaded: {why} ({tries} times){kept}")
        pause = max(job["pauses"][tries - 1], min(why.wait, 3600))
        say(f"{why}, again in {pause} s")
        time.sleep(pause)


def get(file: dict[str, Any], job: dict[str, Any], secret: dict[str, Any]) -> None:
    """One file, verified. A wrong one is put aside and got once more from its beginning."""
    path = file["path"]
    for left in (1, 0):
        part = Part(path + ".part")
        if part.size > file["size"]:
            part.empty()
        room(path, file["size"] - part.size)
        download(part, file, job, secret)
        say("verifying")
        part.close()
        found = part.sha256.hexdigest()
        if found == file["sha256"]:
            os.chmod(part.path, 0o644)
            remember(part.path, file, job)
            os.replace(part.path, path)
            if os.path.exists(path + ".bad"):
                os.unlink(path + ".bad")
            return
        os.replace(part.path, path + ".bad")
        wrong = f"what came of {file['name']} has sha256 {found} and not {file['sha256']}"
        if left:
            say(wrong + "; it is downloaded once more")
    fail(wrong + f"; it came twice so, and was moved to {path}.bad. Is it still the same file there?")


def room(path: str, size: int) -> None:
    """The disk can hold what is to come; a bad file of before goes first."""
    for spare in (path + ".bad", ""):
        disk = os.statvfs(os.path.dirname(path))
        free = disk.f_bavail * disk.f_frsize
        if free >= size + SPARE:
            return
        if spare and os.path.exists(spare):
            os.unlink(spare)
    fail(f"{os.path.dirname(path)} has {gb(free)} free, and {gb(size)} are still to come")


def remember(at: str, file: dict[str, Any], job: dict[str, Any]) -> None:
    """The sidecar: with the same size and time it is the same file, and need not be read again."""
    told = {
        "sha256": file["sha256"],
        "size": file["size"],
        "mtime_ns": os.stat(at).st_mtime_ns,
        "revision": job["revision"],
    }
    with open(file["path"] + ".json.new", "w") as sidecar:
        sidecar.write(json.dumps(told) + "\n")
    os.replace(file["path"] + ".json.new", file["path"] + ".json")


def known(file: dict[str, Any]) -> bool:
    """Whether the sidecar vouches for the file as it stands."""
    try:
        with open(file["path"] + ".json") as sidecar:
            told = json.load(sidecar)
        at = os.stat(file["path"])
        return [told["sha256"], told["size"], told["mtime_ns"]] == [file["sha256"], at.st_size, at.st_mtime_ns]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def main() -> None:
    job = json.loads(sys.argv[1])
    memory = os.path.join(os.environ["XDG_RUNTIME_DIR"], "paddock-download.secret")
    with open(memory) as file:
        secret = json.load(file)
    os.unlink(memory)
    job["token"] = bool(secret["token"])
    for number, one in enumerate(job["files"]):
        one["number"], one["name"] = number, os.path.basename(one["path"])
        os.makedirs(os.path.dirname(one["path"]), exist_ok=True)
        if known(one) and not job["again"]:
            continue
        # Touched, or its note lost: the file itself may still be right, and is not worth another 12 GB.
        if size_of(one["path"]) == one["size"]:
            say("verifying " + one["name"])
            if hashed(one["path"]).hexdigest() == one["sha256"]:
                remember(one["path"], one, job)
                continue
            say(one["name"] + " is damaged; it is downloaded anew")
        get(one, job, secret)


try:
    main()
except OSError as error:
    path = error.filename or os.path.dirname(json.loads(sys.argv[1])["files"][0]["path"])
    if error.errno == 28:
        fail(f"the disk is full: {path}; what has come is kept, and the next run goes on with it")
    fail(f"{path} cannot be written: {error.strerror}")
