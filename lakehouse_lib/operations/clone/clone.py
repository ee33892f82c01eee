"""Clone a version of a table into a new table.

A deep clone copies the files. A shallow clone refers to the files of the source by absolute paths. A record in the
source's folder keeps vacuum from deleting these files (``records``).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import features
from lakehouse_lib.arrow.values import as_array, literal, strings
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, StoreError, UnsupportedFeatureError
from lakehouse_lib.features import row_tracking
from lakehouse_lib.features.checkpoints import checkpoint_protection
from lakehouse_lib.log import clock, latest_version
from lakehouse_lib.operations.clone.records import put_record
from lakehouse_lib.operations.files import total_size
from lakehouse_lib.operations.missing_files import missing_files_error, missing_paths
from lakehouse_lib.operations.results import JOBS_FOLDER, ChangeResult
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.operations.upkeep.running_vacuum import check_files_stay
from lakehouse_lib.operations.upkeep.vacuum import newest
from lakehouse_lib.operations.write.create import table_exists
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.uris import SCHEME, scheme_prefix
from lakehouse_lib.transaction import Conflict, Unknown, version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties

logger = logging.getLogger(__name__)

#: The number of bytes that one read copies.
_READ_BYTES = 8 << 20
_FILES_PER_TASK = 16
#: Matches a path in another store, and an absolute path of a log.
_OTHER_STORE, _ABSOLUTE = f"^{SCHEME}://", f"^/|^{SCHEME}:"


@dataclass(frozen=True)
class CopyTask:
    """A task that copies objects.

    Attributes:
        source, target: the stores of the two tables.
        paths: pairs of a store path in the source and a store path in the target.
    """

    source: ObjectStore
    target: ObjectStore
    paths: tuple[tuple[str, str], ...]


def clone(
    snapshot: Snapshot,
    target: ObjectStore,
    engine: Engine,
    *,
    is_shallow: bool = False,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Create a new table with the rows, the schema, the properties and the features of a version.

    Args:
        snapshot: the version of the source.
        target: the store of an empty location. A folder ``_jobs`` may exist. For a shallow clone, ``allowed_roots`` of
            this store contains the root of the source.
        engine: copies the files of a deep clone.
        is_shallow: refer to the files of the source instead of copying them.

    Returns:
        Metrics: sourceTableSize, sourceNumOfFiles, numCopiedFiles, copiedFilesSize, numRemovedFiles, removedFilesSize.

    Raises:
        InvalidArgumentError: the target has a table or other files, the source is itself a shallow clone (it has files
            of another folder), or a shallow clone would be in another kind of store.
        ObjectNotFoundError: files of the version do not exist, for example because vacuum has deleted them.
        CommitFailedError: the clone would be shallow, a vacuum is running, or was killed less than a day ago, and the
            latest version of the source does not have all files of the version.
        RetentionError: the clone would be shallow, a vacuum may be running, and this machine's clock is ahead of the
            store's.
        UnsupportedFeatureError: the source uses a feature that this library cannot write, or files lack row ids.
        CommitUnknownError: the store gave no answer to the commit.
    """
    source, files = snapshot.store, snapshot.files
    snapshot.check_writable()
    _check_target(target)
    _check_source(snapshot, files, target, is_shallow=is_shallow)
    with _deleted_on_error() as written:
        if is_shallow:
            record = _put_record(snapshot, files, target)
            written.append((source, record))
            if record:
                check_files_stay(snapshot, newest(snapshot), "Nothing was cloned")
        missing = missing_paths(files, source)
        if len(missing):
            raise missing_files_error(missing, snapshot, "Nothing was cloned. Clone a later version")
        added = _absolute_files(files, source) if is_shallow else _copy_files(files, source, target, engine, written)
        change = TableChange(
            "CLONE",
            {"source": source.root, "sourceVersion": snapshot.version, "isShallow": is_shallow},
            added=added,
            metadata=replace(
                checkpoint_protection.without_protection(snapshot.metadata),
                id=str(uuid.uuid4()),
                created_time=clock.now(),
            ),
            features=features.writer_features(snapshot.protocol) | features.reader_features(snapshot.protocol),
            domains=tuple(snapshot.domains.values()),
            keeps_row_ids=True,
            metrics={
                "sourceTableSize": total_size(files),
                "sourceNumOfFiles": len(files),
                "numCopiedFiles": 0 if is_shallow else len(files),
                "copiedFilesSize": 0 if is_shallow else total_size(files),
                "numRemovedFiles": 0,
                "removedFilesSize": 0,
            },
        )
        transaction = change.on(None, target)
        try:
            outcome = transaction.commit(commit_properties)
        except DeltaError:
            raise
        except BaseException:  # such as KeyboardInterrupt: it may come after the commit file was put
            written.clear()
            raise
        if isinstance(outcome, Unknown):
            written.clear()  # a version may refer to the files
        if isinstance(outcome, Conflict):
            raise _exists(target)
        version = version_of(outcome)
    return ChangeResult(target.root, None, version, change.metrics)


def copy_objects(task: CopyTask) -> pa.Table:
    """Run a copy task. Returns an empty files table, because an engine expects one."""
    for path, new_path in task.paths:
        with task.source.open_input(path) as opened:
            size, position = opened.size(), 0
            try:
                with task.target.open_output(new_path) as sink:
                    while position < size:
                        data = opened.read_at(min(_READ_BYTES, size - position), position)
                        sink.write(data)
                        position += len(data)
            except OSError as error:
                raise StoreError(
                    f"the file {new_path} cannot be written: {error}",
                    table=task.target.root,
                    hint=task.target.explain(error),
                ) from error
    return pa.Table.from_batches([], FILE_SCHEMA)


@contextmanager
def _deleted_on_error() -> Iterator[list[tuple[ObjectStore, list[str]]]]:
    """Yield a list of stores with paths. If the block raises an error, the objects at these paths are deleted."""
    written: list[tuple[ObjectStore, list[str]]] = []
    try:
        yield written
    except BaseException:
        for store, paths in written:
            with suppress(DeltaError):  # the error that led here is raised
                store.delete_many(paths)
        raise


def _put_record(snapshot: Snapshot, files: pa.Table, target: ObjectStore) -> list[str]:
    """Write the record of a shallow clone. Returns a list with its path; empty if the record cannot be written."""
    source = snapshot.store
    try:
        return [put_record(source, files, target.root, snapshot.version)]
    except StoreError as error:
        logger.warning(
            "vacuum of %s may delete files of the clone %s: the record of the clone cannot be written: %s",
            source.root,
            target.root,
            error,
        )
        return []


def _check_target(target: ObjectStore) -> None:
    if latest_version(target) is not None:
        raise _exists(target)
    # If a job makes the clone, the objects of the job are already in the target.
    stored = next((meta for meta in target.walk() if not meta.path.startswith(f"{JOBS_FOLDER}/")), None)
    if stored is not None:
        raise _refusal(f"the target has the file {stored.path}; expected an empty folder", target, "Use another folder")


def _exists(target: ObjectStore) -> InvalidArgumentError:
    return table_exists(target, hint="Clone to another location")


def _check_source(snapshot: Snapshot, files: pa.Table, target: ObjectStore, *, is_shallow: bool) -> None:
    source = snapshot.store
    if is_shallow and target.schemes != source.schemes:
        hint = "Make a deep clone, or clone to the same kind of store"
        raise _refusal(f"the target is in another kind of store than {source.root}; expected the same", target, hint)
    paths = file_paths.canonical(files["path"], source)
    outside = pc.or_(file_paths.are_absolute(paths, source), pc.match_substring_regex(paths, _OTHER_STORE))
    kinds = pc.struct_field(files["deletionVector"], "storageType")
    if pc.any(outside).as_py() or pc.any(pc.equal(kinds, literal("p", pa.string()))).as_py():
        hint = "Clone its source, or write its rows to a new table"
        raise _refusal("the table has files of another folder, so it is itself a shallow clone", source, hint)
    if row_tracking.assigns_row_ids(snapshot.protocol, snapshot.metadata) and files["baseRowId"].null_count:
        raise UnsupportedFeatureError(
            f"{files['baseRowId'].null_count} files have no row ids, although the table has rowTracking",
            table=source.root,
            version=snapshot.version,
            hint="Write the rows to a new table",
        )


def _refusal(problem: str, store: ObjectStore, hint: str) -> InvalidArgumentError:
    return InvalidArgumentError(problem, table=store.root, hint=hint, code="DELTA_CANNOT_CLONE")


def _relative(files: pa.Table, source: ObjectStore) -> pa.Array:
    """The paths in the log, relative to the source. Some writers log absolute paths of the table's own files."""
    paths = as_array(files["path"])
    is_absolute = pc.match_substring_regex(paths, _ABSOLUTE)
    relative = file_paths.canonical(paths.filter(is_absolute), source).to_pylist()
    return pc.replace_with_mask(paths, is_absolute, strings([file_paths.encode(path) for path in relative]))


def _absolute_files(files: pa.Table, source: ObjectStore) -> pa.Table:
    """The files table, with absolute paths of the data files and the deletion vectors."""
    prefix = scheme_prefix(source.root)
    root = prefix + quote(source.root.removeprefix(prefix).rstrip("/")) if prefix else f"file://{quote(source.root)}"
    relative = pc.replace_substring_regex(_relative(files, source), r"^(\./)+", "")
    paths = pc.binary_join_element_wise(literal(root, pa.string()), relative, literal("/", pa.string()))
    vectors = deletion_vector.moved_vectors(
        files["deletionVector"], "p", lambda text: f"{root}/{quote(deletion_vector.file_of(text))}"
    )
    return _with_paths(files, paths, vectors)


def _copy_files(
    files: pa.Table,
    source: ObjectStore,
    target: ObjectStore,
    engine: Engine,
    written: list[tuple[ObjectStore, list[str]]],
) -> pa.Table:
    """Copy data files and their deletion vectors. Returns the files table with the new names.

    The names contain an id of this run, so that a concurrent clone into the same folder does not write the same files.

    Args:
        written: the list of ``_deleted_on_error``, to which the new files are added.
    """
    run = uuid.uuid4().hex
    paths = pc.replace_substring_regex(_relative(files, source), r"([^/]*)$", rf"{run}-\1")
    pairs = list(
        zip(
            file_paths.decode_all(files["path"], source).to_pylist(),
            file_paths.decode_all(paths, target).to_pylist(),
            strict=True,
        )
    )

    def new_name(text: str) -> str:
        pairs.append((deletion_vector.file_of(text), deletion_vector.file_of(f"{run}{text}")))
        return f"{run}{text}"

    vectors = deletion_vector.moved_vectors(files["deletionVector"], "u", new_name)
    tasks = [
        CopyTask(source, target, tuple(pairs[start : start + _FILES_PER_TASK]))
        for start in range(0, len(pairs), _FILES_PER_TASK)
    ]
    target.make_root()
    written.append((target, [new_path for _, new_path in pairs]))
    engine.run(copy_objects, tasks)
    target.sync([new_path for _, new_path in pairs])
    return _with_paths(files, paths, vectors)


def _with_paths(files: pa.Table, paths: pa.Array, vectors: pa.Array) -> pa.Table:
    change = pa.repeat(literal(True, pa.bool_()), len(files))
    for name, values in (("path", paths), ("deletionVector", vectors), ("dataChange", change)):
        files = files.set_column(FILE_SCHEMA.get_field_index(name), FILE_SCHEMA.field(name), values)
    return files
