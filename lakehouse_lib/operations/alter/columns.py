"""Add columns, and change the metadata, the default, the nullability, the type and the place of a column."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidArgumentError, SchemaMismatchError, UnsupportedFeatureError
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.expressions.ir import Column, IsNull
from lakehouse_lib.expressions.render_spark import render
from lakehouse_lib.features import FEATURES, changed_configuration, type_widening
from lakehouse_lib.features.computed_columns.column_defaults import check_defaults
from lakehouse_lib.features.constraints import invariants
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.operations.alter.column_place import ColumnPlace, place_of
from lakehouse_lib.operations.alter.column_users import check_unused
from lakehouse_lib.operations.alter.existing_rows import check_existing_rows
from lakehouse_lib.operations.alter.metadata_change import commit_change
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.operations.write.wider_schema import with_wider_schema
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import TYPE_WIDENING
from lakehouse_lib.schema import Field, PrimitiveType, Schema, StructType, all_types, check_usable, with_fields
from lakehouse_lib.schema.rows.enforcement import CURRENT_DEFAULT, GENERATION_EXPRESSION, IDENTITY_START
from lakehouse_lib.schema.rows.not_null import NotNull
from lakehouse_lib.schema.type_widening import may_change, with_change
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties

_RESERVED = "delta."
_NEW_TABLE = "Create a table with this column (DeltaTable.create), and write the rows into it"


def plan_columns(snapshot: Snapshot, fields: Sequence[Field]) -> Metadata:
    """The metadata with new columns, or with new members of structs.

    Args:
        fields: the new columns. For a new member of a struct: the struct column with this member.

    Raises:
        InvalidArgumentError: ``fields`` are not fields, or their metadata has a key that engines set, such as the
            expression of a generated column.
        SchemaMismatchError: the table has a column of this name with another type.
        InvalidSchemaError: a new column is NOT NULL, or its name or type is not valid in this table.
        UnsupportedFeatureError: a column needs a feature that this library does not write.
    """
    table = snapshot.store.root
    if not isinstance(fields, Sequence) or not fields or not all(isinstance(field, Field) for field in fields):
        raise InvalidArgumentError(
            f"fields is {excerpt(fields)}; expected at least one lakehouse_lib.Field",
            table=table,
            hint='Write [Field("note", "string")]',
        )
    for kind in all_types(StructType(list(fields))):
        for field in kind.fields if isinstance(kind, StructType) else ():
            _check_keys(field.name, field.metadata, table)
    schema = with_fields(snapshot.schema, fields, table=table)
    check_usable(schema, table=table)
    changed_configuration(snapshot.configuration, {}, schema, table=table)
    return with_wider_schema(snapshot, schema)


def add_columns(
    snapshot: Snapshot, fields: Sequence[Field], *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Add columns at the end of the schema, and members at the end of structs. No data file is read or written.

    Existing rows have null in new columns. A field that the table already has, with the same name and
    type, has no effect. A commit is made even if no field has an effect.

    Raises:
        DeltaError: as ``plan_columns``.
        MetadataChangedError: another writer changed the metadata first.
    """
    snapshot.check_writable()
    metadata = plan_columns(snapshot, fields)
    columns = [{"column": _description(field, field.name)} for field in fields]
    return commit_change(
        snapshot, "ADD COLUMNS", {"columns": columns}, metadata=metadata, commit_properties=commit_properties
    )


def set_column_metadata(
    snapshot: Snapshot,
    column: str,
    metadata: Mapping[str, Any],
    *,
    commit_properties: CommitProperties | None = None,
) -> OperationResult:
    """Set entries in the metadata of a column, such as its comment. Other entries stay.

    Raises:
        InvalidArgumentError: the column does not exist, ``metadata`` is empty, a key is not text, a value is not JSON,
            or only engines set the key.
    """
    table = snapshot.store.root
    place = place_of(snapshot, column)
    field = place.field
    if not isinstance(metadata, Mapping) or not metadata:
        raise InvalidArgumentError(
            f"metadata is {excerpt(metadata)}; expected a dictionary with at least one key",
            table=table,
            hint='Write {"comment": "price in EUR"}',
        )
    _check_keys(field.name, metadata, table)
    changed = Field(field.name, field.type, field.nullable, {**field.metadata, **metadata})
    return change_column(snapshot, place, changed, commit_properties)


def drop_column_not_null(
    snapshot: Snapshot, column: str, *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Allow null in a column.

    Raises:
        InvalidArgumentError: the column does not exist, or allows null already.
    """
    place = place_of(snapshot, column)
    field = place.field
    if field.nullable:
        raise InvalidArgumentError(
            f"the column {place.name!r} is nullable already",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Nothing has to be changed",
        )
    return change_column(snapshot, place, Field(field.name, field.type, True, field.metadata), commit_properties)


def set_column_default(
    snapshot: Snapshot, column: str, default: str, *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Set the value that new rows get if they are written without the column. Existing rows stay as they are.

    Args:
        default: a SQL expression without columns.

    Raises:
        InvalidArgumentError: the column does not exist.
        InvalidSchemaError: the column is generated, an identity column, or a member of a struct.
        InvalidPredicateError: the expression does not parse, reads a column, or has a type that cannot be assigned to
            the column.
        UnsupportedFeatureError: the default is not text.
        MetadataChangedError: another writer changed the metadata first.
    """
    place = place_of(snapshot, column)
    field = place.field
    changed = Field(field.name, field.type, field.nullable, {**field.metadata, CURRENT_DEFAULT: default})
    check_defaults(place.replaced(changed), snapshot.store.root)
    return change_column(snapshot, place, changed, commit_properties)


def drop_column_default(
    snapshot: Snapshot, column: str, *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Remove the default of a column: new rows that are written without the column get null.

    Raises:
        InvalidArgumentError: the column does not exist, or has no default.
        MetadataChangedError: another writer changed the metadata first.
    """
    place = place_of(snapshot, column)
    field = place.field
    if CURRENT_DEFAULT not in field.metadata:
        raise InvalidArgumentError(
            f"the column {column!r} has no default",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Nothing has to be changed",
        )
    metadata = {key: value for key, value in field.metadata.items() if key != CURRENT_DEFAULT}
    changed = Field(field.name, field.type, field.nullable, metadata)
    return change_column(snapshot, place, changed, commit_properties)


def set_column_not_null(
    snapshot: Snapshot, column: str, engine: Engine, *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Refuse null in a top-level column from now on, if no row of the table has null in it.

    Raises:
        InvalidArgumentError: the column does not exist, or is NOT NULL already.
        ConstraintViolatedError: rows have null in the column; nothing is committed.
        CommitFailedError: a concurrent commit conflicts with this one, for example because it may have added null.
    """
    field = snapshot.field(column)
    if not field.nullable:
        raise InvalidArgumentError(
            f"the column {field.name!r} is NOT NULL already",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Nothing has to be changed",
        )
    changed = Field(field.name, field.type, False, field.metadata)
    check_usable(Schema([changed]), table=snapshot.store.root)
    snapshot.check_writable()
    is_null = IsNull(Column((field.name,), field.type))
    violation = Predicate(render(is_null), is_null, snapshot.store.root)
    check_existing_rows(snapshot, NotNull(field.name, field.type), violation, engine)
    place = place_of(snapshot, field.name)
    return change_column(snapshot, place, changed, commit_properties, reads=(violation,))


def change_column_type(
    snapshot: Snapshot,
    column: str,
    kind: PrimitiveType,
    *,
    commit_properties: CommitProperties | None = None,
) -> OperationResult:
    """Change the type of a column to a wider type. Files keep the narrow type, and reads convert their values.

    Args:
        kind: the new type, to which the protocol allows the old type to be widened.

    Raises:
        InvalidArgumentError: the column does not exist, partitions the table, or a constraint or a property names it.
        SchemaMismatchError: the protocol does not allow the change.
        UnsupportedFeatureError: ``delta.enableTypeWidening`` is not true.
        MetadataChangedError: another writer changed the metadata first.
    """
    table, version = snapshot.store.root, snapshot.version
    place = place_of(snapshot, column)
    field = place.field
    if not type_widening.is_enabled(snapshot.protocol, snapshot.metadata):
        raise UnsupportedFeatureError(
            f"the type of column {place.name!r} cannot change: {TYPE_WIDENING.key} is not true (typeWidening)",
            table=table,
            version=version,
            hint=f'First call alter.set_table_properties({{"{TYPE_WIDENING.key}": "true"}})',
        )
    if not may_change(field.type, kind):
        raise SchemaMismatchError(
            f"the type of column {place.name!r} cannot change from {field.type} to {kind}; expected a wider type that "
            "the protocol allows (PROTOCOL.md, Type Widening)",
            table=table,
            version=version,
            hint="Add a column of the new type, and update it",
        )
    check_unused(snapshot, place, "changed")
    snapshot.check_writable()
    return change_column(snapshot, place, with_change(field, kind), commit_properties)


def move_column(
    snapshot: Snapshot, column: str, after: str | None, *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Change the place of a column among the columns, or of a member in its struct. No file is read or written.

    Args:
        after: the column, or the name of the member, that will come directly before; None: the column becomes the
            first.

    Raises:
        InvalidArgumentError: a column does not exist, or ``after`` is ``column``.
        MetadataChangedError: another writer changed the metadata first.
    """
    place = place_of(snapshot, column)
    other_fields = [field for field in place.siblings if field is not place.field]
    names = [field.name.lower() for field in other_fields]
    if after is not None and (not isinstance(after, str) or after.lower() not in names):
        raise InvalidArgumentError(
            f"after is {excerpt(after)}; expected one of {', '.join(field.name for field in other_fields)}",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Name a column beside it; for a member, another member of the same struct, without its path",
            code="DELTA_COLUMN_NOT_FOUND",
        )
    index = 0 if after is None else names.index(after.lower()) + 1
    schema = place.with_siblings([*other_fields[:index], place.field, *other_fields[index:]])
    position = "FIRST" if after is None else f"AFTER {other_fields[index - 1].name}"
    snapshot.check_writable()
    return commit_change(
        snapshot,
        "CHANGE COLUMN",
        {"column": _description(place.field, place.name), "position": position},
        metadata=snapshot.metadata.with_schema(schema.to_json()),
        commit_properties=commit_properties,
    )


def change_column(
    snapshot: Snapshot,
    place: ColumnPlace,
    changed: Field,
    commit_properties: CommitProperties | None,
    *,
    reads: tuple[Predicate | None, ...] = (),
) -> OperationResult:
    """Commit a new definition of the column or member at ``place``.

    Args:
        changed: the new definition.
        reads: the predicates of the rows that the change depends on; None among them: all rows.
    """
    return commit_change(
        snapshot,
        "CHANGE COLUMN",
        {"column": _description(changed, place.name)},
        metadata=snapshot.metadata.with_schema(place.replaced(changed).to_json()),
        features=() if changed.nullable else (invariants.FEATURE.name,),  # NOT NULL is an invariant in delta-spark
        reads=reads,
        commit_properties=commit_properties,
    )


#: The metadata key of each kind of computed column -> the kind, and the way to get such a column in an existing table.
_COMPUTED = {
    GENERATION_EXPRESSION: ("generation expression", _NEW_TABLE),
    IDENTITY_START: ("identity", _NEW_TABLE),
    CURRENT_DEFAULT: ("default", "Call alter.set_column_default, after alter.add_columns if the column is new"),
}


def _check_keys(column: str, metadata: Mapping[str, Any], table: str) -> None:
    """Refuse computed columns as delta-spark does, other metadata keys that engines set, and values that are not JSON.

    Existing rows do not have the value that a computed column gives to new rows.
    """
    for key, (kind, hint) in _COMPUTED.items():
        if key in metadata:
            raise InvalidArgumentError(
                f"the metadata of column {column!r} has {key} = {excerpt(metadata[key])}; expected no {kind}",
                table=table,
                hint=hint,
                code="DELTA_COMPUTED_COLUMN_NOT_ADDED",
            )
    for key, value in metadata.items():
        if not isinstance(key, str) or not _is_json(value):
            raise InvalidArgumentError(
                f"the metadata of column {column!r} has {excerpt(key)} = {excerpt(value)}; expected text = JSON",
                table=table,
                hint='Write {"comment": "price in EUR"}',
            )
        probe = Schema([Field("column", "long", metadata={key: value})])
        if key.lower().startswith(_RESERVED) or any(feature.is_required_by({}, probe) for feature in FEATURES.values()):
            raise InvalidArgumentError(
                f"the metadata of column {column!r} has {key!r}, which only engines set",
                table=table,
                hint="Leave it out",
            )


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _description(field: Field, name: str) -> dict[str, Any]:
    """The description of a column or member in commitInfo, as in delta-spark; ``name`` is its dotted path."""
    return {
        "name": name,
        "type": field.type.type,
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }
