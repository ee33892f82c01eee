"""A snapshot's files as a DataFrame, read by Spark's own vectorised Parquet scan.

Spark takes partition values from folder names, but the values of a table are in the log. If the folders of files agree
with the log, Spark reads the values from the folders. For other files, a join on the number of the file adds the values
of the log. Files with deletion vectors are scanned separately, with the position of each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.engine.parquet.scan import Scan
from lakehouse_lib.engine.spark import columns as spark_columns
from lakehouse_lib.engine.spark import store_access
from lakehouse_lib.engine.spark.read.deletion_vectors import without_deleted
from lakehouse_lib.engine.spark.read.layouts import layouts
from lakehouse_lib.engine.spark.read.manifest import scan_listed
from lakehouse_lib.engine.spark.read.partitions import branches
from lakehouse_lib.expressions import to_spark_sql
from lakehouse_lib.protocol import file_paths, partition_values
from lakehouse_lib.schema import Field, PrimitiveType, Schema
from lakehouse_lib.schema.quoting import quoted
from lakehouse_lib.snapshot import Snapshot

_MOST_BRANCHES = 8
#: Columns of a scan: the number of a row's file among the scanned files, and the position of the row in the file.
FILE, ROW = "__lakehouse_file", "__lakehouse_row"
_VALUE = "__lakehouse_value_"

#: Options of Spark's Parquet scan, so that it reads the same rows with any settings of the session. Only the case
#: sensitivity of column names depends on the session.
OPTIONS = {
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}

#: Options for a scan of structs with floating-point members: Spark must not skip row groups or pages by statistics,
#: because bounds in a footer may leave out NaN. For top-level columns, ``as_user_column`` prevents the skipping.
_WITHOUT_STATISTICS = {"parquet.filter.stats.enabled": "false", "parquet.filter.columnindex.enabled": "false"}


def read_frame(spark: Any, snapshot: Snapshot, scan: Scan, files: pa.Table) -> Any:
    """The rows of ``files`` for which the scan's predicate is true, with the scan's columns.

    Raises:
        UnsupportedFeatureError: Spark cannot read the type of a column.
        PathOutsideTableError: a file is outside the table's folder.
        LogCorruptedError, ObjectNotFoundError, StoreError: a file or deletion vector is missing or damaged.
    """
    schema = scan.reader.schema
    spark_columns.check_types(schema, table=snapshot.store.root, version=snapshot.version)
    if len(files):
        frame = reduce(lambda left, right: left.unionAll(right), _frames(spark, snapshot, schema, files))
    else:
        frame = spark.createDataFrame([], spark_columns.struct_type(spark_columns.as_schema(schema)))
    if scan.predicate is not None:
        frame = frame.where(to_spark_sql(scan.predicate))
    return frame.select(*map(quoted, scan.columns))


def _frames(spark: Any, snapshot: Snapshot, schema: Schema, files: pa.Table) -> Iterator[Any]:
    """The rows of all files, as one DataFrame per scan."""
    for part, group_files in parts(spark, snapshot, schema, files):
        has_vector = group_files["deletionVector"].is_valid()
        undeleted = group_files.filter(pc.invert(has_vector))
        if len(undeleted):
            yield from part.scans(undeleted)
        if len(undeleted) < len(group_files):
            yield part.numbered(group_files.filter(has_vector), deleted=True)


def parts(spark: Any, snapshot: Snapshot, schema: Schema, files: pa.Table) -> Iterator[tuple[Part, pa.Table]]:
    """Groups of files with the same names for the columns of ``schema``; ``path`` becomes the path in the store."""
    paths = file_paths.decode_all(files["path"], snapshot.store, version=snapshot.version)
    files = files.set_column(files.column_names.index("path"), "path", paths)
    for names, group_files in layouts(snapshot, files):
        yield Part.of(spark, snapshot, schema, names), group_files


@dataclass(frozen=True)
class Part:
    """A scan of files that have the same names of columns.

    Attributes:
        schema: the columns, as users see them.
        partition: the partition columns among them, by their keys in ``partitionValues``.
        names: a function that returns the names of the other columns in the files.
    """

    spark: Any
    snapshot: Snapshot
    schema: Schema
    partition: dict[str, Field]
    names: spark_columns.Names

    @classmethod
    def of(cls, spark: Any, snapshot: Snapshot, schema: Schema, names: spark_columns.Names) -> Part:
        layout = snapshot.layout
        partition = {
            layout.physical_name(field): field
            for field in schema.fields
            if layout.is_partition_column(field.name) and field.type != PrimitiveType("void")
        }
        return cls(spark, snapshot, schema, partition, names)

    def scans(self, files: pa.Table) -> Iterator[Any]:
        """The rows of files without deletion vectors, as one DataFrame per scan."""
        if not self.partition:
            yield self._user_columns(self._scan(files, self._stored()), {})
            return
        kinds = {name: field.type for name, field in self.partition.items()}
        for name, kind in kinds.items():
            partition_values.partition_column(files, name, kind)  # raises if a value does not fit its type
        stored = self._stored()
        coded = branches(files, self.snapshot.store, kinds, stored.names)
        if len(coded.dictionary) > _MOST_BRANCHES:
            yield self.numbered(files, deleted=False)
            return
        for number in range(len(coded.dictionary)):
            branch = files.filter(pc.equal(coded.indices, number))
            partition_fields = [Field(name, kind) for name, kind in kinds.items()]
            frame = self._scan(branch, Schema([*stored.fields, *partition_fields]), folders=True)
            yield self._user_columns(frame, {field.name: name for name, field in self.partition.items()})
        other_files = files.filter(coded.is_null())
        if len(other_files):
            yield self.numbered(other_files, deleted=False)

    def numbered(self, files: pa.Table, *, deleted: bool) -> Any:
        """The rows of files, with the partition values of the log.

        Args:
            deleted: whether ``files`` have deletion vectors; the rows that these vectors delete are left out.
        """
        frame = self._with_places(files, rows=deleted)
        if deleted:
            frame = without_deleted(self.spark, frame, files, self.snapshot.store, file=FILE, row=ROW)
        return self._user_columns(*self._with_values(frame, files))

    def placed(self, files: pa.Table) -> Any:
        """The rows of files, including deleted rows, with the columns FILE and ROW."""
        return self._user_columns(
            *self._with_values(self._with_places(files, rows=True), files), extra_columns=(FILE, ROW)
        )

    def _with_places(self, files: pa.Table, *, rows: bool) -> Any:
        """A scan with the column FILE, and with ROW if ``rows`` is true."""
        from pyspark.sql import functions as F

        frame = self._scan(files, self._stored(), numbered=True)
        file_metadata = frame.metadataColumn("_metadata")  # F.col("_metadata") could be a column of the table
        number = F.unix_millis(file_metadata.getField("file_modification_time")).cast("int").alias(FILE)
        return frame.select("*", number, *([file_metadata.getField("row_index").alias(ROW)] if rows else []))

    def _with_values(self, frame: Any, files: pa.Table) -> tuple[Any, dict[str, str]]:
        """The scan with the partition values of each row's file, and the names of these columns by partition column."""
        from pyspark.sql import functions as F

        if self.partition:
            frame = frame.join(F.broadcast(self._values(files)), FILE, "left")
        return frame, {field.name: _VALUE + name for name, field in self.partition.items()}

    def _values(self, files: pa.Table) -> Any:
        """The partition values of each file, by the number of the file."""
        columns = [pa.array(np.arange(len(files), dtype=np.int32))]
        fields = [Field(FILE, "integer")]
        for name, field in self.partition.items():
            columns.append(partition_values.partition_column(files, name, field.type))
            fields.append(Field(_VALUE + name, field.type))
        values = pa.table(columns, names=[field.name for field in fields])
        return self.spark.createDataFrame(values, spark_columns.struct_type(Schema(fields)))

    def _stored(self) -> Schema:
        """The columns to read from the files."""
        partition_columns = {field.name for field in self.partition.values()}
        return spark_columns.in_files(
            Schema([field for field in self.schema.fields if field.name not in partition_columns]), self.names
        )

    def _scan(self, files: pa.Table, stored: Schema, *, folders: bool = False, numbered: bool = False) -> Any:
        """Spark's scan over a manifest; ``folders``: whether partition values come from folder names."""
        options = {**OPTIONS, **store_access.options(self.spark, self.snapshot.store)}
        if not folders:
            options["recursiveFileLookup"] = "true"
        if spark_columns.has_floats_in_structs(stored):
            options |= _WITHOUT_STATISTICS
        return scan_listed(self.spark, stored, files, self.snapshot.store, options, numbered=numbered)

    def _user_columns(self, frame: Any, partition_columns: dict[str, str], extra_columns: Sequence[str] = ()) -> Any:
        """The columns ``extra_columns`` of ``frame``, and the columns of the schema as users see them.

        Args:
            partition_columns: the columns of ``frame`` that have the partition values, by partition column.
        """
        return frame.select(
            *extra_columns,
            *(
                spark_columns.as_column(field, partition_columns[field.name])
                if field.name in partition_columns
                else spark_columns.as_user_column(field, self.names)
                for field in self.schema.fields
            ),
        )
