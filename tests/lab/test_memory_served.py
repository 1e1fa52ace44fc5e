"""What is planned is what is served, on a real host: before the weights come, with a limit, and where nothing fits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from roles.memory.plan import Plan, Tried
from tests.lab.common import Lab
from tests.lab.deploying import Run, deploy, target, write_inventory
from tests.lab.host import LabHost
from tests.lab.model_lab import as_dev

pytestmark = pytest.mark.timeout(2700)

UNIT = "paddock-llama-server"
ALONE = {"only": "memory,service", "n_cpu_moe": None, "vram_margin_mib": 0}


def plans(host: LabHost) -> list[Plan]:
    """Those on the host, the oldest first."""
    texts = as_dev(host, "cd ~/.local/share/paddock/plans && ls -tr *.json | xargs cat").splitlines()
    return [Plan.model_validate(json.loads(text)) for text in texts]


def tried(host: LabHost) -> dict[int | None, Tried]:
    """What llama.cpp said of the splits beside the two of the first deploy."""
    first = next(plan for plan in plans(host) if plan.n_cpu_moe == 2)
    return {one.n_cpu_moe: one for one in first.tried}


def limited(lab: Lab, folder: Path, limit: int, *words: str, **changes: Any) -> Run:
    inventory = write_inventory(folder, [target("one", **{**ALONE, "vram_limit_mib": limit, **changes})])
    return deploy(lab, inventory, *(words or ("-y",)))


def pid(host: LabHost) -> str:
    return as_dev(host, f"systemctl --user show --property=MainPID --value {UNIT}")


def test_the_first_deploy_of_a_bare_host_plans_by_the_header_before_it_downloads(
    first: Run, converged: LabHost
) -> None:
    planned = first.err.index("plan the memory with llama.cpp itself, by the header of the model")
    chosen = first.err.index("n_cpu_moe=2 (the experts of 2 of 6 layers on the CPU): RPC0 ")
    assert planned < chosen < first.err.index("download tiny-moe-Q4_K_M.gguf")
    assert as_dev(converged, "ls -A ~/.local/share/paddock/plans").split()[-1] == "lock"


def test_auto_serves_the_first_split_that_the_limit_allows(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    limit = tried(converged)[3].devices[0].total + 3
    run = limited(deploy_lab, folder, limit)
    assert run.code == 0, run.text
    assert re.search("restart llama-server: .*--n-cpu-moe 2 -> 3", run.err), run.text  # others may have left more
    plan = plans(converged)[-1]
    assert (plan.n_cpu_moe, plan.problem, plan.devices[0].device) == (3, "", "RPC0")
    log = converged.sh(f"journalctl _SYSTEMD_USER_UNIT={UNIT}.service -o cat --no-pager").stdout
    logged = re.findall(r"RPC0\S*\s+(model|KV) buffer size =\s+([\d.]+) MiB", log)[-2:]
    assert {name: int(float(size)) for name, size in logged} == {
        "model": plan.devices[0].model,
        "KV": plan.devices[0].context,
    }
    again = limited(deploy_lab, folder, limit, "--dry", "--json")
    assert [one["name"] for one in json.loads(again.out)["plan"] if one["hosts_with_change"]] == []


def test_where_nothing_fits_the_host_is_left_as_it_is_and_asked_no_more(
    converged: LabHost, deploy_lab: Lab, folder: Path
) -> None:
    before, limit = pid(converged), 18  # 20 are needed with all experts on the CPU
    run = limited(deploy_lab, folder, limit)
    assert run.code == 1
    assert "n_cpu_moe=6 does not fit: RPC0 would hold " in run.last_words[-1]
    assert "vram_limit_mib is 18" in run.last_words[-1]
    assert "; paddock/tiny-moe has no smaller quantization of it. " in run.last_words[-1]
    assert pid(converged) == before
    again = limited(deploy_lab, folder, limit, "--dry")
    assert again.last_words[-1] == run.last_words[-1].replace("plan the memory: ", "")
    assert as_dev(converged, "curl -s http://127.0.0.1:8091/health") == '{"status":"ok"}'


def test_a_cap_that_the_model_would_outgrow_is_refused_with_what_it_cannot_hold_and_the_service_runs_on(
    converged: LabHost, deploy_lab: Lab, folder: Path
) -> None:
    before = pid(converged)
    inventory = write_inventory(folder, [target("one", only="memory,service", service_memory_max="300M")])
    run = deploy(deploy_lab, inventory, "-y")
    assert run.code == 1
    assert "service_memory_max=300M is 300 MiB and cannot hold the " in run.last_words[-1]
    assert " + prompt cache 256" in run.last_words[-1]
    assert pid(converged) == before
    assert as_dev(converged, "curl -s http://127.0.0.1:8091/health") == '{"status":"ok"}'
