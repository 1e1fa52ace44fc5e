"""Runs on the host: start a transient user unit, or join the one that runs, and show its progress until it ends.

The unit outlives this program and the connection. Its name is the lock; its log, its script and its exit status are
files, so the next run can join it and read how it ended. The job
comes as JSON in the first argument.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

FIRST, LAST = 5.0, 30.0  # seconds between two lines of progress, at first and in the end


def systemctl(*words: str) -> str:
    """Its answer. A manager that is busy is asked again: an empty answer must not pass for "it does not run"."""
    for _ in range(5):
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(["systemctl", "--user", *words], capture_output=True, text=True, timeout=30)
            if done.returncode == 0:
                return done.stdout.strip()
        time.sleep(1)
    end("the user's systemd manager does not answer")
    return ""


def write(path: str, text: str) -> None:
    """0600: a job's secret may be among what is written."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


@contextlib.contextmanager
def alone(base: str) -> Iterator[None]:
    """Whoever comes second must not touch the files of the one that starts."""
    with open(base + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def runs(unit: str) -> bool:
    state = systemctl("show", "-p", "ActiveState", "--value", unit + ".service")
    return state in ("active", "activating", "deactivating")


def start(job: dict[str, Any], base: str, unit: str) -> None:
    secret = secret_of(unit)
    unlink(secret)  # of a run that was cut off here
    write(base + ".sh", job["script"])
    unlink(base + ".exit")
    write(base + ".log", "")
    subprocess.run(["systemctl", "--user", "reset-failed", unit + ".service"], capture_output=True, timeout=30)
    wrapper = 'sh "$0.sh" && status=0 || status=$?; echo $status >"$0.exit"; exit $status'
    limits = [f"RuntimeMaxSec={job['seconds']}", f"MemoryMax={job['memory']}", "MemorySwapMax=0", "OOMPolicy=stop"]
    output = ["StandardOutput=append:" + base + ".log", "StandardError=append:" + base + ".log"]
    # The user manager's PATH is not the login's, and what the probe found is on the login's.
    command = ["systemd-run", "--user", "--quiet", "--unit=" + unit, "--setenv=PATH=" + os.environ["PATH"]]
    after = ["ExecStopPost=/bin/sh -c " + shlex.quote(job["after"])] if job["after"] else []
    for setting in [*limits, *output, *after, "Nice=5", "UMask=0022"]:
        command += ["-p", setting]
    command += ["--", "/bin/sh", "-c", wrapper, base]
    try:
        if job["secret"]:
            # Memory only: this directory is a tmpfs of the user's, and the script removes the file once it is read.
            write(secret, job["secret"])
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode:
            end(f"the unit {unit} could not be started: {done.stderr.strip()}")
    except BaseException:
        unlink(secret)
        raise


def secret_of(unit: str) -> str:
    return os.path.join(os.environ["XDG_RUNTIME_DIR"], unit + ".secret")


def end(sentence: str) -> None:
    sys.stderr.write("paddock: " + sentence + "\n")
    sys.exit(1)


def human(amount: float) -> str:
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


class Progress:
    """One line now and then: a step of so many, or bytes of so many."""

    def __init__(self, job: dict[str, Any], log: str) -> None:
        self.job, self.log, self.began = job, log, time.time()
        self.shown = self.began - FIRST + 1.0
        self.first = self.size()

    def size(self) -> int:
        return sum(self.size_of(path) for path in self.job["watch"])

    def size_of(self, path: str) -> int:
        for name in (path + ".part", path):
            with contextlib.suppress(OSError):
                return os.path.getsize(name)
        return 0

    def line(self) -> str:
        passed = time.time() - self.began
        if self.job["watch"]:
            size, total = self.size(), self.job["total"]
            speed = max(size - self.first, 0) / max(passed, 0.1)
            left = clock((total - size) / speed) + " left" if speed else "waiting"
            said = ([line for line in tail(self.log).splitlines() if line.strip()] or ["downloading"])[-1]
            now = f"{human(speed)}/s, {left}" if said == "downloading" else said
            return f"{human(size)} of {human(total)}, {size * 100 // total} %, {now}"
        steps = re.findall(r"^\[(\d+)/(\d+)\] (.*)$", tail(self.log), re.M)
        if not steps:
            last = [line for line in tail(self.log).splitlines() if line.strip()]
            return clock(passed) + (", " + last[-1].strip()[:80] if last else "")
        done, total, what = steps[-1]
        name = os.path.basename((what.split() or [""])[-1])
        return f"{done} of {total}, {int(done) * 100 // int(total)} %, {clock(passed)}, {name}"

    def show(self) -> None:
        now = time.time()
        if now - self.shown >= min(FIRST + (now - self.began) / 20, LAST):
            self.shown = now
            print(self.job["title"] + ": " + self.line(), flush=True)


def tail(path: str, size: int = 8192) -> str:
    with open(path, "rb") as file:
        file.seek(max(os.path.getsize(path) - size, 0))
        return file.read().decode("utf-8", "replace")


def follow(job: dict[str, Any], base: str, unit: str) -> None:
    progress = Progress(job, base + ".log")
    while runs(unit):
        progress.show()
        with contextlib.suppress(OSError):
            os.utime(os.path.expanduser("~/.local/share/paddock/run.lock"))  # this run's sign of life
        time.sleep(0.5)


def judge(base: str, unit: str) -> None:
    """Leave with the job's own sentence, or with what systemd knows where it was killed."""
    try:
        with open(base + ".exit") as file:
            status = file.read().strip()
    except FileNotFoundError:
        result = systemctl("show", "-p", "Result", "--value", unit + ".service")
        reasons = {"oom-kill": "it needed more memory than its cap", "timeout": "it ran longer than its time limit"}
        end(reasons.get(result, f"it was killed ({result})") + "; its log is " + base + ".log")
    if status != "0":
        lines = [line.strip() for line in tail(base + ".log", 1 << 16).splitlines() if line.strip()]
        own = [line[9:] for line in lines if line.startswith("paddock: ")]
        told = [line for line in lines if re.search(r"\b(fatal|error)\s*((at|in) [^:]+)?:", line, re.I)]
        for line in lines[:-1][-5:] if own else told[:5]:
            print("  " + line)
        sentence = own[-1] if own else told[0] if told else lines[-1] if lines else "exit status " + status
        end(sentence + " (log: " + base + ".log)")


def tell(title: str, base: str) -> None:
    """What a job that ended well wants people to know: lines of its log that say so."""
    for line in tail(base + ".log", 1 << 16).splitlines():
        if line.startswith("note: "):
            print(title + ": " + line[6:])


def main() -> None:
    job = json.loads(sys.argv[1])
    os.environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    folder, unit = os.path.expanduser("~/.local/share/paddock/jobs"), "paddock-" + job["name"]
    os.makedirs(folder, exist_ok=True)
    base, same = os.path.join(folder, job["name"]), False
    while not same:
        with alone(base):
            if runs(unit):
                with open(base + ".sh") as file:
                    same = file.read() == job["script"]
                print(f"joining {unit}, which is running" if same else f"waiting for another {unit} to end", flush=True)
            else:
                start(job, base, unit)
                same = True
        follow(job, base, unit)
    with alone(base):
        if not runs(unit):
            unlink(secret_of(unit))  # killed before it had read it
    judge(base, unit)
    tell(job["title"], base)


try:
    main()
except (OSError, subprocess.SubprocessError) as error:
    end(str(error))
