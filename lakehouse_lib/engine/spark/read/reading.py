"""A snapshot's files as a DataFrame, by Spark's own vectorised Parquet scan over exactly these files.

Spark takes partition values from folder names, where the table takes them from the log. Files whose folders say what
the log says are read like that; the others get the log's values by a join with the file's number. Files that have lost
rows to deletion vectors are read apart, with the position of each row.
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
from lakehouse_lib.engine.spark.columns import Names, struct_type
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
#: Columns of a scan: the number of a row's file among those scanned, and the row's position there.
FILE, ROW = "__lakehouse_file", "__lakehouse_row"
_VALUE = "__lakehouse_value_"

#: Of Spark's Parquet scan: a table's rows are the same in every session, whatever else it is set to; whether names
#: of columns are the same in any case goes by the session alone.
OPTIONS = {
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}

#: Options for a scan of structs with floating-point members: Spark skips no row group or page by statistics, because
#: a footer's bounds may leave NaN out. For top-level columns ``as_seen`` keeps Spark from pushing conditions down.
_WITHOUT_STATISTICS = {"parquet.filter.stats.enabled": "false", "parquet.filter.columnindex.enabled": "false"}


def read_frame(spark: Any, snapshot: Snapshot, scan: Scan, files: pa.Table) -> Any:
    """The rows of ``files`` that the scan's predicate is true for, with the scan's columns.

    Raises:
        UnsupportedFeatureError: a column whose type Spark has no values for.
        PathOutsideTableError: a file outside the table's folder.
        LogCorruptedError, ObjectNotFoundError, StoreError: the log or a file is not what it should be.
    """
    schema = scan.reader.schema
    spark_columns.check_types(schema, table=snapshot.store.root, version=snapshot.version)
    if len(files):
        frame = reduce(lambda left, right: left.unionAll(right), _frames(spark, snapshot, schema, files))
    else:
        frame = spark.createDataFrame([], struct_type(spark_columns.as_schema(schema)))
    if scan.predicate is not None:
        frame = frame.where(to_spark_sql(scan.predicate))
    return frame.select(*map(quoted, scan.columns))


def _frames(spark: Any, snapshot: Snapshot, schema: Schema, files: pa.Table) -> Iterator[Any]:
    """The rows of all files in parts that are each one scan."""
    for part, alike in parts(spark, snapshot, schema, files):
        marked = alike["deletionVector"].is_valid()
        whole = alike.filter(pc.invert(marked))
        if len(whole):
            yield from part.scans(whole)
        if len(whole) < len(alike):
            yield part.numbered(alike.filter(marked), deleted=True)


def parts(spark: Any, snapshot: Snapshot, schema: Schema, files: pa.Table) -> Iterator[tuple[Part, pa.Table]]:
    """The files in groups that have the same names for the columns of ``schema``, with their paths in the store."""
    paths = file_paths.decode_all(files["path"], snapshot.store, version=snapshot.version)
    files = files.set_column(files.column_names.index("path"), "path", paths)
    for names, alike in layouts(snapshot, files):
        yield Part.of(spark, snapshot, schema, names), alike


@dataclass(frozen=True)
class Part:
    """Files that have the same names for a scan's columns.

    Attributes:
        schema: the columns, as users see them.
        partition: those of them whose values are in the log, by the log's name.
        names: of the others in the files.
    """

    spark: Any
    snapshot: Snapshot
    schema: Schema
    partition: dict[str, Field]
    names: Names

    @classmethod
    def of(cls, spark: Any, snapshot: Snapshot, schema: Schema, names: Names) -> Part:
        layout = snapshot.layout
        partition = {
            layout.physical_name(field): field
            for field in schema.fields
            if layout.is_partition_column(field.name) and field.type != PrimitiveType("void")
        }
        return cls(spark, snapshot, schema, partition, names)

    def scans(self, files: pa.Table) -> Iterator[Any]:
        """The rows of files that have no deletion vectors."""
        if not self.partition:
            yield self._user_columns(self._scan(files, self._stored()), {})
            return
        kinds = {name: field.type for name, field in self.partition.items()}
        for name, kind in kinds.items():
            partition_values.partition_column(files, name, kind)  # refuses what is not a value of its type
        stored = self._stored()
        coded = branches(files, self.snapshot.store, kinds, stored.names)
        if len(coded.dictionary) > _MOST_BRANCHES:
            yield self.numbered(files, deleted=False)
            return
        for number in range(len(coded.dictionary)):
            branch = files.filter(pc.equal(coded.indices, number))
            by = [Field(name, kind) for name, kind in kinds.items()]
            frame = self._scan(branch, Schema([*stored.fields, *by]), folders=True)
            yield self._user_columns(frame, {field.name: name for name, field in self.partition.items()})
        rest = files.filter(coded.is_null())
        if len(rest):
            yield self.numbered(rest, deleted=False)

    def numbered(self, files: pa.Table, *, deleted: bool) -> Any:
        """The rows of any files; ``deleted``: without those that deletion vectors name."""
        frame = self._with_places(files, rows=deleted)
        if deleted:
            frame = without_deleted(self.spark, frame, files, self.snapshot.store, file=FILE, row=ROW)
        return self._user_columns(*self._with_values(frame, files))

    def placed(self, files: pa.Table) -> Any:
        """The rows of any files, those that deletion vectors name among them, with FILE and ROW."""
        return self._user_columns(*self._with_values(self._with_places(files, rows=True), files), beside=(FILE, ROW))

    def _with_places(self, files: pa.Table, *, rows: bool) -> Any:
        """A scan with the number of each row's file and, for ``rows``, its position there."""
        from pyspark.sql import functions as F

        frame = self._scan(files, self._stored(), numbered=True)
        of_file = frame.metadataColumn("_metadata")  # by that name alone it could be a column of the table
        number = F.unix_millis(of_file.getField("file_modification_time")).cast("int").alias(FILE)
        return frame.select("*", number, *([of_file.getField("row_index").alias(ROW)] if rows else []))

    def _with_values(self, frame: Any, files: pa.Table) -> tuple[Any, dict[str, str]]:
        """A scan with the partition values of each row's file, and the names of their columns there."""
        from pyspark.sql import functions as F

        if self.partition:
            frame = frame.join(F.broadcast(self._values(files)), FILE, "left")
        return frame, {field.name: _VALUE + name for name, field in self.partition.items()}

    def _values(self, files: pa.Table) -> Any:
        """The partition values of each file by its number."""
        columns = [pa.array(np.arange(len(files), dtype=np.int32))]
        fields = [Field(FILE, "integer")]
        for name, field in self.partition.items():
            columns.append(partition_values.partition_column(files, name, field.type))
            fields.append(Field(_VALUE + name, field.type))
        values = pa.table(columns, names=[field.name for field in fields])
        return self.spark.createDataFrame(values, struct_type(Schema(fields)))

    def _stored(self) -> Schema:
        """The columns to read from the files."""
        held = {field.name for field in self.partition.values()}
        return spark_columns.in_files(
            Schema([field for field in self.schema.fields if field.name not in held]), self.names
        )

    def _scan(self, files: pa.Table, stored: Schema, *, folders: bool = False, numbered: bool = False) -> Any:
        """Spark's scan over a manifest. ``folders``: partition values from folder names."""
        options = {**OPTIONS, **store_access.options(self.spark, self.snapshot.store)}
        if not folders:
            options["recursiveFileLookup"] = "true"
        if spark_columns.has_floats_in_structs(stored):
            options |= _WITHOUT_STATISTICS
        return scan_listed(self.spark, stored, files, self.snapshot.store, options, numbered=numbered)

    def _user_columns(self, frame: Any, held: dict[str, str], beside: Sequence[str] = ()) -> Any:
        """The columns as users see them, and those of ``frame`` that ``beside`` names.

        Args:
            held: the columns of ``frame`` with partition values.
        """
        return frame.select(
            *beside,
            *(
                spark_columns.as_column(field, held[field.name])
                if field.name in held
                else spark_columns.as_seen(field, self.names)
                for field in self.schema.fields
            ),
        )
