"""Runs on the host: the part of the history that the controller has not got yet. Arguments: the file, and how many
bytes of it with which sha256 are there already. Where its beginning is another by now, all of it is told.

Two lines: from which byte on, and the rest, compressed and in base64.
"""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import zlib


def main(path: str, have: int, digest: str) -> None:
    try:
        with open(os.path.expanduser(path), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        data = b""
    same = len(data) >= have and hashlib.sha256(data[:have]).hexdigest() == digest
    print(have if same else 0)
    print(base64.b64encode(zlib.compress(data[have if same else 0 :])).decode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
