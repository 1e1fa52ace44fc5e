"""The options of llama-server in the spelling that a release knows: versions and forks differ, and a release tells its
own in `flags.txt`. Sources: llama.cpp's common/arg.cpp, and its pull requests as named."""

from __future__ import annotations

from collections.abc import Collection

from roles.llama_cpp.cuda import CannotBuild
from roles.settings import Service

# Since which build llama.cpp has an option, as far as we know.
SINCE = {
    "--load-mode": "since July 2026 (#20834)",
    "--lazy-mode": "since b10731",
    "--moe-cache-mib": "since b11480 (#29887)",
    "--n-cpu-ffn": "since #26622",
    "--n-cpu-moe": "since August 2025 (#15077)",
    "--cache-ram": "since b6700",
    "-fit": "since December 2025",
}
# What --load-mode was before it was one option; gone from b10884 on (#28334).
OLD_LOAD_MODES = {
    "none": ("--no-mmap",),
    "mmap": ("--mmap",),
    "mlock": ("--no-mmap", "--mlock"),
    "mmap+mlock": ("--mlock",),
    "dio": ("--direct-io",),
}


class LacksOption(CannotBuild):
    """That commit of llama.cpp does not have an option that the inventory asks for; the text says so."""


def asked_for(wanted: Service, knows: Collection[str]) -> list[str]:
    """The options that versions spell differently, and the inventory's own. `knows`: the release's; empty where it is
    still to come, and then llama.cpp's newest spelling is taken. Raises LacksOption."""
    words: list[str] = []
    if wanted.load_mode != "auto":
        old = OLD_LOAD_MODES[wanted.load_mode]
        is_old = bool(knows) and "--load-mode" not in knows and set(old) <= set(knows)
        by_default = wanted.load_mode == "mmap" and "--mmap" not in knows and "--no-mmap" in knows
        words += [] if by_default else old if is_old else ["--load-mode", wanted.load_mode]
    if wanted.lazy_mode != "auto":
        words += ["--lazy-mode", wanted.lazy_mode]
    if wanted.moe_cache_mib:
        words += ["--moe-cache-mib", str(wanted.moe_cache_mib)]
    if wanted.sleep_idle_seconds is not None:
        words += ["--sleep-idle-seconds", str(wanted.sleep_idle_seconds)]
    return [*words, *wanted.server_args]


def spelled(words: list[str], knows: Collection[str]) -> list[str]:
    """The command line as the release understands it. Raises LacksOption."""
    if not knows:
        return words
    if "-fit" in words and "-fit" not in knows:
        at = words.index("-fit")
        if words[at + 1] == "off":  # a release from before it fits nothing by itself
            words = words[:at] + words[at + 2 :]
    lacking = [word for word in words if is_option(word) and word not in knows]
    if lacking:
        option = lacking[0]
        since = f"; llama.cpp has it {SINCE[option]}" if option in SINCE else ""
        raise LacksOption(f"this release of llama.cpp has no {option}{since}; leave it out, or set another llama_ref")
    return words


def is_option(word: str) -> bool:
    """-1 is a number."""
    return word.startswith("-") and not word[1:].replace(".", "").isdigit()


def variables(knows: Collection[str]) -> list[str]:
    """The environment variables that a release takes settings from; its `--help` names them beside the options."""
    return [word for word in knows if word[0].isupper()]
