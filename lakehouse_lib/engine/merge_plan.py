"""The plan of a MERGE: its condition and clauses, without the rows of its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lakehouse_lib.expressions import Predicate, Value

#: The rows to which a clause applies.
MergeCase = Literal["matched", "not matched", "not matched by source"]
MergeAction = Literal["update", "delete", "insert"]


@dataclass(frozen=True)
class MergeClause:
    """A clause of a MERGE. The first clause of a case whose condition is true decides about a row.

    Attributes:
        condition: on the columns of a ``MergeNamespace``; None: true.
        values: the new values by column of the target, as its schema spells it. In an UPDATE, the other columns keep
            their values. In an INSERT, they get their computed values (defaults, identity numbers and generated
            columns), else NULL.
    """

    case: MergeCase
    action: MergeAction
    condition: Predicate | None = None
    values: Mapping[str, Value] | None = None


@dataclass(frozen=True)
class MergePlan:
    """The join condition and the clauses of a MERGE.

    Attributes:
        condition: the join condition, on the columns of a ``MergeNamespace``.
        keys: pairs of a column of the target and a column of the source that are equal where the condition is true.
        clauses: in the order of the user.
        candidates: true for every row of the target that a clause may change, on the columns of the target; None: every
            row may change.
    """

    condition: Predicate
    keys: tuple[tuple[str, str], ...]
    clauses: tuple[MergeClause, ...]
    candidates: Predicate | None = None

    def of(self, case: MergeCase) -> tuple[MergeClause, ...]:
        """The clauses of a case."""
        return tuple(clause for clause in self.clauses if clause.case == case)

    @property
    def deletes_every_match(self) -> bool:
        """Whether all matched rows are deleted, so that several source rows may match one target row."""
        matched = self.of("matched")
        return len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None
