"""A server that speaks the Hugging Face Hub's API to real clients, with faults on demand and counters.

In a test:      with Hub([repo]) as hub: ... hub.url, hub.fault("drop", host="cdn", at=1000), hub.counters()
As a process:   python -m tests.lab.hub --listen 198.51.100.1:8010 --cdn 198.51.100.2:8011
"""

from tests.lab.hub.faults import Fault
from tests.lab.hub.repo import File, Repo
from tests.lab.hub.server import STRANGER, TOKEN, Hub

__all__ = ["STRANGER", "TOKEN", "Fault", "File", "Hub", "Repo"]
