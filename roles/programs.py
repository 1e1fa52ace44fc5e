"""Programs for the host that are kept in several files: one text of them, as it is sent."""

from __future__ import annotations

import re
from pathlib import Path

FUTURE = "from __future__ import annotations\n"


def joined(*files: Path) -> str:
    """The files as one program: without what they import of one another."""
    texts = [file.read_text("utf-8") for file in files]
    rest = [text.partition(FUTURE)[2] for text in texts[1:]]
    return "".join(
        re.sub(r"^from roles\.\S+ import (\([^)]*\)|.*)\n", "", text, flags=re.M) for text in (texts[0], *rest)
    )
