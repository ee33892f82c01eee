"""The plan for the sidecars of a checkpoint: which sidecars the next checkpoint reuses, and which it writes again.

Readers do not reconcile actions inside a checkpoint (PROTOCOL.md, section Checkpoints), so its sidecars must have
exactly the files of its version. A sidecar is reused while all of its files are live. If some files were removed, it is
written again without them. A small sidecar (less than half full) is merged with the new files if it has at most twice
as many files. So each small sidecar is at least twice as large as the next smaller one, there are at most about fifteen
of them, and merges write a file again at most about 25 times, however many checkpoints are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_lib.log.checkpoint.sidecars import FULL, Sidecar

_SMALL = FULL // 2


@dataclass(frozen=True)
class SidecarPlan:
    """``unchanged`` sidecars are reused; the live actions of ``rewritten`` sidecars are written to new sidecars."""

    unchanged: tuple[Sidecar, ...]
    rewritten: tuple[Sidecar, ...]


def plan_sidecars(sidecars: Sequence[Sidecar], *, new_adds: int, new_removes: int) -> SidecarPlan:
    """Decide for each sidecar of a checkpoint whether the next checkpoint reuses it.

    Args:
        new_adds, new_removes: the number of actions that are in no sidecar yet.
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
    """The small sidecars to merge with ``pending`` new actions, smallest first.

    A sidecar is merged if it has at most twice as many actions as the new actions and the smaller sidecars together.
    """
    merged = []
    for sidecar, size in sorted(sizes.items(), key=lambda item: item[1]):
        if size >= _SMALL or size > 2 * pending:
            break
        merged.append(sidecar)
        pending += size
    return merged
