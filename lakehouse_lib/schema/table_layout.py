"""How a table's data files hold its rows: columns, partition columns, stored names, and where rows keep their ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from lakehouse_lib.schema import column_mapping
from lakehouse_lib.schema.types import Field, PrimitiveType, Schema

_LONG = PrimitiveType("long")


@dataclass(frozen=True)
class RowIdColumns:
    """The columns of data files, outside of the table's schema, in which rows keep id and commit version for life.

    Where one is null or missing, the place of the row in its file gives the id, and the file's action the version
    (PROTOCOL.md, Row Tracking).

    Attributes:
        ids, versions: their names in the files, whatever the column mapping.
    """

    ids: str
    versions: str

    @property
    def fields(self) -> tuple[Field, Field]:
        """Both columns, as the schema would have them."""
        return Field(self.ids, _LONG), Field(self.versions, _LONG)


@dataclass(frozen=True)
class TableLayout:
    """A table's columns, and the names and places that its data files have for them.

    Attributes:
        schema: the columns under their logical names, partition columns included.
        partition_columns: whose values are in the log and not in the files, in the order of the folders.
        mapping: by what columns are matched in files, statistics and partition values (PROTOCOL.md, Column Mapping).
        row_ids: what rows that are copied bring along; None: rows are read or written without.
    """

    schema: Schema
    partition_columns: tuple[str, ...] = ()
    mapping: column_mapping.Mode = "none"
    row_ids: RowIdColumns | None = None

    @classmethod
    def of_names(cls, schema: Schema, names: Mapping[str, str]) -> TableLayout:
        """The layout of files that store these columns of a schema under other names.

        Args:
            names: by the schema's name of a column.
        """
        fields = [column_mapping.stored_as(schema.field(name), stored) for name, stored in names.items()]
        return cls(Schema(fields), mapping="name")

    @cached_property
    def physical(self) -> TableLayout:
        """The same columns as files have them: under their physical names, so without a mapping."""
        if self.mapping == "none":
            return self
        schema = column_mapping.physical_schema(self.schema, self.mapping)
        return TableLayout(schema, tuple(self.partition_keys.values()), row_ids=self.row_ids)

    @cached_property
    def partition_keys(self) -> dict[str, str]:
        """The keys of ``partitionValues`` by partition column (lower case), in the order of the folders."""
        return {name.lower(): self.partition_key(name) for name in self.partition_columns}

    @cached_property
    def data_columns(self) -> Schema:
        """The columns that a data file holds: neither partition columns nor void ones, row ids not among them."""
        void = PrimitiveType("void")
        held = [
            field for field in self.schema.fields if field.type != void and not self.is_partition_column(field.name)
        ]
        return Schema(held)

    def is_partition_column(self, name: str) -> bool:
        """Whether the log has the column's values, regardless of the name's case."""
        return name.lower() in self.partition_keys

    def partition_key(self, name: str) -> str:
        """The key of a column in ``partitionValues``."""
        return column_mapping.partition_key(self.schema, name, self.mapping)

    def physical_name(self, field: Field) -> str:
        """The name of a column, or of a member of a struct, where it is stored."""
        return column_mapping.physical_name(field, self.mapping)

    def physical_path(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Where a leaf column's values are stored, from the top. KeyError when there is no such leaf."""
        return column_mapping.physical_path(self.schema, path, self.mapping)

    def columns(self, names: Iterable[str]) -> Schema:
        """The schema of these columns, in the order of the names."""
        return Schema([self.schema.field(name) for name in names])
