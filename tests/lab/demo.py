"""`make demo`: the main job on a bare machine, on a throwaway host that is booted for it here."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

from tests.lab.common import LabError
from tests.lab.host import LabHost, hosts

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
NAME = "demo"
PROMPT = "Question: What is the capital of France?\nAnswer:"  # a base model: it continues a text


def main() -> int:
    """Boot, deploy as for a laptop, ask a question; the exit code of whatever went wrong first. Other hosts of the lab
    are left as they are."""
    booted = subprocess.run([sys.executable, "-m", "tests.lab", "up", "--hub", NAME], cwd=ROOT, check=False)
    if booted.returncode:
        return booted.returncode
    deploy = ["pyinfra", "-y", "--limit", NAME, "inventory/lab.py", "deploy.py"]
    print(f"\n$ .venv/bin/{' '.join(deploy)}\n", flush=True)
    deployed = subprocess.run([BIN / deploy[0], *deploy[1:]], cwd=ROOT, check=False)
    if deployed.returncode:
        return deployed.returncode
    try:
        show(hosts()[NAME])
    except LabError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    return 0


def show(host: LabHost) -> None:
    """Ask through the unit, and say how to go on."""
    body = json.dumps({"prompt": PROMPT, "n_predict": 20, "temperature": 0, "stop": ["\n"]})
    ask = f"curl -s http://127.0.0.1:8091/completion -d {shlex.quote(body)}"
    answer = json.loads(host.sh(ask, user="dev", timeout=120).stdout)
    ssh = f"ssh -i {host.lab.key} -o UserKnownHostsFile={host.lab.known_hosts} dev@{host.address}"
    print(
        f"\n{PROMPT}{answer['content']}\n\n"
        f"Ask it something:      {ssh} {shlex.quote(ask)}\n"
        f"Look at the service:   {ssh} systemctl --user status paddock-llama-server\n"
        "Run the deploy again:  make demo (nothing changes)\n"
        "Take it all away:      make demo-down",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
