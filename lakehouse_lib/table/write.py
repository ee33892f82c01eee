"""``write_deltalake``: write rows to a table, in one commit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lakehouse_lib.engine.base import Engine, check_engine
from lakehouse_lib.engine.incoming import Incoming, incoming
from lakehouse_lib.engine.writer_properties import WriterProperties, check_writer_properties
from lakehouse_lib.operations.write.overwrite import PartitionOverwriteMode
from lakehouse_lib.operations.write.planned_write import Mode, SchemaMode, Write
from lakehouse_lib.operations.write.write import write as write_rows
from lakehouse_lib.store import open_store
from lakehouse_lib.table.delta_table import DeltaTable
from lakehouse_lib.transaction.commit_properties import CommitProperties, commit_properties_of
from lakehouse_lib.transaction.hook_properties import PostCommitHookProperties


def write_deltalake(
    table_or_uri: str | os.PathLike[str] | DeltaTable,
    data: Any,
    *,
    partition_by: list[str] | str | None = None,
    mode: Mode = "error",
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    schema_mode: SchemaMode | None = None,
    storage_options: dict[str, str] | None = None,
    predicate: str | None = None,
    target_file_size: int | None = None,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
    engine: Engine | None = None,
    partition_overwrite_mode: PartitionOverwriteMode = "static",
) -> None:
    """Write ``data`` to a table, which is created if it does not exist.

    Arrow data is streamed, so memory is bounded. Spark writes a Spark DataFrame. Data without rows makes a commit, too,
    as in delta-rs.

    Args:
        table_or_uri: a location, or an open table. An open table is updated to the new version. If the store fails
            after the commit, the next call on the table updates it.
        data: a Spark DataFrame, or anything with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (pyarrow, pandas,
            polars, DuckDB), or a sequence of record batches. A DataFrame's columns are nullable in a new table, because
            Spark infers NOT NULL from these rows only.
        partition_by: the partition columns of a new table, or of a table whose schema is overwritten. In other cases,
            None or the partition columns of the table.
        mode: if the table exists: "error", "append", "overwrite" (removes all rows, or those that ``predicate`` or
            ``partition_overwrite_mode`` selects), "ignore" (does nothing).
        name, description, configuration: the values of a table that this call creates. An existing table keeps its own
            values, as in delta-rs; ``DeltaTable.alter`` changes them.
        schema_mode: None: the data must fit the table; "merge": new columns and nested fields are added, nullable;
            "overwrite" (with mode "overwrite"): the table gets the data's schema. With a predicate, "overwrite"
            requires that the data has all columns of the table in their types.
        storage_options: the options of the store; ignored for an open table.
        predicate: SQL, with mode "overwrite": only the rows for which it is true are replaced. It must be true for all
            rows of the data. Rows of the table for which it is NULL stay.
        target_file_size: bytes at which a file is closed; default ``delta.targetFileSize``, else 100 MiB. Spark's own
            Parquet writer ignores it: each partition of the DataFrame writes its own files.
        writer_properties: how the Parquet files are written.
        commit_properties: custom metadata and application transactions for the commit.
        post_commithook_properties: which hooks run after the commit.
        engine: the execution engine. Default: the Spark session of a Spark DataFrame; for other data the engine of the
            open table, or this process.
        partition_overwrite_mode: "dynamic", with mode "overwrite": only the partitions that occur in the data are
            replaced. "static": all rows, or those of ``predicate``.

    Raises:
        InvalidArgumentError: the table exists (mode "error"), the data is of an unsupported kind, a mode is unknown, or
            the arguments cannot be combined.
        InvalidSchemaError: a column is not valid in a table, or all columns are void or partition columns, so that data
            files could not store the rows.
        InvalidPredicateError: the predicate is not valid, or the engine cannot evaluate it.
        SchemaMismatchError: columns do not fit; the message lists all of them.
        ConstraintViolatedError: rows violate a rule of the table, or the predicate is not true for them.
        UnsupportedFeatureError: the table uses a feature that this library cannot write.
        DeltaProtocolError: (mode "overwrite") the table is append-only.
        CommitFailedError: a concurrent commit conflicts with this one; nothing is committed.
        CommitUnknownError: it is unknown whether the commit exists, for example because the store gave no answer.
    """
    if isinstance(table_or_uri, DeltaTable):
        table, store = table_or_uri, table_or_uri.store
    else:
        table, store = None, open_store(table_or_uri, storage_options)
    check_writer_properties(writer_properties, table=store.root)
    properties = commit_properties_of(commit_properties, post_commithook_properties, table=store.root)
    check_engine(engine, table=store.root)
    rows = incoming(data)
    options = Write(
        mode=mode,
        schema_mode=schema_mode,
        partition_by=[partition_by] if isinstance(partition_by, str) else partition_by,
        name=name,
        description=description,
        configuration=configuration,
        target_file_size=target_file_size,
        writer_properties=writer_properties,
        predicate=predicate,
        partition_overwrite_mode=partition_overwrite_mode,
    )
    latest = table._latest() if table is not None else None
    result = write_rows(
        store, rows, options, engine or _engine(rows, table), snapshot=latest, commit_properties=properties
    )
    if table is not None:
        table._move_on(result.version)


def _engine(rows: Incoming, table: DeltaTable | None) -> Engine:
    if rows.is_spark:
        from lakehouse_lib.engine.spark.engine import SparkEngine

        return SparkEngine(rows.rows.sparkSession)
    from lakehouse_lib.engine.arrow.engine import ArrowEngine

    return table.engine if table is not None else ArrowEngine()
