"""The Parquet files that are stored below a table's folder, whether its log knows them or not, as a files table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import file_paths, partition_values
from lakehouse_lib.actions import FILE_SCHEMA
from lakehouse_lib.engine.data_reader import DataFile, TableReader
from lakehouse_lib.errors import LogCorruptedError, ObjectNotFoundError
from lakehouse_lib.log.names import LOG
from lakehouse_lib.operations.vacuum import have_no_path
from lakehouse_lib.schema import PrimitiveType
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

    Partition values are what the log says of a file, or else its folders, of every column that may ever have been one
    of the table's partition columns: its files stay on disk when it is partitioned otherwise. A key that is missing
    is a value that nothing tells. The rest is null.

    Args:
        columns: that are read; partition values are looked up for these alone.
    """
    partitioned = {name.lower() for name in snapshot.partition_columns}
    keys = {
        partition_key(snapshot.schema, name, snapshot.column_mapping): name.lower() in partitioned
        for name in sorted(columns)
        if isinstance(snapshot.schema.field(name).type, PrimitiveType)
    }
    paths = objects["path"].to_pylist()
    values = _partition_values(snapshot, paths, keys) if keys else [[]] * len(paths)
    known = {
        "path": pa.array([file_paths.encode(path) for path in paths], pa.string()),
        "partitionValues": pa.array(values, FILE_SCHEMA.field("partitionValues").type),
        "size": objects["size"].combine_chunks(),
        "modificationTime": objects["modified"].combine_chunks(),
    }
    return pa.table([known.get(c.name, pa.nulls(len(paths), c.type)) for c in FILE_SCHEMA], schema=FILE_SCHEMA)


def constants_of(
    file: DataFile, noted: Sequence[tuple[str, str | None]] | None, reader: TableReader
) -> dict[str, pa.Scalar]:
    """The typed values of those wanted columns that the file does not hold itself, as far as they are known.

    What a file holds is true of it, whatever the table is partitioned by since.

    Args:
        noted: the file's ``partitionValues``.

    Raises:
        LogCorruptedError: a value that is none of the column's type, which may have been another.
    """
    by_name = {key.lower(): value for key, value in noted or ()}
    found = {}
    for one in reader.schema.fields:
        key = partition_key(reader.schema, one.name, reader.mapping).lower()
        if key in by_name and not reader.holds(file, one):
            try:
                found[one.name] = partition_values.to_typed(pa.array([by_name[key]], pa.string()), one.type)[0]
            except LogCorruptedError as error:
                raise LogCorruptedError(
                    f"column {one.name}: {error.message}",
                    table=reader.store.root,
                    hint="The column may have had another type then; look at the file, and move or delete it by hand",
                ) from error
    return found


def _partition_values(
    snapshot: Snapshot, paths: Sequence[str], keys: Mapping[str, bool]
) -> list[list[tuple[str, str | None]]]:
    """``keys`` says of each whether the table is partitioned by it now."""
    logged: dict[str, list[tuple[str, str | None]]] = {}
    for files in (snapshot.tombstones, snapshot.files):
        canonical = file_paths.canonical(files["path"], snapshot.store).to_pylist()
        # A removal may leave the values out, and then an empty map says nothing.
        full = files["extendedFileMetadata"].to_pylist() if "extendedFileMetadata" in files.column_names else None
        for index, (path, noted) in enumerate(zip(canonical, files["partitionValues"].to_pylist(), strict=True)):
            if noted or (noted is not None and (full is None or full[index])):
                logged[path] = noted
    values = []
    for path in paths:
        noted = logged.get(path)
        # The table may have spelled a column in other letters then.
        found = {name.lower(): value for name, value in partition_values.folders(path.rpartition("/")[0]).items()}
        found |= {name.lower(): value for name, value in noted or ()}
        for key, current in keys.items():
            if current and noted is not None:  # from before it was partitioned by it: what it does not hold is null
                found.setdefault(key.lower(), None)
        values.append([(key, found[key.lower()]) for key in keys if key.lower() in found])
    return values


def _starts_as_parquet(store: ObjectStore, path: str) -> bool:
    try:
        with store.open_input(path) as source:
            return bool(source.read(len(_MAGIC)) == _MAGIC)
    except ObjectNotFoundError:  # deleted meanwhile
        return False
