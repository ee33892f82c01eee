"""The computed columns of a table: each write computes their values if the data lacks them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from lakehouse_lib.features.computed_columns.column_defaults import default_values
from lakehouse_lib.features.computed_columns.generated_columns import generated_values
from lakehouse_lib.features.computed_columns.identity_columns import Identity, identities
from lakehouse_lib.schema import Schema

if TYPE_CHECKING:
    from lakehouse_lib.expressions import Value

T = TypeVar("T")


@dataclass(frozen=True)
class ComputedColumns:
    """The columns that a write computes, with their expressions and numbers. Immutable and picklable.

    Attributes:
        defaults: the defaults of columns, by column.
        identity: the next numbers of identity columns, by column.
        generated: the expressions of generated columns, by column. They may read columns of the other two kinds.
    """

    defaults: Mapping[str, Value] = field(default_factory=dict)
    identity: Mapping[str, Identity] = field(default_factory=dict)
    generated: Mapping[str, Value] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: Schema, table: str | None = None) -> ComputedColumns:
        """The computed columns of a table.

        Raises:
            InvalidPredicateError: an expression does not parse, or reads a column that it cannot read.
            UnsupportedFeatureError: an expression is not text.
            InvalidSchemaError: the metadata of an identity column is not valid.
        """
        return cls(default_values(schema, table), identities(schema, table), generated_values(schema, table))

    def without(self, names: Iterable[str]) -> ComputedColumns:
        """The computed columns except ``names``, which the data has already; the case of names does not matter."""
        lower = {name.lower() for name in names}
        return ComputedColumns(
            _without(self.defaults, lower), _without(self.identity, lower), _without(self.generated, lower)
        )

    def recomputed(self, names: Iterable[str]) -> ComputedColumns:
        """The columns to compute again in a changed row: the generated columns except the assigned ``names``."""
        return ComputedColumns(generated=self.without(names).generated)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return (*self.defaults, *self.identity, *self.generated)


def _without(values: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    return {name: value for name, value in values.items() if name.lower() not in names}
