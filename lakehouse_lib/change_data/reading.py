"""The change data feed of a table: the rows that its commits inserted, updated and deleted.

The feed is read like a table whose files are the files with changed rows. Values that are not in these files (the
commit's version and time, and usually the kind of change) are equal for all rows of a file, like partition values. So
the engines read a feed as a few snapshots. Columns, conditions, deletion vectors and column mapping work as in any
table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.change_data.files import ChangedFiles, changed_files, with_complete_removes
from lakehouse_lib.change_data.schemas import check_readable_as, feed_schema, partition_columns_as
from lakehouse_lib.change_data.versions import CommitRange
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaProtocolError
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.features import has_change_data_feed
from lakehouse_lib.log.commits.commit_file import CommitActions, read_commit
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.protocol.actions import FILE_SCHEMA, Metadata
from lakehouse_lib.schema import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, Schema
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests_ahead


@dataclass(frozen=True)
class _Part:
    """Files of one commit with the same partition columns.

    Attributes:
        in_rows: whether the files have the column ``_change_type``.
    """

    files: pa.Table
    partition_columns: tuple[str, ...]
    in_rows: bool


@dataclass(frozen=True)
class ChangeFeed:
    """The changes of a range of commits.

    Attributes:
        end: the snapshot of the last version; the feed has its schema.
        parts: the files with changed rows, in the order of the commits.
    """

    end: Snapshot
    parts: tuple[_Part, ...]

    @property
    def schema(self) -> Schema:
        """The table's columns, then ``_change_type``, ``_commit_version`` and ``_commit_timestamp``."""
        return feed_schema(self.end)

    def in_order(self) -> list[Snapshot]:
        """The feed as one or more tables, to be read one after the other. The files are in the order of the commits."""
        runs: list[list[_Part]] = []
        for part in self.parts:
            if runs and _key(runs[-1][0]) == _key(part):
                runs[-1].append(part)
            else:
                runs.append([part])
        return [self._table(run) for run in runs] or [self._table([])]

    def by_file(self) -> list[Snapshot]:
        """The feed as one or more tables, in any order of the commits. In each table, a file occurs at most once."""
        tables: dict[object, list[_Part]] = {}
        appearances: dict[str, int] = {}
        for part in self.parts:
            paths = file_paths.canonical(part.files["path"], self.end.store).to_pylist()
            times = [appearances.get(path, 0) for path in paths]
            appearances.update((path, time + 1) for path, time in zip(paths, times, strict=True))
            for time in sorted(set(times)):
                files = part.files.filter(pa.array(np.array(times) == time))
                tables.setdefault((_key(part), time), []).append(replace(part, files=files))
        return [self._table(parts) for parts in tables.values()] or [self._table([])]

    def _table(self, parts: Sequence[_Part]) -> Snapshot:
        """Parts with the same partition columns, as a snapshot with the columns of the feed."""
        commit_columns = (COMMIT_VERSION, COMMIT_TIMESTAMP)
        constants = (CHANGE_TYPE, *commit_columns) if not parts or not parts[0].in_rows else commit_columns
        metadata = replace(
            self.end.metadata,
            schema_string=self.schema.to_json(),
            partition_columns=(*(parts[0].partition_columns if parts else self.end.partition_columns), *constants),
        )
        files = pa.concat_tables([part.files for part in parts]) if parts else pa.Table.from_batches([], FILE_SCHEMA)
        return self.end.with_files(files, metadata)


def change_feed(store: ObjectStore, commits: CommitRange) -> ChangeFeed:
    """The feed of these commits. Reads the log, and no rows.

    If a commit replaced a deletion vector, both vectors are also read, and the footer of a file without statistics.

    Raises:
        DeltaProtocolError: ``delta.enableChangeDataFeed`` was not true at a version of the range.
        SchemaMismatchError: some of the rows do not fit the schema of the last version.
        VersionNotFoundError: a version was cleaned up from which the schema of the first commit, or the files that a
            commit removed, must be read.
    """
    if not commits.times:
        return ChangeFeed(load_snapshot(store), ())
    end = load_snapshot(store, commits.last)
    before: Metadata | None = None
    parts: list[_Part] = []
    checked: set[str] = set()
    for commit, time in zip(
        map_requests_ahead(store, partial(read_commit, store), commits.versions), commits.times, strict=True
    ):
        version = commit.version
        if version == commits.first:
            before = _metadata_before(store, commit)
        current = commit.metadata or before
        if current is None or not has_change_data_feed(current):
            raise _no_feed(store, version)
        for changed in changed_files(commit, store):
            described = (before if changed.has_old_schema else None) or current
            if described.schema_string not in checked:
                check_readable_as(end, described, version)
                checked.add(described.schema_string)
            if changed.has_old_schema:
                changed = with_complete_removes(changed, store, version, bool(described.partition_columns))
            files = _with_commit_values(changed, version, time)
            parts.append(_Part(files, partition_columns_as(end, described), changed.change is None))
        before = current
    return ChangeFeed(end, tuple(parts))


def _key(part: _Part) -> object:
    return part.partition_columns, part.in_rows


def _metadata_before(store: ObjectStore, commit: CommitActions) -> Metadata | None:
    """The metadata before a commit; None: there was no metadata, or the commit's changes do not need it."""
    if commit.version == 0 or (commit.metadata is not None and not len(commit.removes)):
        return None
    if commit.metadata is not None:
        return load_snapshot(store, commit.version - 1).metadata
    return load_snapshot(store, commit.version).metadata


def _no_feed(store: ObjectStore, version: int) -> DeltaProtocolError:
    return DeltaProtocolError(
        f"the table has no change data feed at version {version}: delta.enableChangeDataFeed was not true, so updates "
        "cannot be distinguished from deletes and inserts",
        table=store.root,
        version=version,
        hint="Read versions at which the property was true, or compare two versions of the table",
        code="DELTA_CHANGE_DATA_NOT_RECORDED",
    )


def _with_commit_values(changed: ChangedFiles, version: int, time: int) -> pa.Table:
    """The files, with the commit's version and time and the kind of change as partition values."""
    moment = datetime.fromtimestamp(time // 1000, UTC).replace(tzinfo=None) + timedelta(milliseconds=time % 1000)
    stamps = {COMMIT_VERSION: str(version), COMMIT_TIMESTAMP: moment.isoformat() + "Z"}
    if changed.change is not None:
        stamps[CHANGE_TYPE] = changed.change
    index = FILE_SCHEMA.get_field_index("partitionValues")
    values = _with_entries(changed.files["partitionValues"].combine_chunks(), stamps)
    return changed.files.set_column(index, FILE_SCHEMA.field(index), values)


def _with_entries(maps: pa.MapArray, more: Mapping[str, str]) -> pa.MapArray:
    """Each map with these entries added; a null map gets only these entries."""
    # Arrow's list functions do not accept maps.
    lists = maps.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    old = pc.list_flatten(lists)
    count = len(more)
    starts = np.concatenate([[0], np.cumsum(lengths + count)])
    # In each map, the added entries follow the old entries.
    take = np.tile(len(old) + np.arange(count), (len(maps), 1))
    order = np.empty(starts[-1], dtype=np.int64)
    added = (starts[1:] - count)[:, None] + np.arange(count)
    order[added.ravel()] = take.ravel()
    is_own = np.ones(starts[-1], dtype=bool)
    is_own[added.ravel()] = False
    order[is_own] = np.arange(len(old))
    keys = pa.concat_arrays([pc.struct_field(old, 0), pa.array(list(more), pa.string())])
    items = pa.concat_arrays([pc.struct_field(old, 1), pa.array(list(more.values()), pa.string())])
    offsets = pa.array(starts, pa.int32())
    return pa.MapArray.from_arrays(offsets, keys.take(pa.array(order)), items.take(pa.array(order)))


def read_changes(feed: ChangeFeed, engine: Engine, columns: Sequence[str] | None, predicate: Predicate | None) -> Any:
    """The rows of the feed for which ``predicate`` is true.

    Args:
        columns: names of columns of ``feed.schema``; None: all.
        predicate: None: all rows.

    Returns:
        From the Arrow engine a ``pa.RecordBatchReader``, in the order of the commits and in bounded memory; from Spark
        a DataFrame without an order.
    """
    if engine.name == "spark":
        frames = [engine.read(table, columns, predicate) for table in feed.by_file()]
        return reduce(lambda left, right: left.unionAll(right), frames)
    tables = feed.in_order()
    first = engine.read(tables[0], columns, predicate)
    return pa.RecordBatchReader.from_batches(first.schema, _batches(first, tables[1:], engine, columns, predicate))


def _batches(
    first: pa.RecordBatchReader,
    tables: Sequence[Snapshot],
    engine: Engine,
    columns: Sequence[str] | None,
    predicate: Predicate | None,
) -> Iterator[pa.RecordBatch]:
    yield from first
    for table in tables:
        yield from engine.read(table, columns, predicate)
