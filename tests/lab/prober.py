"""Asks a lab host's service every 200 ms whether it is well, from the host itself, and tells how long it was away."""

from __future__ import annotations

from types import TracebackType

from tests.lab.host import LabHost

PROGRAM = """
import time, urllib.request
while True:
    began = time.time()
    try:
        well = urllib.request.urlopen("{url}/health", timeout=2).status == 200
    except OSError:
        well = False
    print("%.3f %d" % (began, well), flush=True)
    time.sleep(max(0.0, began + 0.2 - time.time()))
"""


class Prober:
    """Runs as a unit of the user dev while the context lasts. `outages`: seconds from the last answer before to the
    first one after, each; known once it has ended."""

    def __init__(self, host: LabHost, url: str = "http://127.0.0.1:8091") -> None:
        self.host, self.program = host, PROGRAM.format(url=url)
        self.outages: list[float] = []

    def __enter__(self) -> Prober:
        (self.host.root / "var/tmp/prober.py").write_text(self.program)
        unit = "systemd-run --user --quiet --unit=prober --collect -p StandardOutput=truncate:/home/dev/prober.log"
        script = f"systemctl --user stop prober 2>/dev/null; rm -f prober.log; {unit} python3 -ISB /var/tmp/prober.py"
        self.host.sh(script, user="dev")
        self.host.sh("until grep -q ' 1$' /home/dev/prober.log; do sleep 0.1; done", timeout=30)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        said = self.host.sh("systemctl --user stop prober; cat prober.log", user="dev").stdout
        self.outages = outages(said)


def outages(said: str) -> list[float]:
    """From the prober's lines: a time in seconds and whether it was answered."""
    found, well, lost = [], 0.0, False
    for line in said.splitlines():
        moment, answered = line.split()
        if answered == "1":
            if lost and well:
                found.append(round(float(moment) - well, 2))
            well, lost = float(moment), False
        else:
            lost = True
    return found
