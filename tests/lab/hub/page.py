"""The ready-made page of llama.cpp's server, as its bucket on the Hub holds it per tag: an archive and its sha256.

The real one is made with hundreds of npm packages; this one has the files that llama.cpp's build wants to see.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import tarfile

TAGS = ("b1001",)
TITLE = "The lab's page"
FILES = {
    "index.html": f"<!doctype html><title>{TITLE}</title>\n",
    "manifest.webmanifest": "{}\n",
    "sw.js": "\n",
    "build.json": "{}\n",
    "version.json": "{}\n",
    "bundle.js": "\n",
    "bundle.css": "\n",
    "workbox.js": "\n",
}


@functools.cache
def archive() -> bytes:
    """dist.tar.gz, the same every time."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, text in FILES.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(plain.getvalue(), mtime=0)


def files(tag: str) -> dict[str, bytes]:
    """The files of a tag by name; none for a tag without a page."""
    if tag not in TAGS:
        return {}
    digest = hashlib.sha256(archive()).hexdigest()
    return {"dist.tar.gz": archive(), "dist.tar.gz.sha256": f"{digest}  dist.tar.gz\n".encode()}
