"""The main job on a bare host, proved with other means than pyinfra: systemd, the kernel, the server's own words."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import gguf
import pytest

from roles.memory.plan import Plan
from roles.memory.ram import needed
from roles.settings import Service
from tests.lab import models
from tests.lab.common import Lab
from tests.lab.deploying import Run, deploy, target, write_inventory
from tests.lab.host import LabHost

pytestmark = pytest.mark.timeout(2700)

UNIT = "paddock-llama-server"
POLICIES = ("/etc/opt/chrome/policies/managed/paddock.json", "/etc/chromium/policies/managed/paddock.json")


def as_dev(host: LabHost, script: str, seconds: float = 60) -> str:
    return host.sh(script, user="dev", timeout=seconds).stdout.strip()


def complete(host: LabHost, user: str = "dev", port: int = 8091) -> dict[str, object]:
    """A completion through the unit; waits for the model to be loaded."""
    body = json.dumps({"prompt": "Hello", "n_predict": 8, "temperature": 0})
    ask = f"curl -s --retry 60 --retry-delay 1 --retry-all-errors -f http://127.0.0.1:{port}/completion -d '{body}'"
    answer: dict[str, object] = json.loads(host.sh(ask, user=user, timeout=120).stdout)
    return answer


def show(host: LabHost, name: str) -> str:
    return as_dev(host, f"systemctl --user show --property={name} --value {UNIT}")


def test_a_bare_host_answers_a_completion_through_the_unit(converged: LabHost, first: Run) -> None:
    assert complete(converged)["tokens_predicted"] == 8
    assert first.last_words[-1].startswith("paddock: one: serving tiny-moe-Q4_K_M.gguf at http://127.0.0.1:8091")
    assert "tg empty" in first.err
    assert "1k pp / tg" in first.err
    assert "one: memory, n_cpu_moe=2 (the experts of 2 of 6 layers on the CPU)" in " ".join(first.err.split())


def test_a_second_run_changes_nothing_and_costs_one_remote_command(
    converged: LabHost, deploy_lab: Lab, folder: Path
) -> None:
    before = converged.remote_commands()
    run = deploy(deploy_lab, folder / "inventory.py", "-y", "--json")
    assert run.code == 0, run.text
    result = json.loads(run.out)["results"]
    assert result["failed_hosts"] == []
    operations = result["operations"]
    assert len(operations) > 15
    assert [one["name"] for one in operations if one["success"] or one["error"]] == []
    assert converged.remote_commands() - before == 1


def test_a_dry_run_on_a_converged_host_lists_no_change(converged: LabHost, deploy_lab: Lab, folder: Path) -> None:
    run = deploy(deploy_lab, folder / "inventory.py", "--dry", "--json")
    assert run.code == 0, run.text
    operations = json.loads(run.out)["plan"]
    assert len(operations) > 15
    for operation in operations:
        assert operation["hosts_with_change"] == [], operation
        assert operation["hosts_with_conditional_change"] == [], operation


def test_the_process_runs_from_the_release_that_the_unit_names(converged: LabHost, deploy_lab: Lab) -> None:
    program = converged.sh(f"readlink /proc/{show(converged, 'MainPID')}/exe").stdout.strip()
    assert re.fullmatch(r"/home/dev/\.local/share/paddock/releases/[0-9a-f]{9}-[0-9a-f]{8}/bin/llama-server", program)
    assert program in as_dev(converged, f"cat ~/.config/systemd/user/{UNIT}.service")
    props = json.loads(as_dev(converged, "curl -s http://127.0.0.1:8091/props"))
    commit = program.split("/releases/")[1][:9]
    assert props["build_info"] == f"b1000-{commit}"


def test_the_process_holds_of_the_ram_what_was_planned(converged: LabHost) -> None:
    """Within what the process itself may take: the prompt cache is not full, and a model like this one has no
    checkpoints."""
    plans = as_dev(converged, "cat ~/.local/share/paddock/plans/*.json").splitlines()
    [plan] = [plan for plan in map(Plan.model_validate_json, plans) if plan.n_cpu_moe == 2]
    items = {item.name: item.mib for item in needed(Service(cache_ram_mib=256), "rpc", plan).items}
    assert items.keys() == {"model, mapped from its file", "model, repacked", "compute", "prompt cache", "process"}
    told = converged.sh(f"cat /proc/{show(converged, 'MainPID')}/status").stdout
    anonymous, mapped = (int(one) >> 10 for one in re.findall(r"^Rss(?:Anon|File):\s+(\d+) kB", told, re.M))
    buffers = items["model, repacked"] + items["compute"]
    assert buffers <= anonymous <= buffers + items["process"]
    assert mapped >= items["model, mapped from its file"]


def test_systemd_holds_the_cap(converged: LabHost) -> None:
    assert show(converged, "MemoryMax") == str(2 << 30)
    assert show(converged, "MemoryHigh") == str(1536 << 20)
    assert show(converged, "MemorySwapMax") == "0"


def test_the_policy_files_are_right_for_a_browser(converged: LabHost) -> None:
    for path in POLICIES:
        assert json.loads(converged.sh(f"cat {path}").stdout) == {"GenAILocalFoundationalModelSettings": 1}
        assert converged.sh(f"stat -c '%a %U %G' {path}").stdout.split() == ["644", "root", "root"]
        folder = path.rsplit("/", 1)[0]
        assert converged.sh(f"ls -A {folder}").stdout.split() == ["paddock.json"]
        while folder != "/etc":
            assert converged.sh(f"stat -c '%a %U' {folder}").stdout.split() == ["755", "root"], folder
            folder = folder.rsplit("/", 1)[0]


def test_the_model_is_the_hubs_own(converged: LabHost, folder: Path) -> None:
    path = as_dev(converged, "find ~/.local/share/paddock/models -name '*.gguf*'").split()
    assert len(path) == 2, path  # the file and its sidecar, no part
    [model] = [one for one in path if one.endswith(".gguf")]
    digest = converged.sh(f"sha256sum {model}").stdout.split()[0]
    assert digest == hashlib.sha256(models.cached_tiny_moe().read_bytes()).hexdigest()
    assert digest in (folder / "inventory.lock.yml").read_text()


def test_the_split_in_the_log_is_the_split_asked_for(converged: LabHost) -> None:
    log = converged.sh(f"journalctl _SYSTEMD_USER_UNIT={UNIT}.service -o cat --no-pager").stdout
    assert "offloaded 7/7 layers to GPU" in log
    assert re.search(r"RPC0\S*\s+model buffer size", log)
    assert re.search(r"RPC0\S*\s+KV buffer size", log)
    assert "K (q4_0)" in log
    # What the file says should be there: all but the embedding and the experts of the first two of six layers.
    on_device = sum(
        tensor.n_bytes
        for tensor in gguf.GGUFReader(models.cached_tiny_moe()).tensors
        if tensor.name != "token_embd.weight" and not re.match(r"blk\.[01]\.ffn_\w+_exps", tensor.name)
    )
    logged = re.findall(r"RPC0\S*\s+model buffer size =\s+([\d.]+) MiB", log)[-1]
    assert float(logged) == pytest.approx(on_device / 2**20, abs=0.05)


def test_the_history_holds_what_was_measured(converged: LabHost) -> None:
    lines = as_dev(converged, "cat ~/.local/share/paddock/benchmarks.jsonl").splitlines()
    result = json.loads(lines[0])
    assert [row["n_depth"] for row in result["rows"]] == [0, 1024]
    assert "pp" not in result["rows"][0]
    assert all(row["tg"]["avg_ts"] > 0 for row in result["rows"])
    assert result["rows"][1]["pp"]["avg_ts"] > 0
    assert result["resources"]["peak_ram_bytes"] > 10e6


def test_the_service_is_back_after_a_reboot_and_nothing_needs_doing(
    converged: LabHost, deploy_lab: Lab, folder: Path
) -> None:
    converged.reboot()
    assert complete(converged)["tokens_predicted"] == 8
    assert show(converged, "ActiveState") == "active"
    run = deploy(deploy_lab, folder / "inventory.py", "-y", "--json")
    assert [one["name"] for one in json.loads(run.out)["results"]["operations"] if one["success"]] == []


def test_another_setting_restarts_the_service_once_and_measures_again(
    converged: LabHost, deploy_lab: Lab, folder: Path
) -> None:
    pid = show(converged, "MainPID")
    inventory = write_inventory(folder, [target("one", context=8192)])
    dry = deploy(deploy_lab, inventory, "--dry")
    assert "restart llama-server: -c 4096 -> 8192" in dry.err
    assert show(converged, "MainPID") == pid
    run = deploy(deploy_lab, inventory, "-y")
    assert run.code == 0, run.text
    assert show(converged, "MainPID") != pid
    props = json.loads(as_dev(converged, "curl -s http://127.0.0.1:8091/props"))
    assert props["default_generation_settings"]["n_ctx"] == 8192
    assert len(as_dev(converged, "cat ~/.local/share/paddock/benchmarks.jsonl").splitlines()) >= 2
