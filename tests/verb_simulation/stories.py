"""What the actors planned, and which answers they got."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.verb_simulation.archive import Archive
from tests.verb_simulation.plans import OperationPlan


@dataclass
class Stories:
    """The plans of actors by operation name, and the answers that they got.

    Attributes:
        archive: every object that was stored, and the pins.
        done: operation -> its version.
        gone: delete -> the number of deleted rows, if the actor knows it.
        updated: update or merge -> the number of updated rows.
        refused: operations that are not committed and never will be.
        lost: refused operations with a conflict -> the read version.
        against_a_rule: refused operations whose rows violate a constraint.
        idle: operations that found nothing to do -> the version that they read.
        groups: rewrite -> the files of each of its groups.
    """

    archive: Archive
    plans: dict[str, OperationPlan] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)
    updated: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    lost: dict[str, int] = field(default_factory=dict)
    against_a_rule: set[str] = field(default_factory=set)
    idle: dict[str, int] = field(default_factory=dict)
    groups: dict[str, list[set[str]]] = field(default_factory=dict)
