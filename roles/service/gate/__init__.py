"""paddock-switch, the gate: one file of Python 3.8's standard library for the host, put together from these."""

from __future__ import annotations

import ast
from pathlib import Path

ROLES = Path(__file__).parents[2]
GATE = "service/gate"
PARTS = (
    "probe_tools.py",
    "gpu/libraries.py",
    *(f"{GATE}/{name}.py" for name in ("causes", "host", "devices", "proof", "switch", "watch", "main")),
)
SHEBANG = "#!/usr/bin/env -S python3 -ISB\n"


def program() -> str:
    """The parts as one file: without what one imports of another."""
    text = [SHEBANG, "from __future__ import annotations\n"]
    for part in PARTS:
        lines = (ROLES / part).read_text("utf-8").splitlines(keepends=True)
        for node in ast.parse("".join(lines)).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("roles", "__future__"):
                for at in range(node.lineno - 1, node.end_lineno or node.lineno):
                    lines[at] = ""
        text += lines
    return "".join(text)


PROGRAM = program()
