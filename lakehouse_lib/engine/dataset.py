"""A snapshot's files as a pyarrow dataset."""

from __future__ import annotations

import operator
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.fs

from lakehouse_lib import file_paths
from lakehouse_lib.engine.data_reader import TableReader
from lakehouse_lib.errors import InvalidArgumentError, UnsupportedFeatureError
from lakehouse_lib.schema.usable import check_readable, has_variant
from lakehouse_lib.schema.widening import has_changes
from lakehouse_lib.snapshot import Snapshot


def unlike_parquet(snapshot: Snapshot, files: pa.Table) -> str | None:
    """Why these files do not read as plain Parquet files in the table's schema do; None when they do."""
    vectors = files["deletionVector"]
    if vectors.null_count < len(vectors):
        return f"{len(vectors) - vectors.null_count} files have deletion vectors (deletionVectors)"
    if snapshot.column_mapping != "none":
        return f"its columns are found by {snapshot.column_mapping} (columnMapping)"
    if has_changes(snapshot.schema):
        return "columns have become wider than in old files (typeWidening)"
    if any(has_variant(one.type) for one in snapshot.schema):
        return "it has variants (variantType)"
    return None


def dataset(
    snapshot: Snapshot,
    files: pa.Table,
    *,
    filesystem: pyarrow.fs.FileSystem | None = None,
    schema: pa.Schema | None = None,
) -> pads.Dataset:
    """These files of a local table, each with its partition values; INT96 timestamps in microseconds.

    Args:
        filesystem: what to read them by, its root the table's folder; default the local one.
        schema: the columns and types to read into; default the table's.

    Raises:
        InvalidArgumentError: a file system, and files outside the table's folder.
        UnsupportedFeatureError: pyarrow's own reading would show rows that are deleted, or columns wrong.
        InvalidSchemaError: a column of a type without values here.
    """
    reason = unlike_parquet(snapshot, files)
    if reason is not None:
        raise UnsupportedFeatureError(
            f"the table is no pyarrow dataset: {reason}",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Read it with to_pyarrow_table(columns, filters=...), or with scan(columns, predicate), which takes "
            "bounded memory",
        )
    check_readable(snapshot.schema, table=snapshot.store.root)
    if schema is None:
        schema = pa.schema([one.with_nullable(True) for one in snapshot.schema.to_arrow()])
    paths = file_paths.decode_all(files["path"], snapshot.store)
    root = filesystem if filesystem is not None else pyarrow.fs.LocalFileSystem()
    if pc.any(pc.starts_with(paths, "/"), min_count=0).as_py():
        if filesystem is not None:
            raise InvalidArgumentError(
                "a file system whose root is the table's folder, and files of another folder (a shallow clone)",
                table=snapshot.store.root,
                version=snapshot.version,
                hint="Leave the file system out",
            )
        paths = file_paths.absolute(paths, snapshot.store)
    elif filesystem is None:
        root = pyarrow.fs.SubTreeFileSystem(snapshot.store.root, root)
    form = pads.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    constants = TableReader(snapshot.store, snapshot.schema, snapshot.partition_columns, "none").constants(files)
    constants = {
        name: values.cast(schema.field(name).type) for name, values in constants.items() if name in schema.names
    }
    fragments = []
    for index, path in enumerate(paths.to_pylist()):
        known = [_equals(name, values[index]) for name, values in constants.items()]
        expression = reduce(operator.and_, known) if known else None
        fragments.append(form.make_fragment(path, filesystem=root, partition_expression=expression))
    return pads.FileSystemDataset(fragments, schema, form, root)


def _equals(name: str, value: pa.Scalar) -> pads.Expression:
    return pc.field(name) == value if value.is_valid else pc.field(name).is_null()
