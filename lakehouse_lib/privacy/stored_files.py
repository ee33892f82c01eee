"""The Parquet files that are stored below a table's folder, whether its log knows them or not, as a files table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import file_paths
from lakehouse_lib.actions import FILE_SCHEMA
from lakehouse_lib.errors import InvalidArgumentError, ObjectNotFoundError
from lakehouse_lib.log.names import LOG
from lakehouse_lib.operations.vacuum import have_no_path
from lakehouse_lib.partition_values import parse_hive_path
from lakehouse_lib.schema.column_mapping import partition_key
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore

_MAGIC = b"PAR1"


def parquet_objects(objects: pa.Table, store: ObjectStore) -> pa.Table:
    """Those that are Parquet files by their name, or by their first bytes when the name says nothing; no log's."""
    objects = objects.filter(pc.invert(have_no_path(objects["path"])))
    objects = objects.filter(pc.invert(pc.match_substring_regex(objects["path"], rf"(^|/){LOG}/")))
    named = pc.ends_with(objects["path"], ".parquet")
    other = pc.match_substring_regex(objects["path"], r"\.(crc|json|bin)$")
    nameless = pc.and_(pc.invert(pc.or_(named, other)), pc.greater_equal(objects["size"], len(_MAGIC)))
    asked = objects.filter(nameless)
    parquet = pa.array([_starts_as_parquet(store, path) for path in asked["path"].to_pylist()], pa.bool_())
    return pa.concat_tables([objects.filter(named), asked.filter(parquet)])


def as_files(snapshot: Snapshot, objects: pa.Table, columns: Collection[str]) -> pa.Table:
    """Stored objects (``path`` as in the store, ``size``, ``modified``) as a files table (FILE_SCHEMA).

    Partition values are what the log says of a file, or else its folders; the rest is null.

    Args:
        columns: that are read; partition values are looked up for these alone.
    """
    partitions = [
        partition_key(snapshot.schema, name, snapshot.column_mapping)
        for name in sorted(set(columns) & set(snapshot.partition_columns))
    ]
    paths = objects["path"].to_pylist()
    values = _partition_values(snapshot, paths, partitions) if partitions else [[]] * len(paths)
    known = {
        "path": pa.array([file_paths.encode(path) for path in paths], pa.string()),
        "partitionValues": pa.array(values, FILE_SCHEMA.field("partitionValues").type),
        "size": objects["size"].combine_chunks(),
        "modificationTime": objects["modified"].combine_chunks(),
    }
    return pa.table([known.get(c.name, pa.nulls(len(paths), c.type)) for c in FILE_SCHEMA], schema=FILE_SCHEMA)


def _partition_values(
    snapshot: Snapshot, paths: Sequence[str], columns: Sequence[str]
) -> list[list[tuple[str, str | None]]]:
    known: dict[str, list[tuple[str, str | None]]] = {}
    for files in (snapshot.tombstones, snapshot.files):
        canonical = file_paths.canonical(files["path"], snapshot.store).to_pylist()
        known.update((p, v) for p, v in zip(canonical, files["partitionValues"].to_pylist(), strict=True) if v)
    values = []
    for path in paths:
        found = known.get(path)
        if found is None:
            try:
                found = list(parse_hive_path(path, columns).items())
            except InvalidArgumentError:
                found = []
        values.append(found)
    return values


def _starts_as_parquet(store: ObjectStore, path: str) -> bool:
    try:
        with store.open_input(path) as source:
            return bool(source.read(len(_MAGIC)) == _MAGIC)
    except ObjectNotFoundError:  # deleted meanwhile
        return False
