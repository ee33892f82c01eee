"""The Parquet files that a table keeps, whether its log knows them or not, as a files table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_lib.engine.parquet.reader import DataFile, TableReader
from lakehouse_lib.errors import DeltaError, LogCorruptedError, ObjectNotFoundError, PathOutsideTableError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.file_names import LOG
from lakehouse_lib.operations.vacuum import OBJECT_SCHEMA, Listing, removes_below_checkpoint
from lakehouse_lib.protocol import deletion_vector, file_paths, partition_values
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.schema import PrimitiveType
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import at_once

_SIDECARS = f"/{file_names.SIDECARS}/"
#: The columns of checkpoints and sidecars (PROTOCOL.md, section Checkpoint Schema).
_ACTIONS = frozenset(
    "add remove cdc metaData protocol txn commitInfo domainMetadata checkpointMetadata sidecar".split()  # noqa: SIM905
)
# What ``file_paths.canonical`` leaves as it is written.
_MAY_LEAVE = r"^[A-Za-z][A-Za-z0-9+.-]*:|(^|/)\.\.(/|$)|\x00|/$|^\.?$"
#: First bytes of a Parquet file, and of one whose footer is encrypted.
_MAGICS = (b"PAR1", b"PARE")
_LONGEST_LINK_SHOWN = 200


@dataclass(frozen=True)
class StoredFiles:
    """The Parquet files that a table keeps anywhere, whether its log knows them or not.

    Attributes:
        inside: files below the table's folder (OBJECT_SCHEMA), hidden ones and other tables' too. None of them is a
            symbolic link, or behind one.
        elsewhere: files that the log names, of any version that it still tells, and that are behind a symbolic link or
            in another folder that may be read (OBJECT_SCHEMA, sizes and times 0). Some may be gone.
        unreadable: what cannot be looked at, with the reason, by store path or by the path in the log.
    """

    inside: pa.Table
    elsewhere: pa.Table
    unreadable: Mapping[str, str]

    @property
    def every(self) -> pa.Table:
        """Files inside and elsewhere."""
        return pa.concat_tables([self.inside, self.elsewhere])


def stored_files(snapshot: Snapshot, listing: Listing) -> StoredFiles:
    """Find them: by the log, by the name ``.parquet``, else by their first bytes, which costs a read of these.

    Args:
        listing: of the table's folder, made after ``snapshot`` was loaded.
    """
    store = snapshot.store
    live, removed = snapshot.files, snapshot.tombstones
    logs = [live["path"], removed["path"]]
    if listing.links or store.allowed_roots:  # else older versions have no file that the listing does not have
        logs += [removes["path"] for removes in removes_below_checkpoint(snapshot)]
    in_log = pc.unique(pa.chunked_array([chunk for column in logs for chunk in column.chunks], pa.string()))
    logged = file_paths.canonical(in_log, store)
    vectors = [deletion_vector.paths_of(store, files["deletionVector"]) for files in (live, removed)]

    paths = listing.objects["path"]
    unreadable = dict.fromkeys(paths.filter(file_paths.are_absolute(paths, store)).to_pylist(), _NO_PATH)
    objects = _without_logs(pa.concat_tables([listing.objects, listing.log]), store)
    is_logged = pc.is_in(objects["path"], value_set=logged)
    sure = pc.or_(is_logged, pc.ends_with(objects["path"], ".parquet"))
    is_vector = pc.is_in(objects["path"], value_set=pa.concat_arrays(vectors))
    candidates = objects.filter(pc.and_not(pc.invert(sure), is_vector))
    candidates = candidates.filter(pc.greater_equal(candidates["size"], len(_MAGICS[0])))
    looks = at_once(store, partial(_look, store), candidates["path"].to_pylist())
    unreadable |= {path: why for path, (_, why) in zip(candidates["path"].to_pylist(), looks, strict=True) if why}
    is_parquet = pa.array([is_parquet for is_parquet, _ in looks], pa.bool_())

    unlisted = pc.invert(pc.is_in(logged, value_set=objects["path"].combine_chunks()))
    in_log, logged = in_log.filter(unlisted), logged.filter(unlisted)
    refused = _are_refused(in_log, logged, store)
    unreadable |= dict.fromkeys(in_log.filter(refused).to_pylist(), _OUTSIDE)
    reachable = pc.or_(file_paths.are_absolute(logged, store), listing.links.are_behind(logged))
    elsewhere = logged.filter(pc.and_not(reachable, refused))
    unreadable |= {path: _link(end) for path, end in (listing.links.ends or {}).items()}
    nothing = pa.array(np.zeros(len(elsewhere), np.int64))
    return StoredFiles(
        pa.concat_tables([objects.filter(sure), candidates.filter(is_parquet)]),
        pa.table([elsewhere, nothing, nothing], schema=OBJECT_SCHEMA),
        unreadable,
    )


def as_files(snapshot: Snapshot, objects: pa.Table, columns: Collection[str]) -> pa.Table:
    """Stored objects (``path`` as in the store, ``size``, ``modified``) as a files table (FILE_SCHEMA).

    Partition values are what the log says of a file, or else its folders, of every column that may ever have been one
    of the table's partition columns: its files stay on disk when it is partitioned otherwise. A key that is missing
    is an unknown value. The rest is null.

    Args:
        columns: that are read; partition values are looked up for these alone.
    """
    layout = snapshot.layout
    keys = {
        layout.partition_key(name): layout.is_partition_column(name)
        for name in sorted(columns)
        if isinstance(snapshot.schema.field(name).type, PrimitiveType)
    }
    paths = objects["path"].to_pylist()
    values = _partition_values(snapshot, paths, keys) if keys else [[]] * len(paths)
    file_columns = {
        "path": pa.array([file_paths.encode_any(path, snapshot.store) for path in paths], pa.string()),
        "partitionValues": pa.array(values, FILE_SCHEMA.field("partitionValues").type),
        "size": objects["size"].combine_chunks(),
        "modificationTime": objects["modified"].combine_chunks(),
    }
    return pa.table([file_columns.get(c.name, pa.nulls(len(paths), c.type)) for c in FILE_SCHEMA], schema=FILE_SCHEMA)


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
    constants = {}
    for field in reader.schema.fields:
        key = reader.layout.physical_name(field).lower()
        if key in by_name and not reader.holds(file, field):
            try:
                constants[field.name] = partition_values.to_typed(pa.array([by_name[key]], pa.string()), field.type)[0]
            except LogCorruptedError as error:
                raise LogCorruptedError(
                    f"column {field.name}: {error.message}",
                    table=reader.store.root,
                    hint="The column may have had another type then; look at the file, and move or delete it by hand",
                ) from error
    return constants


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
        by_key = {name.lower(): value for name, value in partition_values.folders(path.rpartition("/")[0]).items()}
        by_key |= {name.lower(): value for name, value in noted or ()}
        for key, current in keys.items():
            if current and noted is not None:  # from before it was partitioned by it: what it does not hold is null
                by_key.setdefault(key.lower(), None)
        values.append([(key, by_key[key.lower()]) for key in keys if key.lower() in by_key])
    return values


_NO_PATH = "no path of the table names this key; look at it, and move or delete it by hand"
_OUTSIDE = (
    "the log names it, and it is outside the table's folder; name its folder in the storage option allowed_roots, so "
    "that it is read"
)


def _link(end: str) -> str:
    shown = end if len(end) <= _LONGEST_LINK_SHOWN else f"{end[:_LONGEST_LINK_SHOWN]}..."
    return (
        f"a symbolic link to {shown}: nothing behind it is deleted, nor read but for files that the log names; put the "
        "file or folder itself in its place"
    )


def _without_logs(objects: pa.Table, store: ObjectStore) -> pa.Table:
    """Without keys that no path names, and without the files of transaction logs, those of nested tables too."""
    objects = objects.filter(pc.invert(file_paths.are_absolute(objects["path"], store)))
    in_log = pc.match_substring_regex(objects["path"], rf"(^|/){LOG}/")
    candidates = objects.filter(in_log)
    own = pa.array(at_once(store, partial(_is_of_log, store), candidates["path"].to_pylist()), pa.bool_())
    return pa.concat_tables([objects.filter(pc.invert(in_log)), candidates.filter(pc.invert(own))])


def _is_of_log(store: ObjectStore, path: str) -> bool:
    """Whether an object in a log's folder has a name that logs have and, if it is Parquet, no columns but actions."""
    if _SIDECARS not in f"/{path}" and file_names.parse(path) is None and file_names.checksum_version(path) is None:
        return False
    if not path.endswith(".parquet"):
        return True
    try:
        with store.open_input(path) as source:
            return _ACTIONS.issuperset(pq.read_schema(source).names)
    except (DeltaError, pa.ArrowException, OSError):  # a checkpoint that no reader can use
        return True


def _are_refused(in_log: pa.Array, logged: pa.Array, store: ObjectStore) -> pa.Array:
    """Which paths, as in the log and in their canonical form, are outside the table and may not be read."""

    def is_refused(path: str) -> bool:
        try:
            file_paths.decode(path, store)
        except PathOutsideTableError:
            return True
        return False

    # Plain relative paths need no look of their own, and there may be many.
    odd = pc.or_(file_paths.are_absolute(logged, store), pc.match_substring_regex(logged, _MAY_LEAVE))
    answers = pa.array([is_refused(path) for path in in_log.filter(odd).to_pylist()], pa.bool_())
    return pc.replace_with_mask(pa.array(np.zeros(len(odd), bool)), odd, answers)


def _look(store: ObjectStore, path: str) -> tuple[bool, str | None]:
    """Whether an object begins as Parquet files do, and why that cannot be seen."""
    try:
        with store.open_input(path) as source:
            return source.read(len(_MAGICS[0])) in _MAGICS, None
    except ObjectNotFoundError:  # deleted meanwhile
        return False, None
    except (DeltaError, OSError) as error:
        return False, error.message if isinstance(error, DeltaError) else str(error)
