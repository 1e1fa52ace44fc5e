"""Debian's real Chromium on a lab host, headless, and what its own page says of its policies.

chrome://policy is read over DevTools by Debian's chromedriver, which speaks plain HTTP (WebDriver): no client for
websockets is needed.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests

from roles.browser.table import KEY
from tests.lab.host import LabHost

PORT = 9515
# --no-sandbox: its sandbox needs user namespaces, which a container does not give. The others keep it off the network.
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
# The page's own way to its data: the same message that fills the table which people see.
ASK = """
const done = arguments[0];
import('chrome://resources/js/cr.js').then((cr) => {
  cr.addWebUiListener('policies-updated', (names, policies) => {
    window.told = policies;
    done();
  });
  chrome.send('listenPoliciesUpdates');
});
"""
# A browser watches its folders some time after its start: the watch is among the things that it does when nothing else
# is to be done, and a change before it is noticed after 15 minutes (kReloadInterval). Measured: nothing within 40 s of
# a change right after the start; 5.1 to 5.2 s after a change 15 s or 40 s later. The kernel tells of a watch by the
# folder's inode (proc(5), fdinfo).
WATCHED = """
node=$(printf %x $(stat -c %i {folder}))
until grep -qs "^inotify .* ino:$node " /proc/[0-9]*/fdinfo/*; do sleep 0.2; done
"""


@dataclass(frozen=True)
class Chromium:
    """A browser that runs."""

    session: str

    def open(self, url: str, width: int = 1100, scheme: str = "light") -> None:
        """A page, in a window of this many CSS pixels, for a person who likes it light or dark."""
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)
        _post(f"{self.session}/url", {"url": url})

    def ask(self, script: str) -> Any:
        """What a script in the page returns."""
        return _post(f"{self.session}/execute/sync", {"script": script, "args": []})

    def devtools(self, command: str, **parameters: Any) -> Any:
        return _post(f"{self.session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def console(self) -> list[str]:
        """What the page complained of, and what of it the browser forbade."""
        return [entry["message"] for entry in _post(f"{self.session}/se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the last time."""
        events = [json.loads(entry["message"]) for entry in _post(f"{self.session}/se/log", {"type": "performance"})]
        sent = [event["message"] for event in events if event["message"]["method"] == "Network.requestWillBeSent"]
        return [message["params"]["request"]["url"] for message in sent]

    def screenshot(self) -> bytes:
        """The whole page, as PNG."""
        wide, high = self.ask("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": wide, "height": high, "scale": 1}
        picture = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(picture["data"])

    def policies(self) -> dict[str, dict[str, Any]]:
        """What is in force by chrome://policy: value, level, scope, source, error, by name."""
        _post(f"{self.session}/url", {"url": "chrome://policy"})
        _post(f"{self.session}/execute/async", {"script": ASK, "args": []})
        return self.told()

    def told(self) -> dict[str, dict[str, Any]]:
        """The same, as the page that is open was told last."""
        told = _post(f"{self.session}/execute/sync", {"script": "return window.told", "args": []})
        found: dict[str, dict[str, Any]] = told["policyGroups"]["chrome"]["policies"]
        return found

    def policy(self) -> dict[str, Any] | None:
        """The one that this is about; None where the browser knows of none."""
        return self.policies().get(KEY)

    def wait_for(self, wanted: Callable[[dict[str, Any] | None], bool], seconds: float = 30) -> float:
        """Watch the open page until the policy is as wanted; returns the seconds that it took."""
        begin = time.monotonic()
        while not wanted(self.told().get(KEY)):
            assert time.monotonic() - begin < seconds, self.told()
            time.sleep(0.2)
        return time.monotonic() - begin


def install(host: LabHost, user: str) -> None:
    """Chromium and its driver by apt, and the driver running as an ordinary user."""
    # A host that is thrown away need not wait until every file is on the disk.
    hasty = "-o Dpkg::Options::=--force-unsafe-io"
    script = f"apt-get update -q && apt-get install -q -y {hasty} --no-install-recommends chromium chromium-driver"
    host.sh(f"export DEBIAN_FRONTEND=noninteractive; {script}", timeout=600)
    driver = f"chromedriver --port={PORT} --allowed-ips={host.lab.gateway} --allowed-origins=*"
    host.sh(f"systemd-run --quiet --unit=driver -p User={user} -p WorkingDirectory=~ {driver}")
    end = time.monotonic() + 30
    while host.sh(f"ss -Hltn sport = :{PORT}").stdout == "":
        assert time.monotonic() < end, host.sh("journalctl -u driver --no-pager").stdout
        time.sleep(0.2)


def wait_for_watch(host: LabHost, folder: str) -> None:
    """Until a browser watches this folder, and so whatever comes to be in it."""
    host.sh(WATCHED.format(folder=folder), timeout=120)


@contextmanager
def running(host: LabHost, *arguments: str) -> Iterator[Chromium]:
    """A browser of its own, with a directory of its own unless `arguments` name one; closed afterwards."""
    options = {"binary": "/usr/bin/chromium", "args": [*ARGUMENTS, *arguments]}
    logs = {"browser": "ALL", "performance": "ALL"}
    wanted = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": logs}}
    base = f"http://{host.address}:{PORT}/session"
    session = f"{base}/{_post(base, {'capabilities': wanted})['sessionId']}"
    try:
        yield Chromium(session)
    finally:
        requests.delete(session, timeout=60)


def _post(url: str, body: dict[str, Any]) -> Any:
    answer = requests.post(url, json=body, timeout=60)
    assert answer.ok, answer.text[:500]
    return answer.json()["value"]
