"""The text that prompts are cut from: Herman Melville's Moby-Dick (1851), in the public domain.

Chapters and epilogue of Project Gutenberg's etext 2701, without that project's own words; a paragraph is a line. About
280,000 tokens; a longer context gets its paragraphs again in another order, so that no beginning comes twice.
"""

from __future__ import annotations

import base64
import gzip
import random
import zlib
from functools import cache
from pathlib import Path

CHARACTERS = 6  # a token: more than any vocabulary makes of English prose
FILE = Path(__file__).parent / "moby-dick.txt.gz"


@cache
def passage(tokens: int) -> str:
    """Enough of the text for so many tokens; always the same."""
    whole, wanted = gzip.decompress(FILE.read_bytes()).decode(), CHARACTERS * tokens
    found, size, order = [whole], len(whole), random.Random(2701)
    while size < wanted:
        paragraphs = whole.split("\n\n")
        order.shuffle(paragraphs)
        found.append("\n\n".join(paragraphs))
        size += len(found[-1])
    return "\n\n".join(found)[:wanted]


@cache
def packed(tokens: int) -> str:
    """The same as a word of ASCII, for a program's own text."""
    return base64.b64encode(zlib.compress(passage(tokens).encode(), 9)).decode()
