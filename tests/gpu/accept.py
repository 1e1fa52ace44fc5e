"""The acceptance of a new release once more, with the device there. Runs there.

A build for CUDA has been through it already, on the card, as a draft; now it lies in its place. The stand-in over RPC
is one of the programs just built, and here it is sure to be there: a run that left the layers on the CPU is a failure.

python3 -m tests.gpu.accept
"""

from __future__ import annotations

import subprocess

from roles.llama_cpp import decide
from roles.llama_cpp.decide import variables
from tests.gpu.results import WORK, fail, record
from tests.gpu.server import device, folder

ACCEPT = (decide.HERE / "accept.sh").read_text("utf-8")


def script() -> str:
    """The role's own words ahead of its own acceptance, on the finished release."""
    given = (WORK / "build.sh").read_text("utf-8").partition(decide.BUILD)[0]
    return f"{given}{variables(draft=str(folder()))}{ACCEPT}\naccept\n}}\njob\n"


def main() -> None:
    with device():
        done = subprocess.run(["sh", "-s"], input=script(), capture_output=True, text=True, timeout=50, check=False)
    if done.returncode:
        own = [line.removeprefix("paddock: ") for line in done.stdout.splitlines() if line.startswith("paddock: ")]
        fail((own or done.stderr.splitlines() or ["it says nothing"])[-1])
    answered = done.stdout.splitlines()[-1]
    if "-ngl" not in answered:
        fail(f"the acceptance left the device alone: {answered}")
    record("acceptance", said=answered)
    print(answered)


if __name__ == "__main__":
    main()
