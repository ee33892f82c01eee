"""The layout of a table's data files: columns, partition columns, physical names and materialized columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from lakehouse_lib.schema import column_mapping
from lakehouse_lib.schema.types import Field, PrimitiveType, Schema

_LONG = PrimitiveType("long")


@dataclass(frozen=True)
class RowIdColumns:
    """The materialized columns in which copied rows keep row id and row commit version (PROTOCOL.md, Row Tracking).

    They are not in the table's schema. If a value is null or missing, the id is the ``baseRowId`` of the add action
    plus the position of the row, and the version is the action's ``defaultRowCommitVersion``.

    Attributes:
        ids, versions: the names of the columns in files; column mapping does not apply to them.
    """

    ids: str
    versions: str

    @property
    def fields(self) -> tuple[Field, Field]:
        """Both columns as fields of a schema."""
        return Field(self.ids, _LONG), Field(self.versions, _LONG)


@dataclass(frozen=True)
class TableLayout:
    """A table's columns, and how its data files store them.

    Attributes:
        schema: the columns under their logical names, partition columns included.
        partition_columns: the columns whose values are in the log and not in files, in the order of the folders.
        mapping: how columns are found in files, statistics and partition values (PROTOCOL.md, Column Mapping).
        row_ids: the materialized columns of row tracking; None: they are not read or written.
        copies_partition_columns: whether new files have copies of the partition columns. Queries do not
            read the copies; ``prove`` and ``purge`` do.
    """

    schema: Schema
    partition_columns: tuple[str, ...] = ()
    mapping: column_mapping.Mode = "none"
    row_ids: RowIdColumns | None = None
    copies_partition_columns: bool = False

    @classmethod
    def of_names(cls, schema: Schema, names: Mapping[str, str]) -> TableLayout:
        """The layout of files that store columns of a schema under other names.

        Args:
            names: the stored names, by column.

        Raises:
            KeyError: the schema does not have a column.
        """
        fields = [column_mapping.with_physical_name(schema.field(name), stored) for name, stored in names.items()]
        return cls(Schema(fields), mapping="name")

    @cached_property
    def physical(self) -> TableLayout:
        """The layout of the same columns under their physical names, without a mapping."""
        if self.mapping == "none":
            return self
        schema = column_mapping.physical_schema(self.schema, self.mapping)
        return replace(self, schema=schema, partition_columns=tuple(self.partition_keys.values()), mapping="none")

    @cached_property
    def partition_keys(self) -> dict[str, str]:
        """The keys of ``partitionValues`` by partition column (lower case), in the order of the folders."""
        return {name.lower(): self.partition_key(name) for name in self.partition_columns}

    @cached_property
    def data_columns(self) -> Schema:
        """The table's columns that data files hold: all except partition columns and void columns."""
        void = PrimitiveType("void")
        fields = [
            field for field in self.schema.fields if field.type != void and not self.is_partition_column(field.name)
        ]
        return Schema(fields)

    @property
    def copied_partition_columns(self) -> Schema:
        """The partition columns that new files contain."""
        return self.columns(self.partition_columns if self.copies_partition_columns else ())

    @property
    def text_partition_columns(self) -> tuple[str, ...]:
        """The partition columns that can have an empty value, which the log stores as null."""
        kinds = (PrimitiveType("string"), PrimitiveType("binary"))
        fields = [self.schema.field(name) for name in self.partition_columns]
        return tuple(field.name for field in fields if field.type in kinds)

    def is_partition_column(self, name: str) -> bool:
        """Whether the column is a partition column, regardless of the name's case."""
        return name.lower() in self.partition_keys

    def partition_key(self, name: str) -> str:
        """The key of a partition column in ``partitionValues``."""
        return column_mapping.partition_key(self.schema, name, self.mapping)

    def physical_name(self, field: Field) -> str:
        """The physical name of a column or a struct member."""
        return column_mapping.physical_name(field, self.mapping)

    def physical_path(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The physical names on the path to a leaf column; raises KeyError if there is no such leaf."""
        return column_mapping.physical_path(self.schema, path, self.mapping)

    def columns(self, names: Iterable[str]) -> Schema:
        """The schema of these columns, in the order of the names; raises KeyError if a column does not exist."""
        return Schema([self.schema.field(name) for name in names])
