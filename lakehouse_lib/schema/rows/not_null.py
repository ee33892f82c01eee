"""NOT NULL: the row rule for columns, members, elements and map values that the schema declares as not nullable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of, literal
from lakehouse_lib.schema.quoting import quoted
from lakehouse_lib.schema.rows.places import PlaceRule, condition_at, parts_of, rows_at
from lakehouse_lib.schema.table_layout import TableLayout
from lakehouse_lib.schema.types import DataType


@dataclass(frozen=True)
class NotNull(PlaceRule):
    """A rule that a place in a column is not null; places inside a null value are ignored.

    Attributes:
        refuses_empty: whether empty text counts as null, because partition values in the log do not distinguish empty
            text from null.
    """

    refuses_empty: bool = False

    @property
    def name(self) -> str:
        """``NOT NULL`` and the dotted path."""
        return f"NOT NULL {self.place}" + " (empty text in a partition column is null)" * self.refuses_empty

    @property
    def condition(self) -> str:
        """The condition in Spark's SQL."""
        if self.refuses_empty:
            return f"OCTET_LENGTH({quoted(self.column)}) > 0"
        return condition_at(self.column, self.kind, self.path, "{} IS NOT NULL".format)

    def violations(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows have a null at this place."""
        values = rows.column(self.column)
        if self.refuses_empty:
            return flags_of(pc.fill_null(pc.equal(pc.binary_length(values), 0), literal(True, pa.bool_())))
        return rows_at(values, self.path, _nulls)


def not_null_rules(layout: TableLayout) -> list[NotNull]:
    """A rule for each place of a table that the schema declares as not nullable, in the schema's order."""
    rules = []
    for field in layout.schema.fields:
        if not field.nullable:
            refuses_empty = field.name in layout.text_partition_columns
            rules.append(NotNull(field.name, field.type, refuses_empty=refuses_empty))
        rules += [NotNull(field.name, field.type, path) for path in _required_paths(field.type)]
    return rules


def _required_paths(kind: DataType) -> Iterator[tuple[str, ...]]:
    """The paths below a value of a type where null is not allowed, without map keys."""
    for name, inner, nullable in parts_of(kind):
        if not nullable:
            yield (name,)
        for path in _required_paths(inner):
            yield (name, *path)


def _nulls(values: pa.Array) -> NDArray[np.bool_]:
    return flags_of(values.is_null()) if values.null_count else np.zeros(len(values), bool)
