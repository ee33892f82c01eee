"""The deletion of unneeded files between ``VACUUM START`` and ``VACUUM END``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.errors import DeltaError, StoreError
from lakehouse_lib.log import clock
from lakehouse_lib.log.retention.tombstones import drop_expired
from lakehouse_lib.log.segment import LISTING_WAITS
from lakehouse_lib.operations.files import total_size
from lakehouse_lib.operations.upkeep.unneeded_files.plan import referenced_paths
from lakehouse_lib.operations.upkeep.unneeded_files.recorded_files import RecordedFiles, recorded_files
from lakehouse_lib.operations.upkeep.unneeded_files.scan import ScannedFolder
from lakehouse_lib.progress import Counter
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import CommitProperties, OptimisticTransaction, version_of
from lakehouse_lib.transaction.commit_properties import without_transactions

#: The most files that are reported and deleted at once.
DELETED_AT_ONCE = 100_000
_MOST_NAMED = 100_000
_PATHS_OF_A_REQUEST = 1_000


@dataclass
class Deletion:
    """A vacuum that deletes files.

    Attributes:
        planned: the version from which it was planned.
        moment: the time from which the retention counts back, in ms since the epoch.
        cutoff: the retention before ``moment``, in ms since the epoch. Files that were removed later are kept.
        checks_clock: whether ``moment`` is this machine's clock, which must not be ahead of the store's.
        parameters: the operationParameters of VACUUM START.
        commit_properties: the properties of both commits; only VACUUM START has the application transactions.
        before_deletion: called with the files to delete (OBJECT_SCHEMA) before each deletion.
        files_per_second: the largest number of files deleted per second; None: no limit.
        counter: counts the deleted files; None: nothing is counted.
        latest: a version after VACUUM START was committed; None: it was not committed yet.
        recorded: the files that pins and clones needed before the last deletion; None: nothing was deleted yet.
        kept_versions: the versions that pins and clones needed before each deletion.
        deleted: how many files were deleted.
        deleted_bytes: the bytes of these files.
    """

    planned: Snapshot
    moment: int
    cutoff: int
    checks_clock: bool
    parameters: dict[str, object]
    commit_properties: CommitProperties | None
    before_deletion: Callable[[pa.Table], object] | None
    files_per_second: float | None
    counter: Counter | None = None
    latest: Snapshot | None = None
    recorded: RecordedFiles | None = None
    kept_versions: set[int] = field(default_factory=set)
    deleted: int = 0
    deleted_bytes: int = 0

    def delete(self, objects: pa.Table, metrics: Mapping[str, Any]) -> pa.Table:
        """Delete the objects that are still unneeded, and return them.

        The first call commits VACUUM START.

        Args:
            objects: the objects that the plan deletes (OBJECT_SCHEMA).
            metrics: the operationMetrics of VACUUM START.

        Raises:
            RetentionError: this machine's clock is ahead of the store's; nothing is deleted.
        """
        self.latest = self._start(metrics) if self.latest is None else self.latest.update()
        self.recorded = recorded_files(self.planned.store, self.moment, self.cutoff)
        self.kept_versions |= self.recorded.versions
        changed = self.latest if self.latest.version > self.planned.version + 1 else None
        objects = still_unneeded(objects, changed, self.recorded.paths, self.cutoff)
        if self.before_deletion is not None:
            self.before_deletion(objects)
        delete_files(self.planned.store, objects, self.files_per_second, self.counter)
        self.deleted += len(objects)
        self.deleted_bytes += total_size(objects)
        return objects

    def end(self, metrics: Mapping[str, Any]) -> int | None:
        """Commit VACUUM END, and return its version; None if nothing was deleted."""
        if self.latest is None:
            return None
        metrics = {"numDeletedFiles": self.deleted, **metrics}
        return self._end(self.latest.update(), "COMPLETED", metrics)

    def fail(self) -> None:
        """Commit VACUUM END of a vacuum that an error has stopped, so that it does not count as running."""
        if self.latest is not None:
            with suppress(DeltaError):  # the caller raises the error that stopped the vacuum
                self._end(self.latest.update(), "FAILED", {"numDeletedFiles": self.deleted})

    def _start(self, metrics: Mapping[str, Any]) -> Snapshot:
        """Commit VACUUM START, and load the latest version."""
        local_time = max(self.moment, clock.now())
        version = self._log(self.planned, "VACUUM START", self.parameters, metrics, self.commit_properties)
        self.latest = started = self.planned.update()  # from here on, ``fail`` commits VACUUM END
        for wait in LISTING_WAITS:
            if started.version >= version:
                break
            time.sleep(wait)  # a stale listing may also lack commits between the plan and VACUUM START
            self.latest = started = started.update()
        if started.version < version:
            raise StoreError(
                f"the listing of the log ends at version {started.version}; expected the new version {version}",
                table=started.store.root,
                version=version,
                hint="Nothing was deleted. Run it again",
            )
        if self.checks_clock:
            clock.check(started.store, local_time, started.modified)
        return started

    def _end(self, snapshot: Snapshot, status: str, metrics: Mapping[str, Any]) -> int:
        properties = without_transactions(self.commit_properties)
        return self._log(snapshot, "VACUUM END", {"status": status}, metrics, properties)

    def _log(
        self,
        snapshot: Snapshot,
        operation: str,
        parameters: dict[str, object],
        metrics: Mapping[str, Any],
        properties: CommitProperties | None,
    ) -> int:
        transaction = OptimisticTransaction(snapshot, snapshot.store, operation, parameters)
        transaction.metrics.update(metrics)
        return version_of(transaction.commit(properties))


@dataclass
class Outcome:
    """The files that a vacuum has deleted, or would delete in a dry run.

    Attributes:
        deletion: deletes the files.
        dry_run: whether nothing is deleted.
        count: how many files the plan deletes.
        size: the bytes of these files.
        paths: the first 100,000 paths.
        folders: the folders that contain an object.
    """

    deletion: Deletion
    dry_run: bool
    count: int = 0
    size: int = 0
    paths: list[str] = field(default_factory=list)
    folders: set[str] = field(default_factory=set)
    _pending: list[pa.Table] = field(default_factory=list)

    def take(self, folder: ScannedFolder) -> None:
        """Count the unneeded files of a folder. Whenever 100,000 files wait for deletion, delete them."""
        self.folders |= folder.facts.folders
        for objects in folder.unneeded():
            self.count += len(objects)
            self.size += total_size(objects)
            self._pending.append(objects)
            if sum(map(len, self._pending)) >= DELETED_AT_ONCE:
                self._flush({})

    def finish(self, changed: Snapshot | None) -> None:
        """Delete the files that still wait for deletion.

        Args:
            changed: the latest version, if other writers have committed since the plan was made; its files are kept.
        """
        nothing, cutoff = pa.chunked_array([], pa.string()), self.deletion.cutoff
        pending = [still_unneeded(objects, changed, nothing, cutoff) for objects in self._pending]
        self.count -= sum(map(len, self._pending)) - sum(map(len, pending))
        self.size -= sum(map(total_size, self._pending)) - sum(map(total_size, pending))
        self._pending = pending
        if any(map(len, pending)):
            self._flush({"numFilesToDelete": self.count, "sizeOfDataToDelete": self.size})

    def _flush(self, metrics: Mapping[str, Any]) -> None:
        objects = pa.concat_tables(self._pending).sort_by("path")
        self._pending = []
        for position in range(0, len(objects), DELETED_AT_ONCE):
            batch = objects.slice(position, DELETED_AT_ONCE)
            if not self.dry_run:
                batch = self.deletion.delete(batch, metrics)
            self.paths += batch["path"].slice(0, _MOST_NAMED - len(self.paths)).to_pylist()


def still_unneeded(objects: pa.Table, changed: Snapshot | None, recorded: pa.ChunkedArray, cutoff: int) -> pa.Table:
    """The objects of a plan that no later commit, clone or pin needs.

    Args:
        changed: the latest version, if other writers have committed since the plan was made.
        recorded: the paths that pins and clones need now.
        cutoff: ms since the epoch; files that were removed later are needed.
    """
    needed = list(recorded.chunks)
    if changed is not None:
        tombstones = drop_expired(changed.tombstones, cutoff)
        needed += [*referenced_paths(changed.files, changed.store), *referenced_paths(tombstones, changed.store)]
    return objects.filter(pc.invert(pc.is_in(objects["path"], value_set=pa.chunked_array(needed, pa.string()))))


def delete_files(
    store: ObjectStore, objects: pa.Table, files_per_second: float | None = None, counter: Counter | None = None
) -> None:
    """Delete stored objects (OBJECT_SCHEMA).

    Args:
        files_per_second: the largest number of files deleted per second; None: no limit.
        counter: counts the deleted files.
    """
    if files_per_second is None:
        store.delete_many(objects["path"].to_pylist())
        if counter is not None:
            counter.add(len(objects), total_size(objects))
        return
    count = max(1, min(_PATHS_OF_A_REQUEST, int(files_per_second)))
    for position in range(0, len(objects), count):
        begun = time.monotonic()
        batch = objects.slice(position, count)
        store.delete_many(batch["path"].to_pylist())
        if counter is not None:
            counter.add(len(batch), total_size(batch))
        time.sleep(max(0.0, len(batch) / files_per_second - (time.monotonic() - begun)))
