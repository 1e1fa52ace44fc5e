"""A device with hardly more memory than the plan wants: what Paddock chooses loads, and with fewer layers of experts on
the CPU it fails for want of memory. Runs there, after tests.gpu.planned.

The small model has 31 MiB of experts in a layer. What others hold of a card is here a process of our own; a stand-in
is bound by its addresses.

python3 -m tests.gpu.tight
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from roles import remote
from roles.llama_cpp.observe import LLAMA_CPP
from roles.memory import decide
from roles.memory.observe import MEMORY
from roles.memory.overhead import overhead
from roles.memory.plan import Plan
from roles.settings import Service
from tests.gpu.gate import TURN, completion
from tests.gpu.results import OUT, WORK, fail, record
from tests.gpu.server import MODEL, NotServed, device, fit_print, memory, served, total
from tests.gpu.wanted import BACKEND, release, seen, wishes

AIM = 6  # the split that the device shall just have room for, of 12 layers
WANT = re.compile(r"out of memory|failed to allocate|unable to allocate", re.I)


def runtime(base: Service) -> int:
    """MiB that the runtime takes beside the plan: of a card by the step before, of a stand-in in addresses."""
    if BACKEND == "cuda":
        found = json.loads((OUT / "result.json").read_text("utf-8"))["plan"]["beside_the_plan_mib"]
        return max(map(int, found))
    planned = sum(planned_for(base))
    with served(base, "space") as server:
        completion(server, TURN, cache=False)
        assert server.device
        return round(memory(server.device, "VmPeak") - planned)


def planned_for(wanted: Service) -> list[float]:
    """What llama-fit-params tells of the device, MiB."""
    with device():
        return total(fit_print(MODEL, wanted), on_device=True)


def chosen(room: int) -> Plan:
    """What the memory role plans where the model may have `room` MiB: its own program, as a host gets it."""
    changes: dict[str, Any] = {"n_cpu_moe": "auto", "vram_margin_mib": 0, "vram_reserve_mib": 0, "vram_limit_mib": room}
    if BACKEND == "cuda":  # the role takes its own figure for the runtime from the limit
        changes["vram_limit_mib"] = room + overhead("cuda", release().key, (), ())
    there = seen((WORK / "probe.json").read_text("utf-8"))
    there = there.replace(LLAMA_CPP, releases={release().key: release().stamp}).replace(MEMORY, plans={})
    decision = decide.planned(wishes(**changes), (), None, there)
    if decision.refusal:
        fail(decision.refusal)
    script = decision.steps[0].script
    asked = ["python3", "-ISB", "-"]
    done = subprocess.run(asked, input=remote.stdin(script), capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        fail(f"the plan failed: {remote.last_word(done.stderr.splitlines(), [], str(done.returncode), 0)}")
    return Plan.model_validate_json(done.stdout)


@contextlib.contextmanager
def squeezed(left: int) -> Iterator[int | None]:
    """A device that has so many MiB left; for a stand-in the addresses that it may have."""
    if BACKEND != "cuda":
        yield left
        return
    argv = [sys.executable, "-m", "tests.gpu.ballast", str(left)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ballast:
        assert ballast.stdout
        assert ballast.stderr
        try:
            if not ballast.stdout.readline():
                fail(ballast.stderr.read().strip().removeprefix("paddock: ") or "the card cannot be filled")
            yield None
        finally:
            ballast.kill()


def loads(wanted: Service, left: int) -> str | None:
    """None where the server loads and answers in what is left; else its complaint."""
    with squeezed(left) as space:
        try:
            with served(wanted, f"tight-{wanted.n_cpu_moe}", space) as server:
                completion(server, TURN, cache=False)
        except NotServed as error:
            return str(error)
        except (OSError, ValueError) as error:  # it died while it computed
            return f"llama-server came up and did not answer: {error!r}"
    return None


def main() -> None:
    base = wishes().settings.service
    try:
        beside = runtime(base)
        wanted = sum(planned_for(base.model_copy(update={"n_cpu_moe": AIM})))
        room = round(wanted) + 8  # within a layer of it
        plan = chosen(room)
        found = plan.n_cpu_moe or 0
        if problem := loads(base.model_copy(update={"n_cpu_moe": found}), room + beside):
            fail(f"n_cpu_moe={found} was planned for {room} MiB beside {beside} of the runtime, and fails: {problem}")
        failures: dict[int, str | None] = {}
        for less in range(found - 1, -1, -1):
            failures[less] = loads(base.model_copy(update={"n_cpu_moe": less}), room + beside)
            if failures[less]:
                break
    except NotServed as error:
        fail(str(error))
    except (OSError, ValueError, KeyError) as error:
        fail(f"what fits could not be tried: {error!r}")
    last = min(failures, default=0)
    why = failures.get(last)
    record("tight", room_mib=room, overhead_mib=beside, n_cpu_moe=found, fails_at=last, why=why)
    if not why or not WANT.search(why):
        fail(f"with n_cpu_moe={last} and {room} MiB for the model there is no want of memory: {why or 'it loads'}")
    print(f"n_cpu_moe={found} for {room} MiB (and {beside} of the runtime) loads; n_cpu_moe={last} fails: {why}")


if __name__ == "__main__":
    main()
