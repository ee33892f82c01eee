"""The feature identityColumns: columns with unique whole numbers (PROTOCOL.md, Identity Columns).

The numbers are ``start``, ``start + step`` and so on, possibly with gaps. ``highWaterMark`` in the metadata of the
column is the last number that a write has assigned: the greatest for a positive step, the least for a negative one. A
write assigns numbers after the high water mark, and moves the high water mark in the same commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.errors import InvalidArgumentError, InvalidSchemaError
from lakehouse_lib.features.feature import Feature, field_metadata
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.schema import Field, PrimitiveType, Schema, TableLayout
from lakehouse_lib.schema.nested_fields import members_of
from lakehouse_lib.schema.rows.enforcement import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_START,
)
from lakehouse_lib.statistics import bounds_of

#: The commitInfo tag of a commit whose metadata changes only in high water marks. Because of this tag, a transaction of
#: delta-spark does not conflict with the commit, unless the transaction changes the metadata, too.
MARKS_TAG = "delta.identity.schemaUpdate"

_PREFIX = "delta.identity."
_STEP = f"{_PREFIX}step"
_MARK = f"{_PREFIX}highWaterMark"
_EXPLICIT = f"{_PREFIX}allowExplicitInsert"
_LONG = PrimitiveType("long")
#: Values of a long are at least ``-_LIMIT`` and less than ``_LIMIT``.
_LIMIT = 1 << 63

FEATURE = Feature(
    "identityColumns",
    False,
    True,
    True,
    field_metadata(_PREFIX),
    "a write assigns unique numbers if the data lacks the column; data with the column is refused unless the column "
    "allows explicit values",
    legacy_versions=(1, 6),
)


@dataclass(frozen=True)
class Identity:
    """The next numbers of an identity column: ``first``, ``first + step`` and so on."""

    first: int
    step: int


def identities(schema: Schema, table: str | None = None) -> dict[str, Identity]:
    """The next numbers of the identity columns of a table, by column.

    Raises:
        InvalidSchemaError: the metadata of a column is not valid.
    """
    return {field.name: _identity(field, table) for field in schema.fields if is_identity(field)}


def is_identity(field: Field) -> bool:
    """Whether a column is an identity column."""
    return any(key.startswith(_PREFIX) for key in field.metadata)


def step_of(field: Field) -> int:
    """The step of an identity column, not 0."""
    return _identity(field, None).step


def check_identities(layout: TableLayout, table: str | None) -> None:
    """Refuse identity columns that a new table cannot have.

    Raises:
        InvalidSchemaError: an identity column is in a struct, partitions the table, is not a long, has a default or an
            expression, or its metadata is not valid.
    """
    for member in members_of(layout.schema):
        if is_identity(member):
            raise _refused(member.name, "is a member of a struct; expected a column", table)
    for field in layout.schema.fields:
        if not is_identity(field):
            continue
        if field.type != _LONG:
            raise _refused(field.name, f"has the type {field.type}; expected long", table)
        if layout.is_partition_column(field.name):
            raise _refused(field.name, "partitions the table; expected another column", table)
        if not field.metadata.keys().isdisjoint((GENERATION_EXPRESSION, CURRENT_DEFAULT)):
            raise _refused(field.name, "has a default or an expression; expected one source of values", table)
        _identity(field, table)


def check_assigned(schema: Schema, names: Iterable[str], table: str, *, is_insert: bool) -> None:
    """Refuse data and assignments with values for identity columns that do not allow them.

    Args:
        names: the columns that the data has or the verb assigns, regardless of case.
        is_insert: whether the values are for new rows. Only then can ``allowExplicitInsert`` allow them.

    Raises:
        InvalidArgumentError: a column does not allow the values.
    """
    for name in names:
        field = schema.get(name)
        if field is None or not is_identity(field) or (is_insert and field.metadata.get(_EXPLICIT) is True):
            continue
        problem = "the table assigns its numbers" if is_insert else "an update cannot change it"
        raise InvalidArgumentError(
            f"a value is given for the identity column {field.name!r}: {problem}",
            table=table,
            hint="Leave the column out of the data or of the assignments; except_cols leaves it out of a merge",
            code="DELTA_EXPLICIT_IDENTITY_VALUE",
        )


def with_high_water_marks(metadata: Metadata, layout: TableLayout, names: Iterable[str], files: pa.Table) -> Metadata:
    """The metadata with the high water marks moved to the last numbers in new files.

    Args:
        layout: the layout of the files.
        names: the columns whose numbers were assigned.
        files: a files table with statistics of these columns.

    Raises:
        InvalidArgumentError: a file has no statistics of a column.
    """
    paths = {name: layout.physical_path((name,)) for name in names}
    if not paths or not len(files):
        return metadata
    bounds = bounds_of(files, dict.fromkeys(paths.values(), _LONG))
    schema = Schema.from_json(metadata.schema_string)
    marks: dict[str, int] = {}
    for name, path in paths.items():
        step = _identity(schema.field(name), None).step
        last_numbers = bounds[path].max if step > 0 else bounds[path].min
        if last_numbers.null_count:
            raise InvalidArgumentError(
                f"the files have no statistics of the identity column {name!r}; expected them for its high water mark",
                hint="Enable the statistics of the column in the writer properties",
                code="DELTA_MISSING_IDENTITY_STATISTICS",
            )
        marks[name] = (pc.max(last_numbers) if step > 0 else pc.min(last_numbers)).as_py()
    return metadata.with_schema(_with_marks(schema, marks).to_json())


def synchronize(field: Field, number: int) -> Field:
    """The identity column with its high water mark at or after a number that a row has (SYNC IDENTITY of delta-spark).

    The mark becomes the first number of the sequence that is not before ``number``. It stays if it is later, or if
    ``number`` is before the start.
    """
    start, step = field.metadata[IDENTITY_START], step_of(field)
    if (number < start) if step > 0 else (number > start):
        return field
    mark = start - (start - number) // step * step
    if not -_LIMIT <= mark < _LIMIT:
        mark = number
    (changed,) = _with_marks(Schema([field]), {field.name: mark}).fields
    return changed


def with_marks_of(schema_string: str, other: str) -> str:
    """The schema ``schema_string``, where each identity column has the later high water mark of the two schemas.

    Both schemas are JSON. The later mark is the greater one for a positive step, the lesser one for a negative step.
    """
    schema, marks = Schema.from_json(schema_string), {}
    for field in Schema.from_json(other).fields:
        own = schema.get(field.name)
        if own is not None and is_identity(own) and type(field.metadata.get(_MARK)) is int:
            marks[own.name] = field.metadata[_MARK]
    return _with_marks(schema, marks).to_json() if marks else schema_string


def moves_only_marks(before: Metadata, after: Metadata) -> bool:
    """Whether the metadata changes, and only in the high water marks of identity columns."""
    return (
        before != after
        and replace(after, schema_string=before.schema_string) == before
        and without_marks(before.schema_string) == without_marks(after.schema_string)
    )


def without_marks(schema_string: str) -> Schema:
    """The schema without high water marks, to compare schemas; each write that assigns numbers moves the marks."""
    fields = [_changed(field, {_MARK: None}) for field in Schema.from_json(schema_string).fields]
    return Schema(fields)


def _with_marks(schema: Schema, marks: Mapping[str, int]) -> Schema:
    fields = []
    for field in schema.fields:
        mark = marks.get(field.name)
        if mark is not None:
            step, before = _identity(field, None).step, field.metadata.get(_MARK, mark)
            field = _changed(field, {_MARK: max(mark, before) if step > 0 else min(mark, before)})
        fields.append(field)
    return Schema(fields)


def _changed(field: Field, entries: Mapping[str, Any]) -> Field:
    metadata = {key: value for key, value in {**field.metadata, **entries}.items() if value is not None}
    return Field(field.name, field.type, field.nullable, metadata)


def _identity(field: Field, table: str | None) -> Identity:
    start, step, mark = (field.metadata.get(key) for key in (IDENTITY_START, _STEP, _MARK))
    for key, value in ((IDENTITY_START, start), (_STEP, step), (_MARK, mark)):
        is_missing = value is None and key == _MARK
        if not is_missing and not (type(value) is int and -_LIMIT <= value < _LIMIT and (key != _STEP or value)):
            expected = "a whole number other than 0" if key == _STEP else "a whole number"
            raise _refused(field.name, f"has {key} {excerpt(value)}; expected {expected}", table)
    assert type(start) is int
    assert type(step) is int
    if mark is None:
        return Identity(start, step)
    return Identity(start + max(0, (mark - start) // step + 1) * step, step)


def _refused(name: str, problem: str, table: str | None) -> InvalidSchemaError:
    return InvalidSchemaError(
        f"the identity column {name!r} {problem}",
        table=table,
        hint="Use a top-level column of type long, with delta.identity.start and a delta.identity.step other than 0",
        code="DELTA_INVALID_IDENTITY_COLUMN",
    )
