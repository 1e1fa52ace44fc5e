"""The lab's Hub as a process of its own; prints one line when it is ready and runs until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
import signal

from tests.lab import models
from tests.lab.hub.repo import File, Repo
from tests.lab.hub.server import Hub

RENAMES = {"paddock/old-moe": "paddock/tiny-moe"}


def repositories() -> list[Repo]:
    """The lab's repositories; their models are made or fetched first when the cache lacks them."""
    moe, other = File.of(models.cached_tiny_moe()), File.of(models.cached_tiny_moe(seed=1))
    tiny = Repo("paddock/tiny-moe")
    readme = b"# Tiny MoE\n\nRandom weights in the shape of a Qwen3 mixture of experts, for tests.\n"
    tiny.commit({"README.md": readme, models.TINY_MOE_FILE: moe}, branch="main", tag="v1")
    # Same name, same size, other weights: what main becomes when a test moves it.
    tiny.commit({"README.md": readme, models.TINY_MOE_FILE: other}, branch="next")
    gemma = Repo("paddock/gemma-270m")
    gemma.commit(
        {
            "README.md": b"# Gemma 3 270M, Q4_K_M\n\nSubject to the Gemma terms of use.\n",
            "config.json": b'{"model_type": "gemma3_text"}\n',
            models.GEMMA_FILE: models.cached_gemma(),
        }
    )
    gated = Repo("paddock/gated", gated=True)
    gated.commit({"README.md": readme, models.TINY_MOE_FILE: moe, f"Q4_K_M/{models.TINY_MOE_FILE}": moe})
    return [tiny, gemma, gated]


def address(text: str) -> tuple[str, int]:
    """Host and port of "host:port"."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="tests.lab.hub", description=__doc__)
    parser.add_argument("--listen", type=address, required=True, metavar="HOST:PORT", help="the Hub's address")
    parser.add_argument("--cdn", type=address, required=True, metavar="HOST:PORT", help="the CDN's address")
    parser.add_argument("--cdn-name", help="host name of the CDN in redirects (default: its address)")
    parser.add_argument("--link-seconds", type=float, default=3600.0, help="life of a link to the CDN")
    options = parser.parse_args()
    # Block the signals before any thread starts, so that only sigwait below gets them.
    stop = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    with Hub(
        repositories(),
        options.listen,
        options.cdn,
        cdn_name=options.cdn_name,
        renames=RENAMES,
        link_seconds=options.link_seconds,
    ) as hub:
        print(f"ready: hub {hub.url} cdn {hub.cdn_url}", flush=True)
        signal.sigwait(stop)


if __name__ == "__main__":
    main()
