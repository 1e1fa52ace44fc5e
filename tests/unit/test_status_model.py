"""What the status says of the model that is served."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from roles.overview.status import row
from roles.wishes import Anatomy
from tests.unit import hosts

KNOWN = Anatomy("qwen3moe", 48, 128, 8, (150_000_000,) * 48, 900_000_000, 40_960, chat_template="{{x}}")


def serves(hub: bool) -> list[str]:
    wanted = hosts.wishes(hosts.HUB_DATA) if hub else hosts.wishes()
    return row(wanted, hosts.converged(wanted))[0].splitlines()


def test_it_tells_what_the_header_tells_where_it_is_kept_and_else_what_the_host_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told = "qwen3moe, 48 layers, 128 experts, 262144 tokens of trained context"
    assert serves(hub=False)[1] == told
    assert serves(hub=True)[1] == told
    kept = tmp_path / f"paddock/headers/{hosts.PIN.sha256}.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps(asdict(KNOWN)))
    kept.with_suffix(".header").write_bytes(b"GGUF")
    assert serves(hub=True)[1] == str(KNOWN)
    assert str(KNOWN).endswith(
        "150.0 MB of experts a layer, 900.0 MB of attention, trained for 40960 tokens, chat template"
    )
