"""A snapshot's files as a pyarrow dataset."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.fs

from lakehouse_lib.engine.arrow.checked_files import CheckedFiles, not_a_dataset
from lakehouse_lib.engine.arrow.fragment_bounds import bounded_columns, bounds_expressions
from lakehouse_lib.engine.arrow.store_filesystem import StoreFileSystem
from lakehouse_lib.engine.parquet.reader import TableReader
from lakehouse_lib.errors import InvalidArgumentError, WrongArgumentTypeError
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.expressions.ir import Column, Comparison, Literal, disjunction
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.schema import ArrayType, DataType, MapType, PrimitiveType, StructType
from lakehouse_lib.schema.type_widening import has_changes
from lakehouse_lib.schema.usable import check_readable, has_variant
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.threads import map_in_threads

#: 1901-01-01 in days since 1970. From this day on, the calendars and time zones of all Spark versions agree.
_FIRST_CERTAIN_DAY = -25_202
#: The types that have days, and the units of their values in one day.
_UNITS_PER_DAY = {"date": 1, "timestamp": 86_400_000_000, "timestamp_ntz": 86_400_000_000}
_FOOTERS_AT_ONCE = 16


def _reason_not_plain(snapshot: Snapshot, files: pa.Table) -> str | None:
    """The reason why these files cannot be read as plain Parquet files of the table's schema; None if they can.

    The footer of a file is read only if the file may contain days before 1901: by its statistics in the log, or because
    dates or times are inside lists or maps, which have no statistics.
    """
    vectors = files["deletionVector"]
    if vectors.null_count < len(vectors):
        return f"{len(vectors) - vectors.null_count} files have deletion vectors (deletionVectors)"
    if snapshot.layout.mapping != "none":
        return f"its columns are mapped to columns of files by {snapshot.layout.mapping} (columnMapping)"
    if has_changes(snapshot.schema):
        return "old files may have narrower types of columns (typeWidening)"
    if any(has_variant(field.type) for field in snapshot.schema):
        return "it has variants (variantType)"
    path = _file_by_old_calendar(snapshot, files)
    return (
        None if path is None else f"{path} may have days before 1901 in the calendar that Spark used before version 3"
    )


def dataset(
    snapshot: Snapshot,
    files: pa.Table,
    *,
    filesystem: pyarrow.fs.FileSystem | None = None,
    schema: pa.Schema | None = None,
    read_options: pads.ParquetReadOptions | None = None,
) -> pads.Dataset:
    """A dataset of these files with their partition values.

    Args:
        files: a files table. If it has ``stats``, the dataset skips files by their bounds.
        filesystem: the file system for reading, whose root is the table's folder; default: the table's store.
        schema: the columns and types of the dataset; default: those of the table.
        read_options: the columns to read as dictionaries, and the unit of INT96 timestamps. The default of the unit is
            microseconds, and pyarrow's default (nanoseconds) also means microseconds.

    Raises:
        WrongArgumentTypeError: ``filesystem`` is not a file system of pyarrow.
        InvalidArgumentError: ``filesystem`` is given, and the table has files outside of its folder.
        UnsupportedFeatureError: pyarrow would read deleted rows, or read columns or days incorrectly. If only the
            footer of a file shows this, the error is raised when the dataset is read (``checked_files``).
        InvalidSchemaError: this library cannot read the type of a column.
    """
    reason = _reason_not_plain(snapshot, files)
    if reason is not None:
        raise not_a_dataset(reason, table=snapshot.store.root, version=snapshot.version)
    check_readable(snapshot.schema, table=snapshot.store.root)
    if schema is None:
        schema = pa.schema([field.with_nullable(True) for field in snapshot.schema.to_arrow()])
    paths = file_paths.decode_all(files["path"], snapshot.store)
    if filesystem is not None and pc.any(file_paths.are_absolute(paths, snapshot.store), min_count=0).as_py():
        raise InvalidArgumentError(
            "filesystem is given, but the table has files outside of its folder (a shallow clone)",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Leave filesystem out",
        )
    if filesystem is not None and not isinstance(filesystem, pyarrow.fs.FileSystem):
        raise WrongArgumentTypeError(
            f"filesystem is of type {type(filesystem).__qualname__}; expected a pyarrow.fs.FileSystem",
            table=snapshot.store.root,
            hint="Its root is the table's folder: pyarrow.fs.SubTreeFileSystem(path, pyarrow.fs.LocalFileSystem())",
        )
    root = filesystem or StoreFileSystem.of(snapshot.store)
    partition_names = {name.lower() for name in snapshot.partition_columns}
    stored = pa.schema([field for field in schema if field.name.lower() not in partition_names])
    stored_names = set(stored.names)
    declared = pa.schema([field for field in snapshot.schema.to_arrow() if field.name in stored_names])
    checked = pyarrow.fs.PyFileSystem(
        CheckedFiles(root, stored, declared, table=snapshot.store.root, version=snapshot.version)
    )
    unit = "ns" if read_options is None else read_options.coerce_int96_timestamp_unit
    dictionaries = [] if read_options is None else sorted(read_options.dictionary_columns)
    parquet_format = pads.ParquetFileFormat(
        dictionary_columns=dictionaries, coerce_int96_timestamp_unit="us" if unit == "ns" else unit
    )
    schema = _with_dictionaries(schema, dictionaries)
    constants = TableReader(snapshot.store, snapshot.layout, snapshot.schema).constants(files)
    constants = {
        name: values.cast(schema.field(name).type) for name, values in constants.items() if name in schema.names
    }
    names = bounded_columns(files, snapshot.schema, schema, snapshot.partition_columns)
    bounds = bounds_expressions(files, snapshot.schema, names) if names else iter([[]] * len(files))
    fragments = []
    for index, (path, conditions) in enumerate(zip(paths.to_pylist(), bounds, strict=True)):
        conditions = [*(_equals(name, values[index]) for name, values in constants.items()), *conditions]
        expression = reduce(operator.and_, conditions) if conditions else None
        fragments.append(parquet_format.make_fragment(path, filesystem=checked, partition_expression=expression))
    return pads.FileSystemDataset(fragments, schema, parquet_format, checked)


def _with_dictionaries(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The schema in which these columns are dictionaries of their values."""
    fields = [
        field.with_type(pa.dictionary(pa.int32(), field.type)) if field.name in names else field for field in schema
    ]
    return pa.schema(fields, schema.metadata)


def check_expression(snapshot: Snapshot, expression: pads.Expression) -> None:
    """Refuse a filter that cannot be evaluated on the table's columns, before any row is read.

    Raises:
        InvalidArgumentError: a column does not exist, its name differs in case, or types cannot be compared.
    """
    try:
        snapshot.schema.to_arrow().empty_table().filter(expression)
    except pa.ArrowException as error:
        reason, *_ = str(error).splitlines() or [""]
        raise InvalidArgumentError(
            f"the filter {expression} cannot be evaluated on the columns of the table: {reason}",
            table=snapshot.store.root,
            version=snapshot.version,
            hint=f"Use these columns, in the same case: {', '.join(snapshot.schema.names)}",
        ) from error


def _equals(name: str, value: pa.Scalar) -> pads.Expression:
    return pc.field(name) == value if value.is_valid else pc.field(name).is_null()


def _file_by_old_calendar(snapshot: Snapshot, files: pa.Table) -> str | None:
    """A file that may have dates or times in the calendar that Spark used before version 3; None if there is none."""
    partition_names = {name.lower() for name in snapshot.partition_columns}
    fields = [field for field in snapshot.schema.fields if field.name.lower() not in partition_names]
    times = [column for field in fields for column in _time_columns(field.type, (field.name,))]
    early = [
        Comparison("<", column, Literal(_FIRST_CERTAIN_DAY * _UNITS_PER_DAY[kind.type], kind))
        for column in times
        if column is not None and isinstance(kind := column.type, PrimitiveType)
    ]
    if len(early) == len(times):
        if not times:
            return None
        suspect = snapshot.prune(Predicate("", disjunction([*early])), ["path"])["path"]
        files = files.filter(pc.is_in(files["path"], value_set=suspect.combine_chunks()))
    reader = TableReader(snapshot.store, snapshot.layout, snapshot.schema)

    def differs(path: str) -> bool:
        with reader.open(path, None) as file:
            calendar = file.calendar
            return calendar is not None and any(
                calendar.may_change(field.type, file.physical(number)) for number, field in enumerate(file.columns)
            )

    paths = files["path"].to_pylist()
    old_calendar_flags = map_in_threads(differs, paths, _FOOTERS_AT_ONCE)
    return next((path for path, is_old in zip(paths, old_calendar_flags, strict=True) if is_old), None)


def _time_columns(kind: DataType, path: tuple[str, ...]) -> Iterator[Column | None]:
    """The date and time columns inside a column; None stands for a column in a list or map, which has no statistics."""
    if isinstance(kind, PrimitiveType):
        if kind.type in _UNITS_PER_DAY:
            yield Column(path, kind)
    elif isinstance(kind, StructType):
        for field in kind.fields:
            yield from _time_columns(field.type, (*path, field.name))
    elif isinstance(kind, ArrayType | MapType):
        inner = [kind.element_type] if isinstance(kind, ArrayType) else [kind.key_type, kind.value_type]
        if any(True for nested_type in inner for _ in _time_columns(nested_type, ())):
            yield None
