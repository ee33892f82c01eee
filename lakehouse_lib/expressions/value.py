"""Values: parsed expressions that SET or INSERT assigns to a column."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakehouse_lib.expressions.ir import Node, columns_of
from lakehouse_lib.expressions.render_spark import render


@dataclass(frozen=True)
class Value:
    """An expression on rows of a table, in the type of its target column. It is immutable and picklable.

    Attributes:
        sql: the expression in Spark's dialect, as the user wrote it.
        root: the parsed expression.
        table: the table's location, for errors.
    """

    sql: str
    root: Node
    table: str | None = field(default=None, compare=False)

    @property
    def columns(self) -> frozenset[str]:
        """The top-level columns that the expression reads, as the schema spells them."""
        return columns_of(self.root)

    @property
    def spark_sql(self) -> str:
        """The expression as SQL for Spark; the session's time zone changes only parts that only Spark evaluates."""
        return render(self.root)
