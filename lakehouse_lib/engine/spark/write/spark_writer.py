"""Writing of a DataFrame by Spark's own Parquet writer, into a new folder of the table.

The folder is named like the folder of a partition (``spark_write=<uuid>``). Spark's reader takes partition values from
folder names, so it sees the table's root as the one base folder of all writes. Delta readers take partition values from
the log, so the name has no effect on them.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_lib import statistics
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.file_options import codec_of
from lakehouse_lib.engine.parquet.writer import indexed_leaves
from lakehouse_lib.engine.parquet.written_files import NewFile, files_table
from lakehouse_lib.engine.partition_texts import logged_values
from lakehouse_lib.engine.spark import store_access
from lakehouse_lib.engine.spark.columns import spark_type
from lakehouse_lib.engine.spark.session_settings import session_settings
from lakehouse_lib.engine.spark.write import WRITE_KEY
from lakehouse_lib.engine.spark.write.row_checks import RowCheck
from lakehouse_lib.errors import DeltaError, SchemaMismatchError
from lakehouse_lib.protocol import file_paths, partition_values
from lakehouse_lib.schema import (
    FLOATS,
    WHOLE_NUMBERS,
    ArrayType,
    DataType,
    Field,
    MapType,
    PrimitiveType,
    Schema,
    StructType,
    TableLayout,
    are_castable,
    column_mapping,
)
from lakehouse_lib.schema.nesting import equal_except_nullability, with_replaced_types
from lakehouse_lib.schema.quoting import quoted
from lakehouse_lib.store import ObjectMeta

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine

_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.variant.writeShredding.enabled": "false",  # the Arrow engine cannot read shredded variants
}
# These options turn off marker files, renames by the driver, and checksum files.
_OPTIONS = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
_GZIP = "GZIP(6)"  # no option of Spark's writer sets another level
_FOOTERS_ON_DRIVER = 64
_FOOTERS_A_TASK = 64


@dataclass(frozen=True)
class FooterTask:
    """A task that reads the footers of data files; ``objects``: their paths in the store, sizes and times."""

    target: WriteTarget
    objects: tuple[ObjectMeta, ...]


def can_write(target: WriteTarget) -> bool:
    """Whether Spark's Parquet writer can write files with the layout and the writer properties of the target.

    It writes no copies of partition columns. Of the properties, only the compression may be set: UNCOMPRESSED, SNAPPY,
    LZ4_RAW, ZSTD with any level, or GZIP with its default level.
    """
    if target.layout.copied_partition_columns.fields:
        return False
    properties = target.writer_properties
    if properties is None or not properties.names:
        return True
    return properties.names == ("compression",) and (
        properties.codec in ("uncompressed", "snappy", "lz4_raw", "zstd") or properties.compression == _GZIP
    )


def _compression(target: WriteTarget) -> dict[str, str]:
    """The options of Spark's writer for the codec and its level."""
    level = None if target.writer_properties is None else target.writer_properties.level
    options = {"compression": codec_of(target)}
    return options if level is None else {**options, "parquet.compression.codec.zstd.level": str(level)}


def write_frame(frame: Any, target: WriteTarget, engine: Engine) -> pa.Table:
    """Write a DataFrame with the table's columns; returns the files table.

    Each partition of the DataFrame writes its own files. After an error, the files of the write are deleted. A
    task that still runs then may leave a file, which vacuum deletes.
    """
    folder = f"{WRITE_KEY}={uuid.uuid4()}"
    target.store.make_root()  # raises a clear error if the folder cannot be created; Spark's error has no reason
    try:
        options = {**_OPTIONS, **store_access.options(frame.sparkSession, target.store), **_compression(target)}
        writer = _stored(frame, target).write.options(**options)
        if target.layout.partition_columns:
            writer = writer.partitionBy(*target.layout.partition_keys.values())
        with session_settings(frame.sparkSession, _SETTINGS):
            writer.parquet(f"{store_access.uri(target.store, target.store.root)}/{folder}")
        # A failed or slower attempt of a task may still be writing to a temporary folder.
        written = (meta for meta in target.store.walk(folder) if "_temporary" not in meta.path.split("/"))
        objects = [meta for meta in written if meta.path.endswith(".parquet")]
        tasks = [
            FooterTask(target, tuple(objects[start : start + _FOOTERS_A_TASK]))
            for start in range(0, len(objects), _FOOTERS_A_TASK)
        ]
        if len(objects) <= _FOOTERS_ON_DRIVER:
            files = pa.concat_tables([FILES_OF_NOTHING, *map(read_footers, tasks)])
        else:
            files = engine.run(read_footers, tasks)
        # A task deletes nothing, because Spark may run it again.
        is_empty = pc.equal(statistics.num_records(files), 0)
        target.store.delete_many(file_paths.decode_all(files["path"].filter(is_empty), target.store).to_pylist())
        return files.filter(pc.invert(is_empty))
    except BaseException:
        _discard(target, folder)
        raise


def read_footers(task: FooterTask) -> pa.Table:
    """Run a footer task; returns the files table, with statistics from the footers."""
    target = task.target
    indexed = indexed_leaves(target)
    rows = []
    keys = tuple(target.layout.partition_keys.values())
    parsed = [partition_values.parse_hive_path(meta.path, keys) for meta in task.objects]
    values = logged_values(parsed, target)
    for meta, partition in zip(task.objects, values, strict=True):
        with target.store.open_input(meta.path) as source:
            metadata = pq.read_metadata(source)
        stats = statistics.from_footer(metadata, target.layout.physical.schema, indexed=indexed)
        rows.append(NewFile(file_paths.encode(meta.path), partition, meta.size, meta.modified, stats))
    return files_table(rows, data_change=target.data_change)


def shaped(frame: Any, target: WriteTarget) -> tuple[Any, list[RowCheck]]:
    """The frame with exactly the table's columns, order and types, and the checks for failures of its casts.

    Columns that the frame lacks are null. Void columns become null strings.
    """
    from pyspark.sql import functions as F

    source_schema = Schema.from_json(frame.schema.json())
    columns = []
    failures: list[RowCheck] = []
    for field in target.layout.schema.fields:
        source = source_schema.get(field.name)
        if field.type == PrimitiveType("void"):
            column = F.lit(None).cast("string")
        elif source is None:
            column = F.lit(None).cast(spark_type(field.type))
        else:
            failures.append(_cast_failure(field, source.type, target))
            column = _shaped(F.col(quoted(source.name)), source.type, field.type, failures[-1].marker)
            if field.name in target.layout.text_partition_columns:
                column = F.when(F.octet_length(column) > 0, column)  # the log stores empty text as null
        columns.append(column.alias(field.name))
    return frame.select(*columns), failures


def _cast_failure(field: Field, source: DataType, target: WriteTarget) -> RowCheck:
    """The error of a number that does not fit the type of its column."""
    from pyspark.sql import functions as F

    error = SchemaMismatchError(
        f"{field.name} has a value of {source} that does not fit; expected {field.type}",
        table=target.store.root,
        hint="Round or cast the column before writing it",
    )
    return RowCheck(F.lit(False), error, f"lakehouse refuses a number <{uuid.uuid4()}>")


def _stored(frame: Any, target: WriteTarget) -> Any:
    """The columns of files, under their stored names, and partition columns with the text for folder names."""
    from pyspark.sql import functions as F

    layout = target.layout
    partition_fields = [layout.schema.field(name) for name in layout.partition_columns]
    spelled = [
        _spelled(F.col(quoted(field.name)), field.type).alias(layout.partition_key(field.name))
        for field in partition_fields
    ]
    return frame.select(*(_in_file(field, layout) for field in layout.data_columns.fields), *spelled)


def _in_file(field: Field, layout: TableLayout) -> Any:
    """The column under its physical name, with field ids in the metadata, from which Spark's writer takes them."""
    from pyspark.sql import functions as F

    column = F.col(quoted(field.name))
    if layout.mapping == "none":
        return column
    stored = _with_ids(column_mapping.physical_schema(Schema([field]), layout.mapping).fields[0])
    return column.cast(spark_type(stored.type)).alias(stored.name, metadata=dict(stored.metadata))


def _with_ids(field: Field) -> Field:
    number = column_mapping.field_id(field)
    metadata = {} if number is None else {"parquet.field.id": number}
    return Field(field.name, with_replaced_types(field.type, _with_ids, nullable=True), True, metadata)


def _spelled(column: Any, kind: DataType) -> Any:
    """The partition column, changed so that Spark's folder names contain the text that the log has for a value."""
    from pyspark.sql import functions as F

    if kind == PrimitiveType("timestamp"):
        # Spark would use the session's time zone, in which the hour at the end of summer time is ambiguous.
        seconds = F.unix_micros(column) / F.lit(1_000_000).cast("decimal(20,0)")
        return (F.expr("TIMESTAMP_NTZ'1970-01-01'") + F.make_dt_interval(secs=seconds)).cast("string")
    if kind in (PrimitiveType("string"), PrimitiveType("binary")):
        # As in `partition_values.hive_path`: Spark would use the same folder for this text and for null.
        text, null = column.cast("string"), F.lit(partition_values.HIVE_NULL)
        is_like_null = F.endswith(text, null) & (F.ltrim(text, F.lit("/")) == null)
        return F.when(is_like_null, F.concat(F.lit("/"), text)).otherwise(text)
    return column


def _shaped(column: Any, source: DataType, kind: DataType, marker: str) -> Any:
    """The column in another type. A number that does not fit raises Spark's error with the marker."""
    from pyspark.sql import functions as F

    if equal_except_nullability(source, kind):
        return column
    if isinstance(source, StructType) and isinstance(kind, StructType):
        # Matched by name, because a cast matches fields by position.
        members = []
        for field in kind.fields:
            inner = source.get(field.name)
            member = (
                F.lit(None).cast(spark_type(field.type))
                if inner is None
                else _shaped(column.getField(inner.name), inner.type, field.type, marker)
            )
            members.append(member.alias(field.name))
        return F.when(column.isNotNull(), F.struct(*members))
    if isinstance(source, ArrayType) and isinstance(kind, ArrayType):
        return F.transform(column, lambda item: _shaped(item, source.element_type, kind.element_type, marker))
    if isinstance(source, MapType) and isinstance(kind, MapType):
        keyed = F.transform_keys(column, lambda key, _: _shaped(key, source.key_type, kind.key_type, marker))
        return F.transform_values(keyed, lambda _, value: _shaped(value, source.value_type, kind.value_type, marker))
    return _cast(column, source, kind, marker) if are_castable(source, kind) else column.cast(spark_type(kind))


def _cast(column: Any, source: DataType, kind: DataType, marker: str) -> Any:
    """The column in another type, also if the session casts without errors (``spark.sql.ansi.enabled``)."""
    from pyspark.sql import functions as F

    value = column.try_cast(spark_type(kind))
    if kind in FLOATS and source not in WHOLE_NUMBERS:
        infinity = F.lit(float("inf"))
        fits = (F.abs(value) != infinity) | (F.abs(column) == infinity)
    else:
        # Spark casts a double beyond the longs to the largest long.
        fits = value.try_cast("decimal(20,0)" if kind in FLOATS else spark_type(source)) == column
    return F.when(column.isNull() | fits, value).otherwise(F.raise_error(F.lit(marker)))


def _discard(target: WriteTarget, folder: str) -> None:
    try:
        target.store.delete_many([meta.path for meta in target.store.walk(folder)])
    except DeltaError:  # the error of the write is reported; vacuum deletes the files
        return


FILES_OF_NOTHING = files_table([], data_change=True)
