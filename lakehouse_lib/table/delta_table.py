"""``DeltaTable``: one table at one version, under the names that users of the ``deltalake`` package know."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakehouse_lib.errors import DeltaError, InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log import latest_version
from lakehouse_lib.log.history import moment_of
from lakehouse_lib.schema import Schema, StructType
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import open_store
from lakehouse_lib.table.deltalake_metrics import delete_metrics, optimize_metrics, repair_metrics
from lakehouse_lib.table.reading import ReadableTable
from lakehouse_lib.transaction.commit_properties import CommitProperties, check_commit_properties

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine
    from lakehouse_lib.operations.write.write import Mode
    from lakehouse_lib.table.reading import Filters

logger = logging.getLogger(__name__)


class DeltaTable(ReadableTable):
    """A table, open at a version. Reading and metadata stay at it; verbs that change the table move on.

    Args:
        table_uri: a path, a ``file:`` URI, or a location of another store (docs/stores.md).
        version: default the latest.
        storage_options: of the store (docs/stores.md).
        timestamp: instead of a version: the latest one committed at or before this time (without a zone: UTC).
        engine: who moves the bytes; default this process. ``SparkEngine(spark)`` runs the same verbs on the cluster.

    Raises:
        TableNotFoundError: no table there.
        VersionNotFoundError: a version or time that never was, or is cleaned up.
        LogCorruptedError, UnsupportedFeatureError: the table cannot be read right.
    """

    def __init__(
        self,
        table_uri: str | os.PathLike[str],
        version: int | None = None,
        storage_options: dict[str, str] | None = None,
        *,
        timestamp: datetime | None = None,
        engine: Engine | None = None,
    ) -> None:
        store = open_store(table_uri, storage_options)
        super().__init__(store, load_snapshot(store, version, timestamp=timestamp), engine)

    @classmethod
    def create(
        cls,
        table_uri: str | os.PathLike[str],
        schema: Any,
        mode: Mode = "error",
        partition_by: list[str] | str | None = None,
        name: str | None = None,
        description: str | None = None,
        configuration: Mapping[str, str | None] | None = None,
        storage_options: dict[str, str] | None = None,
        *,
        commit_properties: CommitProperties | None = None,
    ) -> DeltaTable:
        """Make an empty table.

        Args:
            schema: a Delta ``Schema`` or ``StructType``, or an Arrow schema.
            mode: for a table that is there: "error" and "append" raise, "ignore" opens it, "overwrite" empties it and
                gives it this schema.
            partition_by, name, description, configuration: as in ``write_deltalake``.
        """
        from lakehouse_lib.operations.write.create import create_table

        store = open_store(table_uri, storage_options)
        check_commit_properties(commit_properties, table=store.root)
        create_table(
            store,
            Schema(schema.fields) if isinstance(schema, StructType) else Schema.from_arrow(schema),
            mode=mode,
            partition_by=[partition_by] if isinstance(partition_by, str) else partition_by,
            name=name,
            description=description,
            configuration=configuration,
            commit_properties=commit_properties,
        )
        return cls(table_uri, storage_options=storage_options)

    @staticmethod
    def is_deltatable(table_uri: str | os.PathLike[str], storage_options: dict[str, str] | None = None) -> bool:
        """Whether there is a table: a log with a commit or a checkpoint."""
        return latest_version(open_store(table_uri, storage_options)) is not None

    # Moving to another version.

    def load_as_version(self, version: int | str | datetime) -> None:
        """Move to a version, or to the one of a time (a datetime, or ISO 8601 text; without a zone: UTC).

        Raises:
            VersionNotFoundError: there is no such version, or it was cleaned up.
            TableNotFoundError: the table was deleted, or deleted and created again, after it was opened.
        """
        if isinstance(version, str):
            version = moment_of(version, self.table_uri)
        if version is None:
            raise InvalidArgumentError(
                "the version None",
                table=self.table_uri,
                hint="update_incremental() moves to the latest version",
                code="DELTA_INVALID_VERSION",
            )
        self._snapshot.check_same_table()
        if isinstance(version, datetime):
            self._snapshot = load_snapshot(self.store, timestamp=version)
        else:
            self._snapshot = load_snapshot(self.store, version)

    def update_incremental(self) -> None:
        """Move to the latest version, reading new commits only."""
        self._snapshot = self._snapshot.update()

    # Verbs.

    def delete(
        self,
        predicate: str | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        label: str | None = None,
        rewrite: bool = False,
    ) -> dict[str, Any]:
        """Delete the rows for which ``predicate`` is true (None: all); rows for which it is NULL stay.

        Where ``delta.enableDeletionVectors`` is true, deletion vectors hide the rows, and no file is written again.

        Args:
            rewrite: copy the rows that stay, whatever the property says, so that no file of the new version holds a
                deleted row. An erasure deletes like this.
            label: text of 1 to 200 characters that the history, commitInfo and errors show in place of the predicate.
                The log keeps the predicate of a delete for as long as the commit (``delta.logRetentionDuration``); a
                label such as ``"erasure 7f3a"`` keeps the person's keys out of it.

        Returns:
            ``deltalake``'s metrics, ``num_deletion_vectors`` (files that got one) and ``version``, the table's version
            after it. ``num_deleted_rows`` is None when files that go whole have no statistics.

        Raises:
            InvalidArgumentError: a predicate or label that is not text, an empty or long label, one without predicate.
        """
        from lakehouse_lib.operations.dml.delete import delete

        if predicate is not None and not isinstance(predicate, str):
            # An empty list of filters would be no condition, and all rows would go.
            raise InvalidArgumentError(
                f"the predicate {predicate!r} is no text",
                table=self.table_uri,
                hint="Write it as SQL; None is all rows",
            )
        if label is not None and (predicate is None or not isinstance(label, str) or not 0 < len(label) <= 200):
            raise InvalidArgumentError(
                f"the label is {excerpt(label)}{'' if predicate is not None else ', and there is no predicate'}",
                table=self.table_uri,
                hint="Give a text of 1 to 200 characters together with a predicate, or leave the label out",
                code="DELTA_INVALID_COMMIT_PROPERTIES",
            )
        check_commit_properties(commit_properties, table=self.table_uri)
        latest = self._latest()
        result = delete(
            latest,
            self._predicate(predicate, label),
            self.engine,
            rewrite=rewrite,
            commit_properties=commit_properties,
        )
        self._move_on()
        return delete_metrics(result)

    @property
    def optimize(self) -> TableOptimizer:
        """``compact()`` and ``z_order(columns)``."""
        return TableOptimizer(self)

    def vacuum(
        self,
        retention_hours: float | None = None,
        dry_run: bool = True,
        enforce_retention_duration: bool = True,
    ) -> list[str]:
        """Delete files that no version within the retention needs; see ``operations.vacuum``. The files' paths."""
        from lakehouse_lib.operations.vacuum import vacuum

        result = vacuum(
            self._latest(),
            retention_hours=retention_hours,
            dry_run=dry_run,
            enforce_retention_duration=enforce_retention_duration,
        )
        self._move_on()
        return list(result.files)

    def create_checkpoint(self) -> None:
        """Write a checkpoint of the version that is open; see ``operations.checkpoint``. Commits write one by
        themselves every ``delta.checkpointInterval`` versions (10)."""
        from lakehouse_lib.operations.checkpoint import checkpoint

        checkpoint(self._snapshot)

    def cleanup_metadata(self, *, dry_run: bool = False, enforce_retention_duration: bool = True) -> list[str]:
        """Delete what of the log is older than ``delta.logRetentionDuration`` and no later version needs; see
        ``operations.cleanup``. The paths."""
        from lakehouse_lib.operations.cleanup import cleanup

        result = cleanup(self._latest(), dry_run=dry_run, enforce_retention_duration=enforce_retention_duration)
        return list(result.files)

    def repair(
        self,
        dry_run: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        before_repair: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Find what is wrong with the table and, unless ``dry_run``, mend it; see ``operations.repair``.

        A dry run needs no latest version that can be read, only the one that is open.

        Args:
            commit_properties: of the commit that removes missing files.
            before_repair: called once with the report, in the form that is returned, before anything is changed;
                nothing is changed when it raises. Not called in a dry run.

        Returns:
            ``files_removed`` and ``dry_run`` as ``deltalake`` has them (there, repairing is the default), and the other
            findings of ``operations.results.RepairResult``.
        """
        from lakehouse_lib.operations.repair import repair

        check_commit_properties(commit_properties, table=self.table_uri)
        result = repair(
            self._snapshot,
            dry_run=dry_run,
            commit_properties=commit_properties,
            before_repair=None if before_repair is None else lambda result: before_repair(repair_metrics(result)),
        )
        if not dry_run:
            self._move_on()
        return repair_metrics(result)

    def _latest(self) -> Snapshot:
        """Verbs work on the latest version, whichever the table is open at."""
        self._snapshot = self._snapshot.update()
        return self._snapshot

    def _move_on(self) -> None:
        """Show what a verb has done. If the store fails now, the verb has not failed: on an error it would be done
        again. The next verb begins on the latest version anyway."""
        try:
            self.update_incremental()
        except DeltaError as error:
            logger.warning("%s is still shown at version %d: %s", self.table_uri, self.version(), error)


class TableOptimizer:
    """``table.optimize``: rearrange the files of a table, keeping its rows."""

    def __init__(self, table: DeltaTable) -> None:
        self.table = table

    def compact(
        self,
        partition_filters: Filters | None = None,
        target_size: int | None = None,
        *,
        commit_properties: CommitProperties | None = None,
    ) -> dict[str, Any]:
        """Merge small files; see ``operations.compact``.

        Args:
            target_size: bytes.

        Returns:
            ``deltalake``'s metrics and ``version``, the table's version after it.
        """
        from lakehouse_lib.operations.optimize.compact import compact

        table = self.table
        check_commit_properties(commit_properties, table=table.table_uri)
        result = compact(
            table._latest(),
            table.engine,
            target_size=target_size,
            predicate=table._predicate(partition_filters),
            commit_properties=commit_properties,
        )
        table._move_on()
        return optimize_metrics(result)

    def z_order(
        self,
        columns: Iterable[str],
        partition_filters: Filters | None = None,
        target_size: int | None = None,
        *,
        full: bool = False,
        commit_properties: CommitProperties | None = None,
    ) -> dict[str, Any]:
        """Lay rows out so that queries on any of ``columns`` skip most files; see ``operations.cluster``.

        Files that are clustered by these columns stay as they are. ``full=True`` rewrites them, too: use it after
        many small runs, or when the distribution of the data has changed.

        Returns:
            as ``compact``, with ``numFilesAlreadyClustered`` (of the considered ones) and ``zOrderBy``.
        """
        from lakehouse_lib.operations.optimize.z_order import z_order

        table = self.table
        check_commit_properties(commit_properties, table=table.table_uri)
        result = z_order(
            table._latest(),
            table.engine,
            columns,
            target_size=target_size,
            predicate=table._predicate(partition_filters),
            full=full,
            commit_properties=commit_properties,
        )
        table._move_on()
        return optimize_metrics(result)
