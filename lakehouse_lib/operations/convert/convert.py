"""Convert a folder of Parquet files to a table, in place: one commit adds all files to a new log.

No file is moved or rewritten. The schema is merged from the footers of all files. A column must have the same type in
all files. Statistics come from the footers, and partition values from the names of the folders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from lakehouse_lib.arrow.types import nullable
from lakehouse_lib.arrow.values import column, literal, strings
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.footer import FooterStatistics, read_footer, with_int96_in_utc
from lakehouse_lib.engine.parquet.writer import indexed_leaves
from lakehouse_lib.errors import DeltaError, SchemaMismatchError
from lakehouse_lib.features import protocol_for, requested_features, requested_versions
from lakehouse_lib.log import latest_version
from lakehouse_lib.operations.convert.folder import ConversionFolder, PartitionStrategy, open_folder
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.operations.write.add_actions import values_of_existing
from lakehouse_lib.operations.write.create import (
    check_for_existing_files,
    check_kinds,
    new_metadata,
    table_exists,
    unknown_mode,
)
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.protocol.actions import FILE_SCHEMA, STRING_MAP
from lakehouse_lib.schema import ArrayType, DataType, MapType, PrimitiveType, Schema, StructType, TableLayout, merge
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests, map_requests_ahead
from lakehouse_lib.transaction import Conflict, version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties

_MODES = ("error", "ignore")
_EXISTS = 'Use mode "ignore" to leave the table as it is'


@dataclass(frozen=True)
class Conversion:
    """The table that a conversion creates.

    Attributes:
        partition_by: the partition columns, in the order of the folders; empty: the table is not partitioned.
        partition_strategy: "hive" for folders such as ``year=2026``, "directory" for ``2026``.
        name, description, configuration: the values of the new table.
        collect_stats: whether files get statistics from their footers.
    """

    partition_by: Schema = Schema([])  # noqa: RUF009 - a value
    partition_strategy: PartitionStrategy = "hive"
    name: str | None = None
    description: str | None = None
    configuration: Mapping[str, str | None] | None = None
    collect_stats: bool = True


def convert(
    store: ObjectStore,
    conversion: Conversion,
    *,
    mode: str = "error",
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Convert the Parquet files below the root of a store to a table.

    Args:
        mode: if the location has a table, "error" (default) raises and "ignore" does nothing.

    Returns:
        Metrics: numConvertedFiles.

    Raises:
        InvalidArgumentError: the location has a table, no Parquet file, or a file that cannot be a file of the table;
            or a folder does not fit the partition columns.
        SchemaMismatchError: a column has different types in two files, or names differ only in case.
        ConstraintViolatedError: a partition value of a NOT NULL column is null.
        InvalidSchemaError: a table cannot have the columns of the files.
        StoreError: a file is not readable as Parquet.
        UnsupportedFeatureError: a property enables a feature that this library cannot write, or
            materializePartitionColumns in a partitioned table; or a partition column has an invariant, or is ``CHAR``
            or ``VARCHAR``.
        CommitUnknownError: the store gave no answer to the commit.
    """
    table = store.root
    if mode not in _MODES:
        raise unknown_mode(mode, store, _MODES)
    check_kinds(None, conversion.name, conversion.description, conversion.configuration, table=table)
    if latest_version(store) is not None:
        return _existing_table(store, mode)
    folder = open_folder(store, conversion.partition_by.names, conversion.partition_strategy)
    metadata = new_metadata(
        _schema(store, folder, conversion.partition_by),
        conversion.partition_by.names,
        name=conversion.name,
        description=conversion.description,
        configuration=conversion.configuration,
        table=table,
    )
    features = requested_features(conversion.configuration or {})
    check_for_existing_files(metadata, protocol_for(metadata, extra=features), table)
    layout = TableLayout(Schema.from_json(metadata.schema_string), metadata.partition_columns)
    target = WriteTarget(store, layout, metadata.configuration)
    change = TableChange(
        "CONVERT",
        {
            "numFiles": len(folder.objects),
            "partitionedBy": list(metadata.partition_columns),
            "collectStats": conversion.collect_stats,
        },
        added=_files(folder, target, collect_stats=conversion.collect_stats),
        metadata=metadata,
        features=features,
        versions=requested_versions(conversion.configuration or {}),
        metrics={"numConvertedFiles": len(folder.objects)},
    )
    outcome = change.on(None, store).commit(commit_properties)
    if isinstance(outcome, Conflict):
        return _existing_table(store, mode)
    return ChangeResult(table, None, version_of(outcome), change.metrics)


def _existing_table(store: ObjectStore, mode: str) -> ChangeResult:
    if mode == "error":
        raise table_exists(store, hint=_EXISTS)
    return ChangeResult(store.root, latest_version(store), None, {"numConvertedFiles": 0})


def _schema(store: ObjectStore, folder: ConversionFolder, partition_by: Schema) -> Schema:
    """The columns of all files, nullable, and then the partition columns.

    If a column of a file has the name of a partition column, the column is left out. The table takes the values from
    the folder names.
    """
    names = {name.lower() for name in partition_by.names}

    def columns(path: str) -> str:
        footer = read_footer(store, path)
        schema = with_int96_in_utc(footer.schema.to_arrow_schema(), footer)
        with _errors_of(path, store):
            data_columns = pa.schema([field for field in schema if field.name.lower() not in names])
            return merge(Schema([]), nullable(data_columns)).to_json()

    schemas: dict[str, str] = {}  # usually one
    for paths in folder.paths():
        for path, text in zip(paths, map_requests_ahead(store, columns, paths), strict=True):
            schemas.setdefault(text, path)
    first = next(iter(schemas.values()))
    merged = Schema([])
    for text, path in schemas.items():
        with _errors_of(path, store):
            merged = _merge_columns(merged, Schema.from_json(text), first)
    return Schema([*merged.fields, *partition_by.fields])


@contextmanager
def _errors_of(path: str, store: ObjectStore) -> Iterator[None]:
    """Add the path of a file to an error about its columns."""
    try:
        yield
    except DeltaError as error:
        raise type(error)(
            f"the file {path}: {error.message}", table=store.root, hint=error.hint, code=error.code
        ) from error


def _merge_columns(schema: Schema, incoming: Schema, first: str) -> Schema:
    """The schema with the new columns of a file. Types must be equal, because files are not rewritten."""
    differences = list(_differences(schema, incoming, ""))
    if differences:
        raise SchemaMismatchError(
            f"its columns do not fit the columns of other files, such as {first}: {'; '.join(differences)}",
            hint="Rewrite the file, or move it out of the folder",
        )
    return merge(schema, incoming.to_arrow())


def _differences(table: DataType, data: DataType, name: str) -> Iterator[str]:
    """One text for each column of ``data`` whose name in ``table`` differs in case, or whose type differs."""
    if isinstance(table, StructType) and isinstance(data, StructType):
        for member in data.fields:
            field = table.get(member.name)
            where = f"{name}.{member.name}" if name else member.name
            if field is not None and field.name != member.name:
                yield f"{where} differs only in case from {field.name}"
            elif field is not None:
                yield from _differences(field.type, member.type, where)
    elif isinstance(table, ArrayType) and isinstance(data, ArrayType):
        yield from _differences(table.element_type, data.element_type, f"{name}.element")
    elif isinstance(table, MapType) and isinstance(data, MapType):
        yield from _differences(table.key_type, data.key_type, f"{name}.key")
        yield from _differences(table.value_type, data.value_type, f"{name}.value")
    elif table != data and PrimitiveType("void") not in (table, data):
        yield f"{name} is {data}; expected {table}"


def _files(folder: ConversionFolder, target: WriteTarget, *, collect_stats: bool) -> pa.Table:
    """The files table of the folder, with statistics from the footers."""
    store = target.store
    statistics = FooterStatistics(store, target.layout, indexed_leaves(target))
    values = column(values_of_existing(folder.folder_values, target), STRING_MAP)
    count = len(folder.objects)
    columns = {
        "path": pa.chunked_array([strings([file_paths.encode(path) for path in paths]) for paths in folder.paths()]),
        "partitionValues": values.take(folder.folder_numbers),
        "size": folder.objects["size"],
        "modificationTime": folder.objects["modified"],
        "dataChange": pa.repeat(literal(True, pa.bool_()), count),
    }
    if collect_stats:
        columns["stats"] = pa.chunked_array(
            [strings(map_requests(store, statistics.of, paths)) for paths in folder.paths()]
        )
    return pa.Table.from_arrays(
        [columns.get(field.name, pa.nulls(count, field.type)) for field in FILE_SCHEMA], schema=FILE_SCHEMA
    )
