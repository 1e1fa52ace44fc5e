"""The gate: what a service must show before it may serve. /health alone is no proof: a server that fell back to the CPU
is as healthy as any (llama.cpp#27923)."""

from __future__ import annotations

import os
import re
import time
import urllib.parse
from typing import Any

from roles.probe_tools import read
from roles.service.gate.causes import explained
from roles.service.gate.devices import is_cuda, listens, lost, vram
from roles.service.gate.host import Served, Server, Trouble, clock, say

TOKENS = 16
PROMPT = "A llama is a domesticated South American animal. It has been kept for its wool and its meat, and to carry"
TURN = " How much can one of them carry over the mountains in a day, and what does it eat on the way?"
BESIDE = 2048  # MiB of VRAM that the runtime may hold beside the plan: its context and its pools
SAMPLE = 32 << 20  # bytes of the model that are read to measure the disk
DISK = 50_000_000  # bytes a second that any disk is believed to do


def patience(record: dict[str, Any]) -> float:
    """Seconds that the model may take to load: by its size and the disk's measured speed, halved, as others use it."""
    speed = min(DISK, (disk_speed(record["model"]) or DISK * 2) / 2)
    return float(max(record["seconds"], min(120 + record["load_bytes"] / speed, 6 * record["seconds"])))


def disk_speed(path: str) -> float | None:
    """Bytes a second, read where the page cache was told to forget; None for a small file, or one that is not there."""
    try:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size < 4 * SAMPLE:
                return None
            os.posix_fadvise(file.fileno(), size // 2, SAMPLE, os.POSIX_FADV_DONTNEED)
            file.seek(size // 2)
            began, got = time.monotonic(), 0
            while got < SAMPLE and time.monotonic() < began + 10:
                got += len(file.read(1 << 20))
            return got / max(time.monotonic() - began, 1e-6)
    except OSError:
        return None


def prove(served: Served, since: float, seconds: float, deaths: int) -> dict[str, Any]:
    """Of a service that was started at `since` and passed: `loaded`, the seconds until it answered, and `notes`, what
    could not be shown. It may die `deaths` times before it counts as dead. Raises Trouble with what it did not show."""
    record, server = served.record, Server(served.record)
    limits_held(served)
    pid = answering(served, server, since, seconds, deaths)
    loaded = round(time.time() - since, 1)
    if "PADDOCK_STAMP=" + record["stamp"] not in (read("/proc/" + pid + "/environ") or "").split("\0"):
        raise Trouble("another process than the one that was started is the unit's now")
    port = urllib.parse.urlsplit(record["url"]).port or 80
    if not listens(pid, port):
        raise Trouble(f"another program answers on port {port}{explained(served.since(since, pid))}")
    right_model(record, server)
    log = log_of(served, since, pid)
    notes = on_device(record, log, pid)
    notes += completes(record, server, lambda: served.since(since, pid))
    if record["key_file"] and server.ask("/props", keyed=False)[0] != 401:
        raise Trouble("llama-server answers without a key")
    if served.show("MainPID")["MainPID"] != pid:  # what answered last was another start, or somebody else
        raise Trouble("llama-server died while it was proved" + explained(served.since(since)))
    return {"loaded": loaded, "notes": notes}


def limits_held(served: Served) -> None:
    """What systemd holds is what the unit asks for. The user's own drop-in has the last word."""
    limits = served.record["limits"]
    held = served.show("DropInPaths", *limits)
    if "/" + served.name + ".d/" in held.get("DropInPaths", ""):
        return
    for name, value in limits.items():
        if held.get(name) != value:
            raise Trouble(f"systemd holds {name}={held.get(name)} and not {value}")


def answering(served: Served, server: Server, since: float, seconds: float, deaths: int) -> str:
    """The process's number, once /health is well: 503 is loading, and no failure."""
    began = told = time.monotonic()
    while True:
        status, _ = server.ask("/health", seconds=5)
        now = served.show("ActiveState", "SubState", "MainPID", "NRestarts", "Result")
        if status == 200 and now["ActiveState"] == "active":
            return now["MainPID"]
        if now["ActiveState"] in ("failed", "inactive"):
            raise Trouble(f"llama-server stopped ({now['Result']}){explained(served.since(since))}")
        died = int(now["NRestarts"] or 0) + now["SubState"].startswith("auto-restart")
        if died >= deaths:
            served.ctl("stop", served.name, seconds=120)  # or it would go on dying
            raise Trouble("llama-server dies at its start" + explained(served.since(since)))
        if time.monotonic() > began + seconds:
            doing = "was still loading its model" if status == 503 else "did not answer"
            raise Trouble(f"llama-server {doing} after {seconds:.0f} s{explained(served.since(since))}")
        if time.monotonic() > told + 5:
            told = time.monotonic()
            read_so_far = re.search(r"^read_bytes: (\d+)", read(f"/proc/{now['MainPID']}/io") or "", re.M)
            gb = int(read_so_far.group(1)) / 1e9 if read_so_far else 0
            doing = "loading the model" if status == 503 else "starting"
            passed, most, size = clock(told - began), clock(seconds), served.record["load_bytes"] / 1e9
            say(f"{doing}: {passed} of at most {most}, {gb:.1f} of {size:.1f} GB read from disk")
        time.sleep(0.1)


def right_model(record: dict[str, Any], server: Server) -> None:
    """/props names build, model and context. What an old build does not tell is not asked."""
    status, props = server.ask("/props")
    if status != 200 or not isinstance(props, dict):
        raise Trouble(f"/props answers HTTP {status}")
    build, model = props.get("build_info"), props.get("model_path")
    if build and record["build"] not in build:
        raise Trouble(f"llama-server says that it is build {build} and not {record['build']}")
    if model and os.path.realpath(model) != os.path.realpath(record["model"]):
        raise Trouble(f"llama-server serves {model} and not {record['model']}")
    context = props.get("default_generation_settings", {}).get("n_ctx")
    if context is not None and context < record["context"]:
        raise Trouble(
            f"llama-server serves a context of {context} and not {record['context']} tokens: the model knows no more"
        )


def log_of(served: Served, since: float, pid: str) -> list[str]:
    """The journal of this start. It comes a moment after it was written."""
    for _ in range(20):
        log = served.since(since, pid)
        if any("compute buffer size" in line for line in log):
            break
        time.sleep(0.25)
    return log


def on_device(record: dict[str, Any], log: list[str], pid: str) -> list[str]:
    """Layers, buffers and VRAM are where they were planned. Raises Trouble; returns what could not be seen."""
    if not record["devices"]:
        return []
    notes = []
    if any("model buffer size" in line for line in log):
        problem = misplaced(record, log)
        if problem:
            raise Trouble(problem)
        notes += overdrawn(record, log)
    else:  # this user may not read it, or it was told too much at a time
        notes.append("the journal does not tell where the layers went, so that was not proved by it")
    problem = lost(pid, record["devices"])
    if problem:
        raise Trouble("llama-server has not got its device: " + problem + explained(log))
    if any(map(is_cuda, record["devices"])):
        held = (vram() or {}).get(pid)
        if held is None:
            notes.append("the driver does not tell how much VRAM a process holds, so that was not proved")
        elif record["plan"]:
            least = sum(0.9 * (one["model"] + one["context"]) for one in record["plan"]["devices"])
            most = sum(one["model"] + one["context"] + one["compute"] for one in record["plan"]["devices"]) + BESIDE
            if not least <= held <= most:
                raise Trouble(f"llama-server holds {held} MiB of VRAM, and {least:.0f} to {most} were planned")
    return notes


def misplaced(record: dict[str, Any], log: list[str]) -> str | None:
    """The sentence about layers or buffers that are not where they were planned, by llama.cpp's own log (-lv 4)."""
    text, plan = "\n".join(log), record["plan"]
    kind = "CUDA" if any(map(is_cuda, record["devices"])) else "RPC"
    sizes: dict[tuple[str, str], float] = {}
    for device, what, size in re.findall(r"(\S+) +(model|KV|RS) buffer size *= *([\d.]+) MiB", text):
        share = (device.partition("[")[0], "model" if what == "model" else "context")
        sizes[share] = sizes.get(share, 0) + float(size)  # a sliding window has two lines of KV
    if not any(re.match(kind + r"\d", device) for device, _ in sizes):
        return "llama-server answers on the CPU: no layer is on a " + kind + " device" + explained(log)
    told = re.findall(r"offloaded (\d+)/(\d+) layers to GPU", text)
    if told and (wanted := planned_layers(record, int(told[-1][1]))) is not None and int(told[-1][0]) != wanted:
        return f"{told[-1][0]} of {told[-1][1]} layers are on the device, and {wanted} were planned"
    for one in plan["devices"] if plan else []:
        for what in ("model", "context"):
            found = sizes.get((one["device"].partition("[")[0], what), 0.0)
            if abs(found - one[what]) > max(2, one[what] / 50):
                return f"{one['device']} holds {found:.0f} MiB of {what}, and {one[what]} were planned"
    return None


def overdrawn(record: dict[str, Any], log: list[str]) -> list[str]:
    """Compute buffers that are larger than planned. It serves all the same: told, and no failure."""
    reserved: dict[str, float] = {}
    for device, size in re.findall(r"(\S+) +compute buffer size *= *([\d.]+) MiB", "\n".join(log)):
        name = device.partition("[")[0]
        reserved[name] = max(reserved.get(name, 0), float(size))  # it is told anew when they are laid out anew
    return [
        f"{one['device']} holds {reserved[one['device']]:.0f} MiB to compute, and {one['compute']} were planned: leave"
        " room for that with vram_margin_mib"
        for one in (record["plan"] or {"devices": []})["devices"]
        if reserved.get(one["device"], 0) > one["compute"] + max(2, one["compute"] / 50)
    ]


def planned_layers(record: dict[str, Any], layers: int) -> int | None:
    """How many of so many layers shall be on a device; None where llama.cpp itself chooses."""
    if record["plan"]:
        return int(record["plan"]["offloaded"])
    return None if record["layers"] is None else min(int(record["layers"]), layers)


def completes(record: dict[str, Any], server: Server, log: Any) -> list[str]:
    """One completion of exact length, and a second turn that takes the first from the cache."""
    body = {"n_predict": TOKENS, "ignore_eos": True, "temperature": 0, "cache_prompt": True}
    status, first = server.ask("/completion", {"prompt": PROMPT, **body}, 300)
    if status != 200 or not isinstance(first, dict):
        raise Trouble(f"llama-server does not complete a text (HTTP {status}){explained(log())}")
    if first.get("tokens_predicted") != TOKENS:
        raise Trouble(f"{TOKENS} tokens were asked for, and {first.get('tokens_predicted')} came")
    status, turn = server.ask("/completion", {"prompt": PROMPT + first.get("content", "") + TURN, **body}, 300)
    if status != 200 or not isinstance(turn, dict) or turn.get("tokens_predicted") != TOKENS:
        raise Trouble(f"llama-server does not answer a second turn (HTTP {status}){explained(log())}")
    cached = turn.get("timings", {}).get("cache_n")
    if cached or cached is None or "--no-cache-prompt" in record["text"]:
        return []
    again = re.search(r"forcing full prompt re-processing|llama_kv_cache_iswa|llama_memory_recurrent", "\n".join(log()))
    if again:  # a sliding window or a recurrent state; what was computed before is not there to go on from
        return ["this model computes a prompt anew at every turn: its cache cannot be gone back in"]
    raise Trouble("a second turn took nothing of the first from the prompt cache")
