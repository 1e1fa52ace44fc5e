"""Moving the pins of a whole inventory, and of a part of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.plan import runs
from tests.plan.conftest import LOCK, NOWHERE, with_lock
from tests.plan.runs import host
from tests.unit import hosts

GONE = f"some.gguf: commit {'c' * 12} files path some.gguf sha256 {'d' * 12} size 12000000000 -> none"


def test_what_no_host_asks_for_is_dropped_from_the_lock_once_all_were_asked(
    tmp_path: Path, tagged: dict[str, Any]
) -> None:
    lock = with_lock(tmp_path) / "laptops.lock.yml"
    two = {name: host(hosts.bare_answers(), **tagged) for name in ("one", "two")}

    def moved(*words: str, **others: dict[str, Any]) -> tuple[bool, bool]:
        """Whether it was told that the entry goes, and whether it is in the lock still."""
        run = runs.run(tmp_path, {**two, **others}, "-y", *words, to="roles.overview.update_pins")
        return GONE in run.err, yaml.safe_load(lock.read_text()).get("model") == LOCK["model"]

    assert moved("--limit", "@fake/one") == (False, True)
    assert moved(lost=host(hosts.bare_answers(), **NOWHERE, llama_ref="b99999")) == (False, True)
    assert moved("--dry") == (True, True)
    assert moved() == (True, False)
    assert moved() == (False, False)
    assert list(yaml.safe_load(lock.read_text())["llama_cpp"]) == [f"{tagged['llama_repo']} b1"]
