"""Runs on the host, in a transient unit: gets a model by curl, each file under its name once its sha256 is right.

Killed anywhere and run again, it goes on where it was. What to get comes as JSON in the first argument; the URLs and
the token in a file in memory, which is removed at once.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from roles.model.transfer_program import Again, Ignored, Part, Wrong, fail, gb, hashed, say, size_of, transfer

SPARE = 64 << 20  # bytes to leave free on the disk


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
                say("note: every byte of " + one["name"] + " is as pinned")
                continue
            say("note: " + one["name"] + " was damaged, and is downloaded anew")
        get(one, job, secret)


try:
    main()
except OSError as error:
    path = error.filename or os.path.dirname(json.loads(sys.argv[1])["files"][0]["path"])
    if error.errno == 28:
        fail(f"the disk is full: {path}; what has come is kept, and the next run goes on with it")
    fail(f"{path} cannot be written: {error.strerror}")
