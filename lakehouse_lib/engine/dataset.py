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
from lakehouse_lib.snapshot import Snapshot


def dataset(snapshot: Snapshot, files: pa.Table) -> pads.Dataset:
    """These files of a local table, each with its partition values; INT96 timestamps in microseconds."""
    schema = pa.schema([one.with_nullable(True) for one in snapshot.schema.to_arrow()])
    root = pyarrow.fs.SubTreeFileSystem(snapshot.store.root, pyarrow.fs.LocalFileSystem())
    form = pads.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    constants = TableReader(snapshot.store, snapshot.schema, snapshot.partition_columns).constants(files)
    fragments = []
    for index, path in enumerate(file_paths.decode_all(files["path"], snapshot.store).to_pylist()):
        known = [_equals(name, values[index]) for name, values in constants.items()]
        expression = reduce(operator.and_, known) if known else None
        fragments.append(form.make_fragment(path, filesystem=root, partition_expression=expression))
    return pads.FileSystemDataset(fragments, schema, form, root)


def _equals(name: str, value: pa.Scalar) -> pads.Expression:
    return pc.field(name) == value if value.is_valid else pc.field(name).is_null()
