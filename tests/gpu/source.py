"""llama.cpp's source without what the build of a server for CUDA or RPC does not read: a few megabytes to carry."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import IO, cast

from tests.lab.sdist import sdist
from tests.lab.upstream import SOURCE

# What cmake reads, though only the role's three or four programs are built.
KEPT = ("CMakeLists.txt", "LICENSE", "app", "cmake", "common", "ggml", "include", "licenses", "src", "tools", "vendor")
KEPT_FILES = ("scripts/ui-assets.cmake",)
BACKENDS = ("ggml-cpu", "ggml-cuda", "ggml-rpc")
# Tests, pictures, films and the page's own source: bulk that no target of the role reads.
DROPPED = ("tools/server/tests", "tools/ui/src", "tools/ui/tests", "tools/ui/static", "tools/ui/package-lock.json")
DROPPED_ENDINGS = (".jpeg", ".jpg", ".png", ".mp3", ".mp4", ".webp", ".wav", ".py", ".md")


def is_needed(name: str) -> bool:
    """Whether a file of llama.cpp's tree, by its path in it, goes along."""
    parts = name.split("/")
    if name in KEPT_FILES:
        return True
    if parts[0] not in KEPT or name.endswith(DROPPED_ENDINGS) or name.startswith(DROPPED):
        return False
    other_backend = parts[:2] == ["ggml", "src"] and len(parts) > 3 and parts[2] not in BACKENDS
    return not other_backend


def pack(out: Path) -> None:
    """Write the trimmed tree to `out`, a .tar.gz; the same bytes from the same archive."""
    with (
        tarfile.open(sdist()) as whole,
        out.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
        tarfile.open(fileobj=cast(IO[bytes], packed), mode="w") as trimmed,
    ):
        for member in whole:
            _, found, name = member.name.partition(f"/{SOURCE}/")
            if not found or not member.isfile() or not is_needed(name):
                continue
            text = whole.extractfile(member)
            assert text is not None
            fresh = tarfile.TarInfo(f"llama.cpp/{name}")
            fresh.size, fresh.mode = member.size, 0o755 if member.mode & 0o100 else 0o644
            trimmed.addfile(fresh, io.BytesIO(text.read()))
