"""The column or the member of a struct that a caller of ``alter`` names, with its place in the schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.protocol.property_values import column_names
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.schema.nested_fields import Path, fields_of, find_field, with_fields_of
from lakehouse_lib.schema.quoting import quoted
from lakehouse_lib.snapshot import Snapshot


@dataclass(frozen=True)
class ColumnPlace:
    """A field and its place in a schema.

    Attributes:
        schema: the table's columns.
        path: the names from the column to the field, as the schema spells them.
        field: the field at the path.
    """

    schema: Schema
    path: Path
    field: Field

    @property
    def name(self) -> str:
        """The dotted path, as in commitInfo and in errors."""
        return path_text(self.path)

    @property
    def siblings(self) -> list[Field]:
        """All fields of the struct that contains this field. For a column, these are all columns."""
        return fields_of(self.schema, self.path[:-1])

    def with_siblings(self, fields: Sequence[Field]) -> Schema:
        """The schema in which ``fields`` are the fields of the struct that contains this field.

        Raises:
            DuplicateColumnError: two fields have the same name, regardless of case.
        """
        return with_fields_of(self.schema, self.path[:-1], fields)

    def replaced(self, changed: Field) -> Schema:
        """The schema with ``changed`` at the place of this field."""
        return self.with_siblings([changed if field is self.field else field for field in self.siblings])


def place_of(snapshot: Snapshot, name: str) -> ColumnPlace:
    """The column or member with this name.

    Args:
        name: the name of a column, or the dotted path of a member, such as ``address.city``,
            ``items.element.price`` or ```a.b`.c``. If a column has exactly this name, the result is this column.

    Raises:
        InvalidArgumentError: the column or member does not exist.
    """
    columns = snapshot.schema
    if not isinstance(name, str) or name in columns:
        field = snapshot.field(name)
        return ColumnPlace(columns, (field.name,), field)
    try:
        paths = column_names(name)
    except ValueError:
        paths = ()
    match = find_field(columns, paths[0]) if len(paths) == 1 else None
    if match is None:
        raise InvalidArgumentError(
            f"the column {name!r} does not exist",
            table=snapshot.store.root,
            version=snapshot.version,
            hint=f"The columns are {', '.join(columns.names)}; a member is written column.member",
            code="DELTA_COLUMN_NOT_FOUND",
        )
    return ColumnPlace(columns, *match)


def path_text(path: Sequence[str]) -> str:
    """A path as text. A name is in backticks unless it has only letters, digits and underscores, and no digit first."""
    return ".".join(name if name.isidentifier() else quoted(name) for name in path)
