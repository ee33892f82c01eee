"""What to do about a table's health, in plain words: nothing here acts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakehouse_lib.fleet.health import Health

Verb = Literal["compact", "cluster", "checkpoint", "vacuum"]


@dataclass(frozen=True)
class Policy:
    """When a verb is worth its cost.

    Args:
        small_file_share: compact when at least this share of the files is small and has another to join.
        overlap: cluster when a value of a clustered column lies in more than this many times the files it would in a
            good layout; that is ``files ** (1 - 1 / columns)`` of them.
        commits: checkpoint after this many commits without one.
        reclaimable_share: vacuum when files past the retention hold at least this share of the table's bytes.
    """

    small_file_share: float = 0.2
    overlap: float = 2.0
    commits: int = 20
    reclaimable_share: float = 0.1


@dataclass(frozen=True)
class Recommendation:
    """A verb, and why: one sentence for a person."""

    verb: Verb
    why: str


def recommendations(health: Health, policy: Policy | None = None) -> list[Recommendation]:
    """What the policy (default: ``Policy()``) asks for, in the order in which to do it; empty for a healthy table."""
    policy = policy or Policy()
    found: list[Recommendation] = []
    if health.compactable_files and health.compactable_files / health.files >= policy.small_file_share:
        found.append(
            Recommendation(
                "compact",
                f"{health.compactable_files} of {health.files} files are below half of the target of "
                f"{health.target_file_size} bytes and can be joined, or have more than 5% of their rows deleted",
            )
        )
    columns = len(health.clustering)
    expected = max(1.0, health.files ** (1 - 1 / columns)) if columns else 1.0
    for column, files in health.clustering.items():
        if files > policy.overlap * expected:
            found.append(
                Recommendation(
                    "cluster",
                    f"a value of {column} may lie in {files:.1f} of {health.files} files, "
                    f"in a clustered table in about {expected:.1f}; {_way_out(health)}",
                )
            )
            break  # one clustering lays out all of them
    if health.commits_since_checkpoint > policy.commits:
        found.append(
            Recommendation(
                "checkpoint", f"readers replay {health.commits_since_checkpoint} commits since the last checkpoint"
            )
        )
    if health.reclaimable_bytes and health.reclaimable_bytes >= policy.reclaimable_share * health.bytes:
        found.append(
            Recommendation(
                "vacuum",
                f"{health.reclaimable_files} removed files past the retention hold {health.reclaimable_bytes} bytes",
            )
        )
    return found


def _way_out(health: Health) -> str:
    if health.unclustered_files:
        return f"{health.unclustered_files} files are not clustered yet"
    return "no file is left to cluster, so only a full clustering (full=True) changes that"
