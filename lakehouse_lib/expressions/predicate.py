"""A predicate as a value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from lakehouse_lib.expressions.ir import And, Node, columns_of, conjunction
from lakehouse_lib.expressions.render_spark import render


@dataclass(frozen=True)
class Predicate:
    """A condition on rows of one table. Immutable, picklable; made by ``parse`` and ``from_filters``.

    Attributes:
        sql: the condition as SQL in Spark's dialect, as the user wrote it where it was SQL.
        columns: the top-level columns that it reads, as the schema spells them.
        table: the table it is about, for errors.
        label: what commitInfo and errors show in place of the SQL, for a condition whose values are personal.
    """

    sql: str
    root: Node
    table: str | None = field(default=None, compare=False)
    label: str | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"Predicate({shown(self.text)})"

    @property
    def text(self) -> str:
        """What commitInfo and errors show: the label where there is one, else the SQL."""
        return self.sql if self.label is None else self.label

    @property
    def columns(self) -> frozenset[str]:
        return columns_of(self.root)

    def partition_only(self, partition_columns: Iterable[str]) -> bool:
        """Whether partition values alone decide it: for each file it is then true (or not) of all rows at once."""
        return self.columns <= set(partition_columns)

    def split(self, partition_columns: Iterable[str]) -> tuple[Predicate | None, Predicate | None]:
        """(what partition values decide, the rest), whose conjunction is this predicate; None where nothing is."""
        names = set(partition_columns)
        parts = self.root.operands if isinstance(self.root, And) else (self.root,)
        sides: tuple[list[Node], list[Node]] = ([], [])
        for part in parts:
            sides[0 if columns_of(part) <= names else 1].append(part)
        if not sides[1]:
            return self, None
        if not sides[0]:
            return None, self
        first, second = (conjunction(side) for side in sides)
        return replace(self, sql=render(first), root=first), replace(self, sql=render(second), root=second)


def conjoin(first: Predicate | None, second: Predicate | None) -> Predicate | None:
    """The predicate that is true where both are; None is true of every row."""
    if first is None or second is None:
        return first or second
    return Predicate(f"({first.sql}) AND ({second.sql})", conjunction([first.root, second.root]))


def to_spark_sql(predicate: Predicate) -> str:
    """The predicate for ``DataFrame.filter``; the session's time zone and ANSI mode do not change what it means."""
    return render(predicate.root)


def shown(text: object) -> str:
    """A condition, or a piece of one, as errors quote it: not more of it than one can read."""
    whole = str(text)
    return repr(whole if len(whole) <= 200 else f"{whole[:200]}…")
