"""A DataFrame written by Spark's own Parquet writer into a folder of the table of its own.

The folder is named like a partition (``spark_write=<uuid>``), so that Spark's reader, which takes partition values from
folder names, finds one base folder however many writes a table has seen. Other readers take them from the log.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib import statistics
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.writer import indexed_leaves, partition_texts
from lakehouse_lib.engine.parquet.written_files import FileRow, files_table
from lakehouse_lib.engine.spark import store_access
from lakehouse_lib.engine.spark.columns import spark_type
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, LogCorruptedError
from lakehouse_lib.protocol import file_paths, partition_values
from lakehouse_lib.protocol.table_properties import COMPRESSION_CODEC
from lakehouse_lib.schema import (
    ArrayType,
    DataType,
    Field,
    MapType,
    PrimitiveType,
    Schema,
    StructType,
    TableLayout,
    column_mapping,
)
from lakehouse_lib.schema.nesting import replaced
from lakehouse_lib.schema.quoting import quoted
from lakehouse_lib.store import ObjectMeta

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine

WRITE_KEY = "spark_write"

# One write at a time changes the session's settings.
_settings_lock = threading.RLock()
_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
# No marker files, no rename by the driver, no checksum files beside the data.
_OPTIONS = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
_FOOTERS_HERE = 64
_FOOTERS_A_TASK = 64


@dataclass(frozen=True)
class FooterTask:
    """Read the footers of these data files; ``objects`` are paths in the store, sizes and times."""

    target: WriteTarget
    objects: tuple[ObjectMeta, ...]


def write_frame(frame: Any, target: WriteTarget, engine: Engine) -> pa.Table:
    """Write the DataFrame, which has the table's columns; the files table. How many files is up to its partitions."""
    folder = f"{WRITE_KEY}={uuid.uuid4()}"
    target.store.make_root()  # Spark's own error does not name what is in the way
    try:
        codec = COMPRESSION_CODEC.of(target.configuration, target.store.root)
        options = {**_OPTIONS, **store_access.options(frame.sparkSession, target.store)}
        writer = _stored(frame, target).write.options(**options).option("compression", codec)
        if target.layout.partition_columns:
            writer = writer.partitionBy(*target.layout.partition_keys.values())
        with _write_settings(frame.sparkSession):
            writer.parquet(f"{store_access.uri(target.store, target.store.root)}/{folder}")
        # An attempt that was cut off, or slower than another, may still be writing its own copy in a temporary folder.
        written = (meta for meta in target.store.walk(folder) if "_temporary" not in meta.path.split("/"))
        objects = [meta for meta in written if meta.path.endswith(".parquet")]
        tasks = [
            FooterTask(target, tuple(objects[start : start + _FOOTERS_A_TASK]))
            for start in range(0, len(objects), _FOOTERS_A_TASK)
        ]
        if len(objects) <= _FOOTERS_HERE:
            return pa.concat_tables([FILES_OF_NOTHING, *map(read_footers, tasks)])
        return engine.run(read_footers, tasks)
    except BaseException:
        _discard(target, folder)
        raise


def read_footers(task: FooterTask) -> pa.Table:
    """The files table of data files, with statistics from their footers. Files without rows are deleted."""
    target = task.target
    indexed = indexed_leaves(target)
    rows, empty = [], []
    values = _partition_values([meta.path for meta in task.objects], target)
    for meta, partition in zip(task.objects, values, strict=True):
        with target.store.open_input(meta.path) as source:
            metadata = pq.read_metadata(source)
        if metadata.num_rows == 0:
            empty.append(meta.path)
            continue
        stats = statistics.from_footer(metadata, target.layout.physical.schema, indexed=indexed)
        rows.append(FileRow(file_paths.encode(meta.path), partition, meta.size, meta.modified, stats))
    target.store.delete_many(empty)
    return files_table(rows, data_change=target.data_change)


def shaped(frame: Any, target: WriteTarget) -> Any:
    """The frame with exactly the table's columns, order and types; void ones are null texts."""
    from pyspark.sql import functions as F

    source_schema = Schema.from_json(frame.schema.json())
    columns = []
    for field in target.layout.schema.fields:
        source = source_schema.get(field.name)
        if field.type == PrimitiveType("void"):
            column = F.lit(None).cast("string")
        elif source is None:
            column = F.lit(None).cast(spark_type(field.type))
        else:
            column = _shaped(F.col(quoted(source.name)), source.type, field.type)
        columns.append(column.alias(field.name))
    return frame.select(*columns)


def _stored(frame: Any, target: WriteTarget) -> Any:
    """The columns that files and folders hold, partition values as Spark is to name their folders by."""
    from pyspark.sql import functions as F

    layout = target.layout
    partition_fields = [layout.schema.field(name) for name in layout.partition_columns]
    spelled = [
        _spelled(F.col(quoted(field.name)), field.type).alias(layout.partition_key(field.name))
        for field in partition_fields
    ]
    return frame.select(*(_in_file(field, layout) for field in layout.data_columns.fields), *spelled)


def _in_file(field: Field, layout: TableLayout) -> Any:
    """The column under its physical name, with field ids, which Spark's writer takes from the metadata of fields."""
    from pyspark.sql import functions as F

    column = F.col(quoted(field.name))
    if layout.mapping == "none":
        return column
    stored = _with_ids(column_mapping.physical_schema(Schema([field]), layout.mapping).fields[0])
    return column.cast(spark_type(stored.type)).alias(stored.name, metadata=dict(stored.metadata))


def _with_ids(field: Field) -> Field:
    number = column_mapping.field_id(field)
    metadata = {} if number is None else {"parquet.field.id": number}
    return Field(field.name, replaced(field.type, _with_ids, nullable=True), True, metadata)


def _spelled(column: Any, kind: DataType) -> Any:
    """What Spark names the folder of a partition value by, where it would name it by something else."""
    from pyspark.sql import functions as F

    if kind == PrimitiveType("timestamp"):
        # Spark would spell it in the session's zone, where an hour of autumn happens twice.
        seconds = F.unix_micros(column) / F.lit(1_000_000).cast("decimal(20,0)")
        return (F.expr("TIMESTAMP_NTZ'1970-01-01'") + F.make_dt_interval(secs=seconds)).cast("string")
    if kind in (PrimitiveType("string"), PrimitiveType("binary")):
        # As `partition_values.hive_path`: Spark names the folder of this text and that of a null alike.
        text, null = column.cast("string"), F.lit(partition_values.HIVE_NULL)
        is_like_null = F.endswith(text, null) & (F.ltrim(text, F.lit("/")) == null)
        return F.when(is_like_null, F.concat(F.lit("/"), text)).otherwise(text)
    return column


def _shaped(column: Any, source: DataType, kind: DataType) -> Any:
    from pyspark.sql import functions as F

    if _same(source, kind):
        return column
    if isinstance(source, StructType) and isinstance(kind, StructType):
        # By name: a cast would match fields by position.
        members = []
        for field in kind.fields:
            inner = source.get(field.name)
            member = (
                F.lit(None).cast(spark_type(field.type))
                if inner is None
                else _shaped(column.getField(inner.name), inner.type, field.type)
            )
            members.append(member.alias(field.name))
        return F.when(column.isNotNull(), F.struct(*members))
    if isinstance(source, ArrayType) and isinstance(kind, ArrayType):
        return F.transform(column, lambda item: _shaped(item, source.element_type, kind.element_type))
    if isinstance(source, MapType) and isinstance(kind, MapType):
        keyed = F.transform_keys(column, lambda key, _: _shaped(key, source.key_type, kind.key_type))
        return F.transform_values(keyed, lambda _, value: _shaped(value, source.value_type, kind.value_type))
    return column.cast(spark_type(kind))


def _same(source: DataType, kind: DataType) -> bool:
    """Whether two types are the same apart from what may be null."""
    if isinstance(source, StructType) and isinstance(kind, StructType):
        pairs = zip(source.fields, kind.fields, strict=False)
        return len(source) == len(kind) and all(a.name == b.name and _same(a.type, b.type) for a, b in pairs)
    if isinstance(source, ArrayType) and isinstance(kind, ArrayType):
        return _same(source.element_type, kind.element_type)
    if isinstance(source, MapType) and isinstance(kind, MapType):
        return _same(source.key_type, kind.key_type) and _same(source.value_type, kind.value_type)
    return source == kind


@contextmanager
def _write_settings(spark: Any) -> Iterator[None]:
    with _settings_lock:
        before: Mapping[str, str | None] = {name: spark.conf.get(name, None) for name in _SETTINGS}
        try:
            for name, value in _SETTINGS.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, previous in before.items():
                if previous is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, previous)


def _partition_values(paths: list[str], target: WriteTarget) -> list[dict[str, str | None]]:
    """``partitionValues`` by the folders' names, a column at a time."""
    keys = target.layout.partition_keys.values()
    parsed = [partition_values.parse_hive_path(path, tuple(keys)) for path in paths]
    spelled: dict[str, list[str | None]] = {}
    for name, key in zip(target.layout.partition_columns, keys, strict=True):
        kind = target.layout.schema.field(name).type
        try:
            typed = partition_values.to_typed(pa.array([values[key] for values in parsed], pa.string()), kind)
        except LogCorruptedError as error:  # Spark's spelling of a year beyond; the log has none yet
            raise InvalidArgumentError(
                f"column {name}: {error.message}",
                table=target.store.root,
                hint=partition_values.YEARS_HINT,
                code="DELTA_INVALID_PARTITION_VALUE",
            ) from error
        spelled[key] = partition_texts(typed, name, target)
    return [{key: spelled[key][index] for key in keys} for index in range(len(paths))]


def _discard(target: WriteTarget, folder: str) -> None:
    try:
        target.store.delete_many([meta.path for meta in target.store.walk(folder)])
    except DeltaError:  # what stays is unreferenced, and the error of the write is the one to report
        return


FILES_OF_NOTHING = files_table([], data_change=True)
