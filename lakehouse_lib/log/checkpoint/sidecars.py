"""Which sidecars of a checkpoint the next one takes over, and which it writes anew. Deciding, and nothing else.

A sidecar never changes, and what a checkpoint refers to must be exactly its version's files: readers do not reconcile
inside a checkpoint (PROTOCOL.md, section Checkpoints). So a sidecar is taken over while all of its files stay as they
are, and written anew without those that went. A small one is written anew, too, together with what is new, once that
is half its size: so each of them is at least twice the next one, there are no more than a dozen or so, and a file is
written again no more than some dozen times however many checkpoints there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_lib.store.base import ObjectMeta

#: Files of a sidecar: the unit of what is written anew when a file goes.
FULL = 50_000
_SMALL = FULL // 2


@dataclass(frozen=True)
class Sidecar:
    """A sidecar of the checkpoint before.

    Attributes:
        adds, removes: actions it holds.
        stale: whether later commits changed one of them.
        forgotten: whether all its removes are old enough to be forgotten.
    """

    meta: ObjectMeta
    adds: int
    removes: int
    stale: bool = False
    forgotten: bool = False


@dataclass(frozen=True)
class SidecarPlan:
    """``unchanged`` sidecars are taken over as they are; live actions of ``rewritten`` ones go into new sidecars."""

    unchanged: tuple[Sidecar, ...]
    rewritten: tuple[Sidecar, ...]


def plan_sidecars(sidecars: Sequence[Sidecar], *, new_adds: int, new_removes: int) -> SidecarPlan:
    """Divide the sidecars of a checkpoint for the next one.

    Args:
        new_adds, new_removes: actions that are in no sidecar yet.
    """
    live = [sidecar for sidecar in sidecars if sidecar.adds or (sidecar.removes and not sidecar.forgotten)]
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
    """Small sidecars that are at most twice what is pending, the smallest first, for each adds to it."""
    outgrown = []
    for sidecar, size in sorted(sizes.items(), key=lambda item: item[1]):
        if size >= _SMALL or size > 2 * pending:
            break
        outgrown.append(sidecar)
        pending += size
    return outgrown
