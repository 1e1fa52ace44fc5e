"""The host that a benchmark works on: booted bare, with source and models in reach, and gone afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab import services
from tests.lab.common import DEPLOY_LAB, the_lab
from tests.lab.host import LabHost, boot, down


@contextmanager
def bench_host() -> Iterator[LabHost]:
    """One lab host called `bench`."""
    os.environ.update(DEPLOY_LAB)  # the lab of the tests, which goes away whole: beside a demo on this machine
    lab = the_lab()
    try:
        host = boot("bench", lab=lab)
        services.start_upstream(lab)
        services.start_hub(lab)
        yield host
    finally:
        down()
