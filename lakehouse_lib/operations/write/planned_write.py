"""Plan a write: the metadata of the table, the target of the data files, and the rules of the rows. Reads no rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.stored_schema import check_rows_are_kept
from lakehouse_lib.engine.writer_properties import WriterProperties
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.expressions import Predicate, PredicateRule, parse
from lakehouse_lib.features import (
    check_removal,
    protocol_for,
    requested_features,
    row_rules,
    with_physical_names,
)
from lakehouse_lib.features.computed_columns.computed_columns import ComputedColumns
from lakehouse_lib.features.computed_columns.identity_columns import check_assigned
from lakehouse_lib.features.file_layout import materialize_partition_columns
from lakehouse_lib.operations.write.create import (
    MODE_NAMES,
    check_columns,
    check_kinds,
    new_metadata,
    partition_columns,
    table_exists,
    unknown_mode,
)
from lakehouse_lib.operations.write.overwrite import (
    PartitionOverwriteMode,
    check_columns_are_kept,
    check_is_partitioned,
    check_partial_overwrite,
)
from lakehouse_lib.operations.write.wider_schema import with_new_columns
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE
from lakehouse_lib.schema import Schema, TableLayout, check_usable, enforce
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore

Mode = Literal["error", "append", "overwrite", "ignore"]
SchemaMode = Literal["merge", "overwrite"]


@dataclass(frozen=True)
class Write:
    """The options of a write.

    Attributes:
        mode: if the table exists: "error" raises, "append" adds the rows, "overwrite" replaces rows, "ignore" does
            nothing.
        schema_mode: None: the data must fit the table; "merge": new columns and fields are added; "overwrite" (with
            mode "overwrite"): the table gets the data's schema. With a predicate, "overwrite" requires that the data
            has all columns of the table in their types.
        partition_by: partition columns of a new table, or of a table whose schema is overwritten. In other cases it is
            None or names the table's partition columns.
        name, description, configuration: the values of a new table; an existing table keeps its own values.
        target_file_size: the size in bytes at which a file is closed; None: ``delta.targetFileSize``, else 100 MiB.
            Spark's own Parquet writer ignores this option.
        writer_properties: how the Parquet files are written.
        predicate: SQL (with mode "overwrite"): only rows for which it is true are replaced, and it must be true for all
            rows of the data. Rows for which it is NULL stay.
        partition_overwrite_mode: "dynamic" (with mode "overwrite"): only the partitions that occur in the data are
            replaced.
    """

    mode: Mode = "error"
    schema_mode: SchemaMode | None = None
    partition_by: Sequence[str] | None = None
    name: str | None = None
    description: str | None = None
    configuration: Mapping[str, str | None] | None = None
    target_file_size: int | None = None
    writer_properties: WriterProperties | None = None
    predicate: str | None = None
    partition_overwrite_mode: PartitionOverwriteMode = "static"


@dataclass(frozen=True)
class PlannedWrite:
    """The plan of a write.

    Attributes:
        what: the options of the write.
        snapshot: the version that was read; None: the write creates the table.
        metadata: the table's metadata after the write.
        predicate: the predicate of ``what``.
        target: the table that files are written to.
    """

    what: Write
    snapshot: Snapshot | None
    metadata: Metadata
    predicate: Predicate | None
    target: WriteTarget

    def numbered(self, names: Iterable[str]) -> tuple[str, ...]:
        """The identity columns whose numbers the write assigns to rows with the columns ``names``.

        Raises:
            InvalidArgumentError: the rows have values of an identity column that only the table may assign.
        """
        names = list(names)
        check_assigned(self.target.layout.schema, names, self.target.store.root, is_insert=True)
        return tuple(self.target.computed.without(names).identity)

    def takes_files_of(self, earlier: PlannedWrite) -> bool:
        """Whether files that were written for an earlier plan of the same rows can be committed by this plan."""
        new, old = self.target, earlier.target
        return (
            new.layout.mapping == old.layout.mapping == "none"
            and new.layout.partition_columns == old.layout.partition_columns
            and new.layout.copied_partition_columns == old.layout.copied_partition_columns
            and new.computed == old.computed
            and set(new.rules) <= set(old.rules)
        )


def check_write(what: Write, store: ObjectStore) -> None:
    """Check the options of a write.

    Raises:
        InvalidArgumentError: an option is not valid.
    """
    _check_modes(what, store)
    check_kinds(what.partition_by, what.name, what.description, what.configuration, table=store.root)


def plan_write(store: ObjectStore, schema: pa.Schema, what: Write, snapshot: Snapshot | None) -> PlannedWrite:
    """Plan a write of rows with a schema.

    Args:
        snapshot: the latest version; None: the table does not exist.

    Raises:
        InvalidArgumentError: the table exists (mode "error"), or its partitioning differs.
        InvalidSchemaError: data files cannot store the rows; see ``check_rows_are_kept``.
        InvalidPredicateError: the predicate is not valid.
        SchemaMismatchError: columns do not fit; the message lists all of them.
        DeltaProtocolError: (mode "overwrite") the table is append-only.
        UnsupportedFeatureError: the table has a writer feature that this library does not support.
    """
    if snapshot is None:
        metadata = new_metadata(
            Schema.from_arrow(schema),
            what.partition_by or (),
            name=what.name,
            description=what.description,
            configuration=what.configuration,
            table=store.root,
        )
    else:
        if what.mode == "error":
            raise table_exists(store)
        snapshot.check_writable()
        metadata = metadata_after(snapshot, schema, what)
        if what.mode == "overwrite" and snapshot.file_count:  # refuse before rows are written
            check_removal(snapshot.metadata, table=store.root, version=snapshot.version)
    if what.partition_overwrite_mode == "dynamic":
        check_is_partitioned(metadata, store)
    predicate = _predicate(store, snapshot, metadata, what)
    return PlannedWrite(what, snapshot, metadata, predicate, _target(store, snapshot, metadata, what, predicate))


def _predicate(store: ObjectStore, snapshot: Snapshot | None, metadata: Metadata, what: Write) -> Predicate | None:
    if what.predicate is None:
        return None
    # A predicate on an existing table cannot name a column that this write adds, because the rows of the table lack it.
    schema = Schema.from_json(metadata.schema_string) if snapshot is None else snapshot.schema
    return parse(what.predicate, schema, table=store.root)


def metadata_after(snapshot: Snapshot, incoming: pa.Schema, what: Write) -> Metadata:
    """The table's metadata after this write."""
    table = snapshot.store.root
    before = snapshot.metadata
    if what.schema_mode == "overwrite" and what.predicate is None:
        partition_by = snapshot.partition_columns if what.partition_by is None else what.partition_by
        schema = Schema.from_arrow(incoming)
        check_usable(schema, table=table)
        check_columns(schema, before.configuration, table=table)
        columns = partition_columns(schema, partition_by, table)
        replaced = replace(before, schema_string=schema.to_json(), partition_columns=columns)
        return with_physical_names(replaced, before, table=table)
    if what.partition_by is not None and [name.lower() for name in what.partition_by] != [
        name.lower() for name in snapshot.partition_columns
    ]:
        raise InvalidArgumentError(
            f"partition_by is {list(what.partition_by)}; expected the table's, {list(snapshot.partition_columns)}",
            table=table,
            version=snapshot.version,
            hint="Omit partition_by",
            code="DELTA_PARTITIONING_MISMATCH",
        )
    if what.schema_mode == "overwrite":
        check_columns_are_kept(snapshot, incoming)
    if what.schema_mode is not None:
        return with_new_columns(snapshot, incoming)
    enforce(snapshot.schema, incoming, table=table)
    return before


def _target(
    store: ObjectStore, snapshot: Snapshot | None, metadata: Metadata, what: Write, predicate: Predicate | None
) -> WriteTarget:
    schema = Schema.from_json(metadata.schema_string)
    if snapshot is None:
        protocol = protocol_for(metadata, extra=requested_features(what.configuration or {}))
    else:
        protocol = protocol_for(metadata, snapshot.protocol)
    layout = TableLayout(
        schema,
        metadata.partition_columns,
        COLUMN_MAPPING_MODE.of(metadata.configuration, store.root),
        copies_partition_columns=materialize_partition_columns.FEATURE.is_supported(protocol),
    )
    rules = row_rules(metadata, store.root)
    if predicate is not None:
        rules = (*rules, PredicateRule(predicate, code="DELTA_REPLACE_WHERE_MISMATCH"))
    target = WriteTarget(
        store,
        layout,
        metadata.configuration,
        what.target_file_size,
        rules=rules,
        writer_properties=what.writer_properties,
        computed=ComputedColumns.of(schema, store.root),
    )
    check_rows_are_kept(target)
    return target


def _check_modes(what: Write, store: ObjectStore) -> None:
    if what.mode not in MODE_NAMES:
        raise unknown_mode(what.mode, store)
    if what.schema_mode not in (None, "merge", "overwrite"):
        raise InvalidArgumentError(
            f"schema_mode is {what.schema_mode!r}; expected 'merge', 'overwrite' or None",
            table=store.root,
            code="DELTA_INVALID_WRITE_MODE",
        )
    check_partial_overwrite(what.mode, what.schema_mode, what.predicate, what.partition_overwrite_mode, store)
    if what.schema_mode == "overwrite" and what.mode != "overwrite":
        raise InvalidArgumentError(
            f"schema_mode is 'overwrite' and mode is {what.mode!r}; expected mode 'overwrite'",
            table=store.root,
            hint='Use mode "overwrite", or schema_mode "merge" to add columns',
            code="DELTA_INVALID_WRITE_MODE",
        )
