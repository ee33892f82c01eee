"""Decide which sidecars of a checkpoint the next checkpoint keeps, and which it writes again. Writes nothing.

Readers do not reconcile actions inside a checkpoint (PROTOCOL.md, section Checkpoints), so its sidecars must have
exactly the files of its version. A sidecar is kept while all of its files are live. If some were removed, it is written
again without them. A small sidecar is merged with the new files once they are at least half as many as its own. So each
small sidecar is at least twice as large as the next one, there are at most about a dozen of them, and a file is written
again at most some dozen times, however many checkpoints are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_lib.log.checkpoint.sidecars import FULL, Sidecar

_SMALL = FULL // 2


@dataclass(frozen=True)
class SidecarPlan:
    """``unchanged`` sidecars are kept; the live actions of the ``rewritten`` ones go into new sidecars."""

    unchanged: tuple[Sidecar, ...]
    rewritten: tuple[Sidecar, ...]


def plan_sidecars(sidecars: Sequence[Sidecar], *, new_adds: int, new_removes: int) -> SidecarPlan:
    """Decide for each sidecar of a checkpoint whether the next checkpoint keeps it.

    Args:
        new_adds, new_removes: how many actions are in no sidecar yet.
    """
    live = [sidecar for sidecar in sidecars if sidecar.adds or (sidecar.removes and not sidecar.expired)]
    rewritten = [sidecar for sidecar in live if sidecar.stale]
    unchanged = [sidecar for sidecar in live if not sidecar.stale]
    adds = new_adds + sum(sidecar.adds for sidecar in rewritten)
    removes = new_removes + sum(sidecar.removes for sidecar in rewritten)
    merged = [
        *_merged({sidecar: sidecar.adds for sidecar in unchanged if not sidecar.removes}, adds),
        *_merged({sidecar: sidecar.removes for sidecar in unchanged if not sidecar.adds}, removes),
    ]
    return SidecarPlan(tuple(sidecar for sidecar in unchanged if sidecar not in merged), (*rewritten, *merged))


def _merged(sizes: dict[Sidecar, int], pending: int) -> list[Sidecar]:
    """Small sidecars to merge with ``pending`` new actions: each at most twice the size of what is merged before it."""
    outgrown = []
    for sidecar, size in sorted(sizes.items(), key=lambda item: item[1]):
        if size >= _SMALL or size > 2 * pending:
            break
        outgrown.append(sidecar)
        pending += size
    return outgrown
