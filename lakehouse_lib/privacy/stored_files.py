"""The Parquet files that a table keeps on disk, whether or not its log refers to them, as a files table."""

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
from lakehouse_lib.log.change_files import logged_change_files
from lakehouse_lib.operations.listing import OBJECT_SCHEMA, Listing
from lakehouse_lib.operations.upkeep.unneeded_files.removed_files import removes_below_checkpoint
from lakehouse_lib.protocol import deletion_vector, file_paths, partition_values
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.schema import PrimitiveType
from lakehouse_lib.schema.column_mapping import is_generated
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests
from lakehouse_lib.store.uris import SCHEME

_SIDECARS = f"/{file_names.SIDECARS}/"
#: The columns of checkpoints and sidecars (PROTOCOL.md, section Checkpoint Schema).
_ACTIONS = frozenset(
    "add remove cdc metaData protocol txn commitInfo domainMetadata checkpointMetadata sidecar".split()  # noqa: SIM905
)
# Paths that ``file_paths.canonical`` may return unchanged, because they have no canonical form.
_MAY_LEAVE = rf"^{SCHEME}:|(^|/)\.\.(/|$)|\x00|/$|^\.?$"
#: First bytes of a Parquet file with a plain footer, and with an encrypted footer.
_MAGICS = (b"PAR1", b"PARE")
_LONGEST_LINK_SHOWN = 200


@dataclass(frozen=True)
class StoredFiles:
    """The Parquet files that a table keeps in any folder, whether or not its log refers to them.

    Attributes:
        inside: files below the table's folder (OBJECT_SCHEMA), hidden files and files of nested tables included;
            without symbolic links and files behind them.
        elsewhere: files of any version in the log that are behind a symbolic link or in another folder of
            ``allowed_roots`` (OBJECT_SCHEMA, sizes and times are 0). Some may no longer exist.
        unreadable: the reason why a file cannot be read, by its store path or its path in the log.
    """

    inside: pa.Table
    elsewhere: pa.Table
    unreadable: Mapping[str, str]

    @property
    def all_files(self) -> pa.Table:
        """Files inside and elsewhere."""
        return pa.concat_tables([self.inside, self.elsewhere])


def stored_files(snapshot: Snapshot, listing: Listing) -> StoredFiles:
    """The Parquet files of a table, found by the log, by the suffix ``.parquet`` or by their first bytes.

    Args:
        listing: the objects of the table's folder, listed after ``snapshot`` was loaded.
    """
    store = snapshot.store
    live, removed = snapshot.files, snapshot.tombstones
    logs = [live["path"], removed["path"]]
    if listing.links or store.allowed_roots:  # else the listing has all files of older versions
        logs += [removes["path"] for removes in removes_below_checkpoint(snapshot)]
    in_log = pc.unique(pa.chunked_array([chunk for column in logs for chunk in column.chunks], pa.string()))
    logged = file_paths.canonical(in_log, store)
    vectors = [deletion_vector.paths_of(store, files["deletionVector"]) for files in (live, removed)]

    paths = listing.objects["path"]
    unreadable = dict.fromkeys(paths.filter(file_paths.are_absolute(paths, store)).to_pylist(), _NO_PATH)
    objects = _without_logs(pa.concat_tables([listing.objects, listing.log]), store)
    is_logged = pc.is_in(objects["path"], value_set=logged)
    is_certain = pc.or_(is_logged, pc.ends_with(objects["path"], ".parquet"))
    is_vector = pc.is_in(objects["path"], value_set=pa.concat_arrays(vectors))
    candidates = objects.filter(pc.and_not(pc.invert(is_certain), is_vector))
    candidates = candidates.filter(pc.greater_equal(candidates["size"], len(_MAGICS[0])))
    looks = map_requests(store, partial(_look, store), candidates["path"].to_pylist())
    unreadable |= {path: why for path, (_, why) in zip(candidates["path"].to_pylist(), looks, strict=True) if why}
    is_parquet = pa.array([is_parquet for is_parquet, _ in looks], pa.bool_())

    unlisted = pc.invert(pc.is_in(logged, value_set=objects["path"].combine_chunks()))
    in_log, logged = in_log.filter(unlisted), logged.filter(unlisted)
    refused = _are_refused(in_log, logged, store)
    unreadable |= dict.fromkeys(in_log.filter(refused).to_pylist(), _OUTSIDE)
    reachable = pc.or_(file_paths.are_absolute(logged, store), listing.links.are_behind(logged))
    elsewhere = logged.filter(pc.and_not(reachable, refused))
    unreadable |= {path: _link(end) for path, end in (listing.links.ends or {}).items()}
    zeros = pa.array(np.zeros(len(elsewhere), np.int64))
    return StoredFiles(
        pa.concat_tables([objects.filter(is_certain), candidates.filter(is_parquet)]),
        pa.table([elsewhere, zeros, zeros], schema=OBJECT_SCHEMA),
        unreadable,
    )


def as_files(snapshot: Snapshot, objects: pa.Table, columns: Collection[str]) -> pa.Table:
    """Stored objects (``path`` as in the store, ``size``, ``modified``) as a files table (FILE_SCHEMA).

    Partition values are taken from the log, else from the names of folders. Columns by which the table is not
    partitioned now may have such values, too, because a file may be older than the table's partitioning. An unknown
    value has no key in ``partitionValues``. Columns of FILE_SCHEMA that the objects do not have are null.

    Args:
        columns: the columns that the caller reads. Partition values are looked up for columns of a primitive type.
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
    file: DataFile, pairs: Sequence[tuple[str, str | None]] | None, reader: TableReader
) -> dict[str, pa.Scalar]:
    """The typed partition values of those columns of the reader that the file does not hold.

    A column in the file takes precedence, whatever the table is partitioned by now.

    Args:
        pairs: the file's ``partitionValues``.

    Raises:
        LogCorruptedError: a value is not valid for the column's type; the column may have had another type.
    """
    by_name = {key.lower(): value for key, value in pairs or ()}
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
                    hint="The column may have had another type; look at the file, and move or delete it by hand",
                ) from error
    return constants


def _partition_values(
    snapshot: Snapshot, paths: Sequence[str], keys: Mapping[str, bool]
) -> list[list[tuple[str, str | None]]]:
    """The known partition values of each path, and those under generated keys that the table does not have now.

    Args:
        keys: by partition key, whether the table is partitioned by it now.
    """
    logged: dict[str, list[tuple[str, str | None]]] = {}
    sources = [snapshot.tombstones, snapshot.files]
    if any(path.startswith(f"{file_paths.CHANGE_DATA}/") for path in paths):
        sources.append(logged_change_files(snapshot.store))
    for files in sources:
        canonical = file_paths.canonical(files["path"], snapshot.store).to_pylist()
        # A remove without extended file metadata may omit the values: its empty map does not mean null.
        full = files["extendedFileMetadata"].to_pylist() if "extendedFileMetadata" in files.column_names else None
        for index, (path, pairs) in enumerate(zip(canonical, files["partitionValues"].to_pylist(), strict=True)):
            if pairs or (pairs is not None and (full is None or full[index])):
                logged[path] = pairs
    current_keys = {snapshot.layout.physical_name(field) for field in snapshot.schema.fields}
    values = []
    for path in paths:
        pairs = logged.get(path)
        # The case of a column's name may have changed since the file was written.
        by_key = {name.lower(): value for name, value in partition_values.folders(path.rpartition("/")[0]).items()}
        by_key |= {name.lower(): value for name, value in pairs or ()}
        # The value of a column from before an overwrite may be under a generated key that the table does not have now.
        former_values = [(key, value) for key, value in pairs or () if key not in current_keys and is_generated(key)]
        is_older = pairs is not None and not former_values
        for key, current in keys.items():
            if current and is_older:  # the file is older than this partition column: the value is null
                by_key.setdefault(key.lower(), None)
        values.append([*((key, by_key[key.lower()]) for key in keys if key.lower() in by_key), *former_values])
    return values


_NO_PATH = "the object's key is not a valid path in the table; look at the object, and move or delete it by hand"
_OUTSIDE = (
    "the log refers to this file outside the table's folder; to read the file, add its folder to the storage option "
    "allowed_roots"
)


def _link(end: str) -> str:
    shown = end if len(end) <= _LONGEST_LINK_SHOWN else f"{end[:_LONGEST_LINK_SHOWN]}..."
    return (
        f"a symbolic link to {shown}: behind it only files that the log refers to are read, and nothing is deleted; "
        "replace the link by the file or folder itself"
    )


def _without_logs(objects: pa.Table, store: ObjectStore) -> pa.Table:
    """The objects without invalid paths and without files of transaction logs, nested tables' logs included."""
    objects = objects.filter(pc.invert(file_paths.are_absolute(objects["path"], store)))
    in_log = pc.match_substring_regex(objects["path"], rf"(^|/){file_names.LOG}/")
    candidates = objects.filter(in_log)
    own = pa.array(map_requests(store, partial(_is_of_log, store), candidates["path"].to_pylist()), pa.bool_())
    return pa.concat_tables([objects.filter(pc.invert(in_log)), candidates.filter(pc.invert(own))])


def _is_of_log(store: ObjectStore, path: str) -> bool:
    """Whether an object in a log's folder has the name of a log file and, if it is Parquet, only columns of actions."""
    if _SIDECARS not in f"/{path}" and file_names.parse(path) is None and file_names.checksum_version(path) is None:
        return False
    if not path.endswith(".parquet"):
        return True
    try:
        with store.open_input(path) as source:
            return _ACTIONS.issuperset(pq.read_schema(source).names)
    except (DeltaError, pa.ArrowException, OSError):  # a damaged checkpoint
        return True


def _are_refused(in_log: pa.Array, logged: pa.Array, store: ObjectStore) -> pa.Array:
    """For each path, as in the log and in canonical form, whether it is outside the table and not in allowed_roots."""

    def is_refused(path: str) -> bool:
        try:
            file_paths.decode(path, store)
        except PathOutsideTableError:
            return True
        return False

    # Plain relative paths are inside the table. There may be many, so they are not checked one by one.
    odd = pc.or_(file_paths.are_absolute(logged, store), pc.match_substring_regex(logged, _MAY_LEAVE))
    answers = pa.array([is_refused(path) for path in in_log.filter(odd).to_pylist()], pa.bool_())
    return pc.replace_with_mask(pa.array(np.zeros(len(odd), bool)), odd, answers)


def _look(store: ObjectStore, path: str) -> tuple[bool, str | None]:
    """Whether an object begins with the magic bytes of Parquet, and the reason if it cannot be read."""
    try:
        with store.open_input(path) as source:
            return source.read(len(_MAGICS[0])) in _MAGICS, None
    except ObjectNotFoundError:  # deleted meanwhile
        return False, None
    except (DeltaError, OSError) as error:
        return False, error.message if isinstance(error, DeltaError) else str(error)
