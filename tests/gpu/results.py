"""The figures of a run on the GPU machine: one JSON file, a key per step. Runs there.

python3 -m tests.gpu.results STEP NAME=VALUE ...
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

WORK, OUT = (Path(os.environ.get(f"PADDOCK_GPU_{name}", ".")) for name in ("WORK", "OUT"))


def record(step: str, /, **figures: Any) -> None:
    """Add what a step found to result.json; what the same step said before is replaced where it is said anew."""
    path = OUT / "result.json"
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    known[step] = {**known.get(step, {}), **figures}
    path.write_text(json.dumps(known, indent=1) + "\n", "utf-8")


def fail(sentence: str) -> NoReturn:
    """End this step with a sentence."""
    sys.exit(f"paddock: {sentence}")


if __name__ == "__main__":
    record(sys.argv[1], **dict(word.split("=", 1) for word in sys.argv[2:]))
