"""Apply the change events of a Delta table, the *table of events*. Each version of this table is applied once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.change_data.files import as_files
from lakehouse_lib.change_data.versions import commit_range
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import TableNotFoundError
from lakehouse_lib.ingestion.change_events.apply import apply_changes, create_target
from lakehouse_lib.ingestion.change_events.rules import ChangeRules
from lakehouse_lib.log.commits.commit_file import read_commit
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.protocol.actions import Transaction
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests_ahead
from lakehouse_lib.transaction.commit_properties import CommitProperties

#: The limit of bytes of data files for a commit, because events and the rows with their keys are in memory.
_BATCH_BYTES = 128 << 20


class NewEvents(NamedTuple):
    """A batch: files of the table of events that are applied in one commit.

    Attributes:
        files: a files table.
        version: the last version of the table of events whose files are all applied after this batch; None: the
            batch ends within a version.
    """

    files: pa.Table
    version: int | None


def applied_version(store: ObjectStore, events: Snapshot) -> int | None:
    """The last version of a table of events that was applied to a table; None: no version."""
    try:
        transaction = load_snapshot(store).transactions.get(_application(events))
    except TableNotFoundError:
        return None
    return None if transaction is None else transaction.version


def follow_events(
    store: ObjectStore,
    events: ObjectStore,
    rules: ChangeRules,
    engine: Engine,
    *,
    deleted_keys: ObjectStore,
    merges_schema: bool = False,
    on_commit: Callable[[ChangeResult], None] | None = None,
) -> ChangeResult:
    """Apply the events that were added to a Delta table since the last run, in one commit or several.

    The commit that applies a version has a ``txn`` action with this version; its application id contains the id of the
    table of events. The first run applies all rows. Rows that a later commit removes from the table of events stay
    applied. The table is created if it does not exist.

    Args:
        events: the store of the table of events.
        deleted_keys, merges_schema: as in ``apply_changes``.
        on_commit: called after each batch from the first commit on, with the result of all batches so far.

    Returns:
        the sums of the metrics of ``apply_changes``; without new events, ``version`` is None and the metrics are empty.

    Raises:
        VersionNotFoundError: a commit of the table of events that was not applied was cleaned up.
        ObjectNotFoundError: a file of events was vacuumed before it was applied.
        DeltaError: as ``apply_changes``. Earlier batches are committed.
    """
    end = load_snapshot(events)
    create_target(store, end.schema, rules)
    read_version = load_snapshot(store).version
    metrics: Counter[str] = Counter()
    version: int | None = None
    for batch in new_events(end, applied_version(store, end)):
        rows = ArrowEngine().read(end.with_files(batch.files, end.metadata), None, None).read_all()
        done = [] if batch.version is None else [Transaction(_application(end), batch.version)]
        result = apply_changes(
            store,
            rows,
            rules,
            engine,
            deleted_keys=deleted_keys,
            merges_schema=merges_schema,
            commit_properties=CommitProperties(app_transactions=done),
        )
        version = result.version if result.version is not None else version
        metrics.update({name: value for name, value in result.metrics.items() if isinstance(value, int)})
        if on_commit is not None and version is not None:
            on_commit(ChangeResult(store.root, read_version, version, dict(metrics)))
    return ChangeResult(store.root, read_version, version, dict(metrics))


def new_events(end: Snapshot, applied: int | None) -> Iterator[NewEvents]:
    """The files that were added after the version ``applied``, up to the version of the snapshot, in batches.

    Args:
        end: the snapshot of the table of events.
        applied: the last applied version; None: no version was applied, so all files of the snapshot are new.

    Raises:
        VersionNotFoundError: a commit was cleaned up.
    """
    if applied is None:
        parts = _parts(end.files)
        yield from (NewEvents(part, None) for part in parts[:-1])
        yield NewEvents(parts[-1], end.version)
        return
    if applied >= end.version:
        return
    commits = commit_range(end.store, applied + 1, end.version, None, None)
    pending: list[pa.Table] = []
    last = None
    for commit in map_requests_ahead(end.store, partial(read_commit, end.store), commits.versions):
        added = commit.adds
        files = as_files(added.filter(pc.fill_null(added["dataChange"], True)))
        if pending and _bytes([*pending, files]) > _BATCH_BYTES:
            yield NewEvents(pa.concat_tables(pending), last)
            pending = []
        parts = _parts(files)
        yield from (NewEvents(part, None) for part in parts[:-1])
        pending.append(parts[-1])
        last = commit.version
    if pending:
        yield NewEvents(pa.concat_tables(pending), last)


def _application(events: Snapshot) -> str:
    return f"lakehouse.change_events.{events.metadata.id}"


def _parts(files: pa.Table) -> list[pa.Table]:
    """The files in parts, at least one. A part has fewer bytes than ``_BATCH_BYTES`` and its first file together."""
    if not len(files):
        return [files]
    sums = pc.cumulative_sum(files["size"].combine_chunks().cast(pa.int64()))
    number = pc.divide(pc.subtract(sums, 1), _BATCH_BYTES)
    return [files.filter(pc.equal(number, each)) for each in pc.unique(number)]


def _bytes(tables: list[pa.Table]) -> int:
    return sum(int(pc.sum(table["size"]).as_py() or 0) for table in tables)
