"""Purge deleted rows from the disk, and prove that no file holds them.

After a delete commits, the old files stay on disk until a vacuum. A purge deletes the old files that hold matching
rows, whatever their age, and reports which versions cannot be read afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import is_true
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import RetentionError, VersionNotFoundError
from lakehouse_lib.log import clock
from lakehouse_lib.log.change_files import logged_change_files
from lakehouse_lib.log.commits.commit_file import read_commit
from lakehouse_lib.log.segment import list_commits, oldest_version
from lakehouse_lib.operations.files import total_size
from lakehouse_lib.operations.listing import list_objects
from lakehouse_lib.operations.optimize.z_order import saved_trees
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.operations.upkeep.unneeded_files.plan import nested_tables, shares_name
from lakehouse_lib.operations.upkeep.vacuum import newest
from lakehouse_lib.privacy.matches import GONE, count_live, count_stored, matching_rows
from lakehouse_lib.privacy.stored_files import stored_files
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore, open_store

#: The limits of ``purge`` and ``prove``, as the report of an erasure states them.
LOG_NOTE = (
    "The transaction log is not rewritten: commits and checkpoints may hold the person's keys as a file's smallest or "
    "largest value of a column, as a partition value, in the name of a partition's folder, or in the predicate of a "
    "delete without a label, until they are cleaned up (delta.logRetentionDuration, 30 days by default)"
)


@dataclass(frozen=True)
class PurgeResult(OperationResult):
    """The result of a purge or of its dry run.

    Attributes:
        files: store paths of the deleted files.
        rows, bytes: the number of matching rows in these files, and the size of the files.
        versions_lost: versions that cannot be read in full afterwards, ascending.
        changes_lost: versions whose change files are among the deleted files, ascending. Afterwards no range of the
            change data feed with such a version can be read.
        kept: rows by file, of files with matching rows that no version refers to and that are young enough to belong
            to a running writer; purge again later.
        unreadable: the reason by file, of files that cannot be checked; symbolic links are among them.
        out_of_reach: rows by file, of files with matching rows that older versions refer to and a purge does not
            delete, because they are behind a symbolic link or in another folder (``allowed_roots``).
        hard_linked: deleted files that had another name in the file system (``find -samefile``); the bytes are still
            there unless that name was deleted, too.
    """

    dry_run: bool
    files: tuple[str, ...]
    rows: int
    bytes: int
    versions_lost: tuple[int, ...]
    changes_lost: tuple[int, ...] = ()
    kept: Mapping[str, int] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    out_of_reach: Mapping[str, int] = field(default_factory=dict)
    hard_linked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proof:
    """The number of matching rows in every Parquet file that a table keeps, except its log.

    The table keeps the files below its folder, and the files elsewhere that any version in its log refers to.

    Attributes:
        version: the latest version when the files were listed; rows of later versions may not be counted.
        files: the number of Parquet files, hidden files included.
        rows: the number of matching rows in all files.
        matches: rows by store path, of files with matching rows.
        skipped: the reason by file, of files without any of the predicate's columns: none of their rows can match. If
            the predicate is true for nulls (``email IS NULL``), no file is skipped.
        unreadable: the reason by file, of files that cannot be checked, so that the table is not ``clean``. These are
            symbolic links (of the files behind them, only those that the log refers to are counted), files outside
            ``allowed_roots``, files whose value of a partition column is unknown, files with a dropped column whose
            name another column has now, and files without the key's column that have columns of an older schema under
            generated names.
        note: the other places in which a person's keys may be.
    """

    table: str
    version: int
    files: int
    rows: int
    matches: Mapping[str, int]
    skipped: Mapping[str, str]
    unreadable: Mapping[str, str]
    note: str = LOG_NOTE

    @property
    def clean(self) -> bool:
        """Whether every file was checked and none holds a matching row."""
        return not self.rows and not self.unreadable

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, ``clean`` included."""
        return {**asdict(self), "clean": self.clean}


def purge(
    uri: str,
    predicate_sql: str,
    *,
    dry_run: bool = False,
    writer_grace: timedelta = timedelta(hours=1),
    before_delete: Callable[[Sequence[str]], None] | None = None,
    storage_options: dict[str, str] | None = None,
    engine: Engine | None = None,
) -> PurgeResult:
    """Delete from disk the files that are not in the current version and hold rows for which the predicate is true.

    Removed files and change files are deleted without retention, so readers of older versions and of their changes fail
    afterwards. A file to which the log does not refer is deleted if it is older than ``writer_grace``. Nested tables
    have their own logs and are not touched; purge them by their location. The saved trees of ``z_order`` are deleted,
    too, because they contain values of rows.

    Args:
        writer_grace: the age below which a file without a reference in the log may belong to a running writer.
        before_delete: called once with the store paths that are about to be deleted, if there are any; nothing is
            deleted if it raises. Not called in a dry run.
        storage_options: options of the table's store.

    Raises:
        RetentionError: files of the current version hold matching rows, perhaps hidden by deletion vectors, or this
            machine's clock is ahead of the store's by more than ten minutes; nothing is deleted.
        InvalidPredicateError: the predicate does not parse, or names a column that does not exist.
        UnsupportedFeatureError: the table has a writer feature that this library does not support.
    """
    engine = engine or ArrowEngine()
    snapshot = load_snapshot(open_store(uri, storage_options))
    snapshot.check_writable()
    rows, files = count_live(snapshot, predicate_sql, engine)
    if rows:
        raise RetentionError(
            f"the current version still holds {rows} rows in {files} files for which the predicate is true",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Delete the rows first, then purge",
        )
    listing = list_objects(snapshot.store)
    stored = stored_files(snapshot, listing)
    _refuse_hidden(snapshot, predicate_sql, stored.all_files, engine)
    inside = stored.inside
    for root in nested_tables(listing.objects["path"]):
        inside = inside.filter(pc.invert(pc.starts_with(inside["path"], root + "/")))
    stale = pa.concat_tables([inside, stored.elsewhere])
    stale = stale.filter(pc.invert(pc.is_in(stale["path"], value_set=_paths(snapshot.files, snapshot.store))))
    counted = _counted(snapshot, predicate_sql, stale, engine, skip_by_footer=True)
    holding = counted.filter(pc.greater(counted["matches"], 0))
    is_inside = pc.is_in(holding["stored"], value_set=inside["path"].combine_chunks())
    out_of_reach, holding = holding.filter(pc.invert(is_inside)), holding.filter(is_inside)

    # Counting takes a while. Files that a restore or another writer has committed meanwhile must not be deleted.
    latest = newest(snapshot)
    live = pa.chunked_array([_paths(latest.files, latest.store)])
    holding = holding.filter(pc.invert(pc.is_in(holding["stored"], value_set=live)))
    holding = holding.filter(pc.invert(shares_name(holding["stored"], live)))
    holding = holding.filter(pc.invert(pc.is_in(holding["stored"], value_set=listing.links.targets(live))))
    if not dry_run and len(holding):
        clock.check_by_probe(latest.store)  # if this clock were ahead, files of a running writer would look old
    is_young = pc.greater(holding["modificationTime"], clock.now() - int(writer_grace.total_seconds() * 1000))
    is_young = pc.and_not(is_young, pc.is_in(holding["stored"], value_set=_committed(holding["stored"], latest)))
    deletable, recent = holding.filter(pc.invert(is_young)), holding.filter(is_young)
    paths = sorted(deletable["stored"].to_pylist())
    versions_lost, changes_lost = _versions_with(latest, frozenset(paths))
    result = PurgeResult(
        table=latest.store.root,
        read_version=latest.version,
        version=None,
        dry_run=dry_run,
        files=tuple(paths),
        rows=matching_rows(deletable),
        bytes=total_size(deletable),
        versions_lost=versions_lost,
        changes_lost=changes_lost,
        kept=_rows(recent),
        unreadable={**_notes(counted.filter(pc.is_null(counted["matches"]))), **stored.unreadable},
        out_of_reach=_rows(out_of_reach),
        hard_linked=tuple(_hard_linked(paths, latest.store)),
    )
    if not dry_run:
        if paths and before_delete is not None:
            before_delete(paths)
        latest.store.delete_many([*paths, *(_checksum(path) for path in paths)])
        saved_trees.delete_all(latest.store)
    return result


def prove(
    uri: str, predicate_sql: str, *, storage_options: dict[str, str] | None = None, engine: Engine | None = None
) -> Proof:
    """Count the rows for which the predicate is true in every Parquet file that the table keeps.

    Files are found by the log, by the suffix ``.parquet`` or by their first bytes, in hidden folders, too. Each file is
    read by its own schema, and no file is skipped by statistics. A partition value that is not in the file is taken
    from the log or the name of the folder. The log's own files are not counted; ``Proof.note`` describes the keys that
    they may hold.

    Args:
        storage_options: options of the table's store.

    Raises:
        InvalidPredicateError: the predicate does not parse, or names a column that the table does not have.
    """
    snapshot = load_snapshot(open_store(uri, storage_options))
    stored = stored_files(snapshot, list_objects(snapshot.store))
    counted = _counted(snapshot, predicate_sql, stored.all_files, engine or ArrowEngine(), skip_by_footer=False)
    matched = counted.filter(pc.greater(counted["matches"], 0))
    skipped_files = counted.filter(pc.and_(pc.is_valid(counted["note"]), pc.is_valid(counted["matches"])))
    return Proof(
        table=snapshot.store.root,
        version=snapshot.version,
        files=len(counted),
        rows=matching_rows(matched),
        matches=_rows(matched),
        skipped=_notes(skipped_files),
        unreadable={**_notes(counted.filter(pc.is_null(counted["matches"]))), **stored.unreadable},
    )


def _counted(
    snapshot: Snapshot, predicate_sql: str, objects: pa.Table, engine: Engine, *, skip_by_footer: bool
) -> pa.Table:
    """The counts of ``count_stored`` without deleted objects, with the store paths as column ``stored``."""
    counted = count_stored(snapshot, predicate_sql, objects, engine, skip_by_footer=skip_by_footer)
    counted = counted.filter(pc.invert(is_true(pc.equal(counted["note"], GONE))))
    return counted.append_column("stored", _paths(counted, snapshot.store))


def _refuse_hidden(snapshot: Snapshot, predicate_sql: str, stored: pa.Table, engine: Engine) -> None:
    """Check that no live file holds matching rows behind a deletion vector, because a purge deletes no live file."""
    files = snapshot.files
    marked = files.filter(files["deletionVector"].is_valid())
    paths = _paths(marked, snapshot.store)
    candidates = stored.filter(pc.is_in(stored["path"], value_set=paths))
    counted = count_stored(snapshot, predicate_sql, candidates, engine, skip_by_footer=False)
    rows = matching_rows(counted)
    if rows:
        raise RetentionError(
            f"files of the current version still hold {rows} rows, hidden by deletion vectors, for which the predicate "
            "is true",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Delete the rows once more with DeltaTable.delete(predicate, rewrite=True), then purge",
        )


def _hard_linked(paths: list[str], store: ObjectStore) -> Iterator[str]:
    """The files with more than one name in the file system; a remote store has none."""
    for path in [] if store.is_remote else paths:
        meta = store.head(path)
        if meta is not None and meta.names > 1:
            yield path


def _paths(files: pa.Table, store: ObjectStore) -> pa.Array:
    return file_paths.canonical(files["path"], store)


def _rows(counted: pa.Table) -> dict[str, int]:
    return dict(zip(counted["stored"].to_pylist(), counted["matches"].to_pylist(), strict=True))


def _notes(counted: pa.Table) -> dict[str, str]:
    return dict(zip(counted["stored"].to_pylist(), counted["note"].to_pylist(), strict=True))


def _checksum(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc" if folder else f".{name}.crc"


def _committed(stored: pa.ChunkedArray, latest: Snapshot) -> pa.Array:
    """The store paths to which commits referred: removed files, and change files if ``stored`` may contain any."""
    removed = _paths(latest.tombstones, latest.store)
    if not pc.any(pc.starts_with(stored, f"{file_paths.CHANGE_DATA}/"), min_count=0).as_py():
        return removed
    return pa.concat_arrays([removed, _paths(logged_change_files(latest.store), latest.store)])


def _versions_with(snapshot: Snapshot, paths: frozenset[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The readable versions whose files, and the versions whose change files, include one of ``paths``.

    Reads every commit of the log.
    """
    oldest = oldest_version(snapshot.store)
    if not paths or oldest is None:
        return (), ()
    events: list[tuple[int, frozenset[str], frozenset[str]]] = []
    alive: set[str] = set()
    touched: set[str] = set()
    changed: list[int] = []
    for commit in list_commits(snapshot.store):
        try:
            actions = read_commit(snapshot.store, commit.version, size=commit.size)
        except VersionNotFoundError:  # log cleanup deleted this commit and older ones after they were listed
            events, alive, touched, changed = [], set(), set(), []
            continue
        added = paths.intersection(_paths(actions.adds, snapshot.store).to_pylist())
        removed = paths.intersection(_paths(actions.removes, snapshot.store).to_pylist())
        alive |= removed - touched  # a file whose first action is a remove was live before the log's oldest commit
        touched |= added | removed
        events.append((commit.version, added, removed))
        if paths.intersection(_paths(actions.changes, snapshot.store).to_pylist()):
            changed.append(commit.version)
    lost = []
    for version, added, removed in events:
        alive = (alive - removed) | added
        if alive and version >= oldest:
            lost.append(version)
    return tuple(lost), tuple(changed)
