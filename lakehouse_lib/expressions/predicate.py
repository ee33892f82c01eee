"""Predicates: parsed conditions on rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from lakehouse_lib.expressions.ir import TRUE, And, Node, columns_of, conjunction
from lakehouse_lib.expressions.render_spark import render


@dataclass(frozen=True)
class Predicate:
    """A condition on rows of one table. It is immutable and picklable. ``parse`` and ``from_filters`` create it.

    Attributes:
        sql: the condition as SQL in Spark's dialect; if the user wrote SQL, the text of the user.
        root: the parsed condition.
        columns: the top-level columns that the condition reads, as the schema spells them.
        table: the table's location, for errors.
        label: the text that commitInfo and errors show instead of the SQL, for a condition with personal values.
    """

    sql: str
    root: Node
    table: str | None = field(default=None, compare=False)
    label: str | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"Predicate({sql_excerpt(self.text)})"

    @property
    def text(self) -> str:
        """The text for commitInfo and errors: the label if there is one, else the SQL."""
        return self.sql if self.label is None else self.label

    @property
    def columns(self) -> frozenset[str]:
        return columns_of(self.root)

    def partition_only(self, partition_columns: Iterable[str]) -> bool:
        """Whether the predicate reads partition columns only, so that it has one value for all rows of a file."""
        return self.columns <= set(partition_columns)

    def split(self, partition_columns: Iterable[str]) -> tuple[Predicate | None, Predicate | None]:
        """Split the predicate into two parts whose conjunction is the predicate.

        The first part reads only partition columns. The second part has all other conditions. A part without a
        condition is None.
        """
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


#: The predicate that is true for every row.
EVERY_ROW = Predicate("TRUE", TRUE)


def conjoin(first: Predicate | None, second: Predicate | None) -> Predicate | None:
    """The conjunction of two predicates; None: every row."""
    if first is None or second is None:
        return first or second
    has_label = first.label is not None or second.label is not None
    label = f"({first.text}) AND ({second.text})" if has_label else None
    root = conjunction([first.root, second.root])
    return Predicate(f"({first.sql}) AND ({second.sql})", root, first.table or second.table, label)


def to_spark_sql(predicate: Predicate) -> str:
    """The predicate as SQL for ``DataFrame.filter``.

    The session's time zone and ANSI mode have an effect only on parts that only Spark evaluates (``Opaque``).
    """
    return render(predicate.root)


def sql_excerpt(text: object) -> str:
    """A condition or a part of it, quoted for an error message and cut after 200 characters."""
    whole = str(text)
    return repr(whole if len(whole) <= 200 else f"{whole[:200]}…")
