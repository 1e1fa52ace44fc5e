"""One card planned by Paddock, llama-mdl and llama.cpp's `--fit on`: `make bench-memory`. Needs root; boots a lab host.

Method: one lab host with a release, ggml-rpc-server as the device, and the header of a big mixture of experts. Each of
the three is told in its own way what the card has: a limit, the answer of --list-devices, a target that leaves as much.
Then llama-fit-params is asked about each split that was chosen, and llama-server loads the model by it: weights of
zeros, 5 GB of RAM. llama-mdl is in a virtual environment that goes away with the host, and is asked twice, as it
learns from the first answer.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.host import bench_host
from roles.memory.fitting_program import room
from roles.memory.overhead import DEFAULT
from roles.memory.plan import Plan
from roles.memory.wanted import DESKTOP
from roles.memory.words import split_words, words
from tests.lab import twins
from tests.lab.common import run
from tests.lab.deploying import deploy, target, write_inventory
from tests.lab.host import LabHost
from tests.lab.oracle import PLACE, Bench, Model

MDL = "llama-mdl==0.14.0"
CARD, TARGET, CUDA = 6144, 1024, DEFAULT["cuda"]  # MiB; the target is the default of --fit-target
SETTINGS: dict[str, Any] = {"context": 65_536, "ubatch": 1024, "cache_type_k": "q4_0", "cache_type_v": "q4_0"}
DEVICE = "127.0.0.1:50052"  # the lab's stand-in for a GPU, which no service of this host uses
# In the place of llama-server, as RPC tells the RAM: all else goes on to it.
TELLS = """#!/bin/sh
case " $* " in *" --list-devices "*) echo 'Available devices:'; echo '  RPC0: card ({total} MiB, {free} MiB free)';;
*) exec {bin}/llama-server "$@";; esac
"""
MDL_FIT = (
    "cd /{place}; export PYTHONPATH=$(echo /{place}/mdl/lib/python3*/site-packages) MDL_FIT_HOME=/{place}/learned"
    " MDL_LLAMA_SERVER=/{place}/tells MDL_FIT_PARAMS={bin}/llama-fit-params LLAMA_ARG_RPC={device}"
    "; python3 -m mdl fit {model} --min-ctx 64k --max-ctx 64k --kv-floor q4_0 --json"
)


@dataclass(frozen=True)
class Answer:
    """What one of them chose: MiB that it may use, what it tells of the device, and the split as options and in
    short."""

    room: int
    asked: str
    split: list[str]
    short: str
    told: str = "-"


def main() -> int:
    """Print one table; 1 where what Paddock planned does not load, or is too much for the card."""
    with bench_host() as host, tempfile.TemporaryDirectory() as folder:
        bench = released(host, Path(folder))
        model = Model(twins.big().write(Path(folder) / "big.gguf"))
        common = ["-m", bench.put(model.path), *words(model.wishes(**SETTINGS).settings.service, ())]
        answers = {"Paddock": paddock(bench, model), **mdl(bench, common[1])}
        answers["--fit on"] = fit(bench, common, model.anatomy.layers)
        options = [[*common, *answer.split] for answer in answers.values()]
        return shown(answers, bench.ask(False, options), bench.ask(True, options))


def released(host: LabHost, folder: Path) -> Bench:
    """The host with a release of llama.cpp, its stand-in for a GPU, and llama-mdl."""
    inventory = write_inventory(folder, [target(host.name, only=["packages", "llama_cpp"])])
    deployed = deploy(host.lab, inventory, "-y", seconds=2400)
    if deployed.code:
        sys.exit(deployed.text)
    device = f"until ss -ltn | grep -q {DEVICE}; do sleep 0.2; done"
    host.sh(f"mkdir -p /{PLACE}; chown dev: /{PLACE}; loginctl enable-linger dev; {device}")
    place = host.root / PLACE / "mdl"
    run([sys.executable, "-m", "venv", str(place)], timeout=120)
    run([str(place / "bin/pip"), "install", "--quiet", "--no-deps", MDL], timeout=300)  # those draw its dashboard
    return Bench(host, host.sh("ls -d ~/.local/share/paddock/releases/*/bin", user="dev").stdout.split()[0])


def paddock(bench: Bench, model: Model) -> Answer:
    """By the header alone, and a limit: the device is no card, of which it would take desktop and CUDA itself."""
    free = room(CARD, DESKTOP, model.wishes().settings.memory.vram_margin_mib, CUDA, None)
    [plan] = bench.plans(model, [{**SETTINGS, "vram_limit_mib": free}])
    if not isinstance(plan, Plan):
        sys.exit(plan)
    [share], split = plan.devices, split_words(plan)
    own = summed([share.model, share.context, share.compute])
    return Answer(free, str(plan.calls), split, shlex.join(split[2:]), own)


def mdl(bench: Bench, path: str) -> dict[str, Answer]:
    """What it chooses on a machine that it knows nothing of, and when it is asked again."""
    tells = bench.host.root / PLACE / "tells"
    tells.write_text(TELLS.format(total=CARD, free=CARD - DESKTOP, bin=bench.bin))
    tells.chmod(0o755)
    ask, learned = MDL_FIT.format(place=PLACE, bin=bench.bin, device=DEVICE, model=path), tells.with_name("learned")
    answers, before = {}, 0
    for name in ("mdl fit", "mdl fit again"):
        told = json.loads(bench.dev(ask))
        wanted = dict(zip(("ctx", "ub", "ctk", "ctv"), SETTINGS.values(), strict=True))
        pick = next((one for one in told["picks"] if wanted.items() <= one["flags"].items()), None)
        if pick is None or not pick["oracle"]:
            sys.exit(f"{MDL} finds nothing for {wanted}, or does not ask about it: {told['relaxed'] or told['picks']}")
        split = ["-ngl", str(pick["flags"]["ngl"]), "--n-cpu-moe", str(pick["flags"]["ncmoe"])]
        asked = (learned / "calib.jsonl").read_text().count('"kind": "oracle"')
        own, may = summed([size >> 20 for size in pick["oracle"]]), told["machine"]["vram_usable"] >> 20
        answers[name] = Answer(may, str(asked - before), split, shlex.join(split[2:]), own)
        before = asked
    return answers


def fit(bench: Bench, common: list[str], layers: int) -> Answer:
    """llama-fit-params without --fit-print does what the server's --fit does, and prints the options."""
    told = bench.dev(f"{bench.bin}/llama-server --rpc {DEVICE} --list-devices 2>&1")
    free, may = int(re.findall(r"RPC0: .*, (\d+) MiB free\)", told)[0]), CARD - DESKTOP - TARGET
    ask = [f"{bench.bin}/llama-fit-params", *common, "--rpc", DEVICE, "--fit-target", str(free - may)]
    split = shlex.split(bench.dev(shlex.join(ask)).splitlines()[-1])
    return Answer(may, "its own search", split, by_name(split, layers))


def by_name(split: list[str], layers: int) -> str:
    """Of how many layers which tensors are on the CPU; the option names a layer more than the model has."""
    named = re.findall(r"blk\\.(\d+)\\.ffn_([^,=]*)=CPU", split[split.index("-ot") + 1])
    tensors = [tensor for layer, tensor in named if int(layer) < layers]
    counted = Counter("experts" if "up|down|gate" in tensor else "ffn_" + tensor for tensor in tensors)
    return "-ot: " + ", ".join(f"{what} of {count}" for what, count in counted.most_common())


def shown(answers: dict[str, Answer], foretold: list[dict[str, list[int]]], loaded: list[dict[str, Any]]) -> int:
    """The table of docs/memory-compared.md. RPC has all of the RAM: whether the card would hold it is a sum."""
    table = Table(title=f"{CARD} MiB, {DESKTOP} of them the desktop's; MiB of model + context + compute on the device")
    for column in ("", *answers):
        table.add_column(column)
    taken = [sum(map(math.ceil, one["device"])) + CUDA for one in loaded]
    fits = [one["answers"] and size <= CARD - DESKTOP for one, size in zip(loaded, taken, strict=True)]
    rows = {
        "it may use": [str(one.room) for one in answers.values()],
        "split": [one.short for one in answers.values()],
        "questions to llama.cpp": [one.asked for one in answers.values()],
        "as it tells them": [one.told for one in answers.values()],
        "by llama-fit-params": [summed(one["RPC0"]) for one in foretold],
        f"with {CUDA} for CUDA": [beside(sum(one["RPC0"]) + CUDA) for one in foretold],
        "a server that loaded it": [summed([math.ceil(size) for size in one["device"]]) for one in loaded],
        f"that with {CUDA} for CUDA": [beside(one) for one in taken],
        "would the card hold it": ["yes" if one else "no" for one in fits],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    Console(width=160).print(table)
    return int(not fits[0])


def beside(taken: int) -> str:
    free = CARD - DESKTOP - taken
    return f"{taken} of {CARD - DESKTOP}, " + (f"{free} free" if free >= 0 else f"{-free} too much")


def summed(figures: list[int]) -> str:
    return f"{' + '.join(map(str, figures))} = {sum(figures)}"


if __name__ == "__main__":
    sys.exit(main())
