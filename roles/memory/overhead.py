"""What the runtime takes of a card beside what is planned: CUDA's context, its libraries, the pools of its kernels.

A documented default to begin with. Once the benchmark has seen what the process really held, the next plan that is made
for another reason takes that; a plan is never made anew because of it, as the service would be restarted for some MiB.
"""

from __future__ import annotations

from collections.abc import Sequence

from roles.observation import Seen

# MiB of a process on a card before it holds anything of a model (unslothai/unsloth#6718).
DEFAULT = {"cuda": 320}
# What is beyond these is no runtime: another process was counted, or the model was not there whole.
LEAST, MOST = 64, 2048
STEP = 16  # MiB that a measured figure is rounded up to


class Measured(Seen):
    """What a process on one card held at most while it was measured, and what was planned for it; MiB."""

    release: str
    cards: tuple[str, ...]
    held: int
    planned: int


def overhead(kind: str, release: str, cards: Sequence[str], measured: Sequence[Measured]) -> int:
    """MiB on a card. `cards`: their UUIDs; `measured`: the newest last. A figure of this release goes first, then
    that of another on the same card; of several cards nobody can tell whose it is."""
    if kind != "cuda" or len(cards) != 1:
        return DEFAULT.get(kind, 0)
    here = [one for one in measured if one.cards == tuple(cards) and LEAST <= one.held - one.planned <= MOST]
    same = [one for one in here if one.release == release]
    newest = (same or here)[-1:]
    return next((-(-(one.held - one.planned) // STEP) * STEP for one in newest), DEFAULT[kind])
