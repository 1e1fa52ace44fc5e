"""A server with its experts split over two devices, the gate that it must pass, and the smoke run. Runs there.

/health says nothing of the device: a server that fell back to the CPU is as healthy as any (llama.cpp#27923). So it is
the log, the memory of the device, and completions of which every token is counted.

python3 -m tests.gpu.gate
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from roles import remote
from roles.benchmark import decide, runner
from roles.benchmark.passage import packed
from roles.benchmark.passes_program import needed
from roles.remote import Script
from roles.service.gate import devices, proof
from roles.service.gate.host import Server, Trouble
from roles.service.unit import url
from tests.gpu.results import WORK, fail, record
from tests.gpu.server import DEVICE, KINDS, MODEL, NotServed, Served, buffers, device, fit_print, folder, served, total
from tests.gpu.wanted import wishes

TOKENS = 24
TURN = list(range(20, 220))  # token ids: a prompt that no tokenizer changes
SERVED_LAYERS = 12  # of the model that comes along; llama.cpp counts its output as one more


def gate(server: Served, plan: dict[str, dict[str, float]]) -> dict[str, Any]:
    """What the server shows: to paddock-switch, as it is on every host, and what more a card can show. Ends with a
    sentence where it is not what was asked for. `plan`: MiB by device and kind."""
    text = server.log.read_text("utf-8", "replace")
    service, log = as_recorded(server, plan), text.splitlines()
    try:
        asked = Server(service)
        proof.right_model(service, asked)
        notes = proof.completes(service, asked, lambda: log)
    except Trouble as error:
        fail(str(error))
    told = proof.misplaced(service, log) or devices.missing(service["server"], service["devices"]) or "; ".join(notes)
    if told:
        fail(told)
    planned = total(plan, on_device=True)
    first, again = (completion(server, TURN, cache=False) for _ in range(2))
    if first["tokens"] != again["tokens"]:
        fail("the same prompt at temperature 0 was answered twice, and differently")
    turn = completion(server, [*TURN, *again["tokens"], 7, 8, 9], cache=True)
    if turn["timings"]["cache_n"] < len(TURN):
        fail(f"the second turn took {turn['timings']['cache_n']} tokens from the cache, and {len(TURN)} were there")
    held, by = server.held()
    if not 0.9 * (planned[0] + planned[1]) <= held <= sum(planned) + proof.BESIDE:
        fail(f"the device holds {held} MiB ({by}), and {sum(planned):.0f} were planned")
    layers = re.search(r"offloaded \d+/\d+ layers to GPU", text)
    return {
        "build": server.ask("/props")["build_info"],
        "layers": layers[0] if layers else "",
        "buffers_mib": buffers(text),
        "planned_mib": planned,
        "held_mib": held,
        "held_by": by,
        "listed_with_vram": str(server.pid) in (devices.vram() or {}),
        "second_turn": {name: turn["timings"][name] for name in ("cache_n", "prompt_n")},
    }


def as_recorded(server: Served, plan: dict[str, dict[str, float]]) -> dict[str, Any]:
    """The server as paddock-switch knows a service; no unit holds it here."""
    build = wishes().settings.llama_cpp
    names = [name for name in plan if DEVICE.fullmatch(name)]
    shares = [{"device": name, "model": plan[name]["model"], "context": plan[name]["KV"]} for name in names]
    return {
        "build": wishes().commit[:9],
        "server": str(folder() / "bin/llama-server"),
        "model": str(MODEL),
        "context": server.wanted.context,
        "url": url(server.wanted),
        "key_file": "",
        "text": "",
        "devices": list(build.rpc_servers) or names,
        "plan": {"offloaded": SERVED_LAYERS + 1, "devices": shares},
    }


def differs(planned: list[float], logged: list[float]) -> str | None:
    """Where model and cache are not what was planned: those are the same bytes on any device. Of the compute buffer the
    plan's word is taken as it is."""
    for kind, plan, found in zip(KINDS[:2], planned, logged, strict=False):
        if abs(found - plan) > max(2, plan / 50):
            return f"the device holds {found} MiB of {kind}, and {plan:.0f} were planned"
    return None


def completion(server: Served, prompt: list[int], cache: bool) -> Any:
    """An answer of exactly TOKENS tokens."""
    body = {"prompt": prompt, "n_predict": TOKENS, "ignore_eos": True, "temperature": 0, "return_tokens": True}
    answer = server.ask("/completion", {**body, "cache_prompt": cache})
    if answer["tokens_predicted"] != TOKENS or len(answer["tokens"]) != TOKENS:
        fail(f"{TOKENS} tokens were asked for, and {answer['tokens_predicted']} came")
    return answer


def smoke(server: Served) -> Any:
    """The benchmark role's own program, as a host gets it."""
    # It asks systemd for the process; here no unit holds it, and there may be no systemd.
    folder = WORK / "bin"
    folder.mkdir(exist_ok=True)
    stand_in = folder / "systemctl"
    stand_in.write_text(f"#!/bin/sh\necho MainPID={server.pid}\n", "utf-8")
    stand_in.chmod(0o755)
    wanted = wishes().settings
    about = {"config": "stand-alone", "stamp": "", "release": "", "n_ubatch": wanted.service.ubatch}
    wire = decide.wire(wanted, "smoke", about, "") | {
        "url": url(server.wanted),
        "history": "~/benchmarks.jsonl",
        "depths": wanted.benchmark.benchmark_depths,
    }
    text = packed(needed(wire["depths"], wire["repetitions"], wanted.service.ubatch))
    script = Script(runner.program(text), (json.dumps(wire),), seconds=runner.limit(wire), python=True)
    done = subprocess.run(
        ["python3", "-ISB", "-"],
        input=remote.stdin(script),
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=script.seconds,
        check=False,
    )
    if done.returncode:
        said = done.stderr.splitlines(), done.stdout.splitlines()
        fail(f"the smoke run failed: {remote.last_word(*said, str(done.returncode), 0)}")
    lines = (Path(os.environ["HOME"]) / "benchmarks.jsonl").read_text("utf-8").splitlines()
    return json.loads(lines[-1])


def rate(row: dict[str, Any]) -> str:
    read = f"pp {row['pp']['avg_ts']} " if row.get("pp") else ""
    return f"{row['n_depth']}: {read}tg {row['tg']['avg_ts']}"


def main() -> None:
    wanted = wishes().settings.service
    try:
        with device():
            plan = fit_print(MODEL, wanted)
        planned = total(plan, on_device=True)
        if 0 in planned:
            fail(f"llama-fit-params plans nothing for a device, but for {', '.join(plan)}")
        with served(wanted, "server") as server:
            shown = gate(server, plan)
            record("gate", **shown)
            print(
                f"gate: {shown['layers']}; build {shown['build']}; {shown['held_mib']} MiB held ({shown['held_by']}),"
                f" {sum(planned):.0f} planned; second turn: {shown['second_turn']['cache_n']} from the cache"
            )
            result = smoke(server)
            record("smoke", **result)
            took = result["resources"]
            print(
                f"smoke: tokens per second at depth {', '.join(map(rate, result['rows']))}; VRAM"
                f" {took.get('peak_vram_mib') or 'not told'}, RAM {took['peak_ram_bytes'] >> 20} MiB"
            )
    except NotServed as error:
        fail(str(error))
    except (OSError, ValueError, KeyError) as error:
        fail(f"llama-server did not answer as expected: {error!r}")


if __name__ == "__main__":
    main()
