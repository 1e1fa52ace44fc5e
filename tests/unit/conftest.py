"""For all unit tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.unit.fake_oracle import Fake

# What an example takes is no property of what is tested: a machine that others use too would fail now and then.
settings.register_profile("paddock", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("paddock")


@pytest.fixture(scope="session", autouse=True)
def _this_python_first() -> Iterator[None]:
    """What is run as on a host runs in the interpreter of the tests, and not in a version manager's wrapper. By its own
    place: through the link in a virtual environment it takes twice as long to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}")
        yield


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """A host with a release that plans."""
    return Fake(tmp_path)
