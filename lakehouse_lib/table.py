"""``DeltaTable``: one table at one version, under the names that users of the ``deltalake`` package know."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakehouse_lib.actions import CommitProperties, Metadata, Protocol
from lakehouse_lib.errors import InvalidArgumentError, TableNotFoundError
from lakehouse_lib.log import latest_version
from lakehouse_lib.log.history import history
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore, open_store

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads

    from lakehouse_lib.engine.base import Engine
    from lakehouse_lib.maintenance.health import Health
    from lakehouse_lib.operations.append import Mode
    from lakehouse_lib.predicates import Predicate

    Filter = tuple[str, str, Any]
    Filters = Sequence[Filter] | Sequence[Sequence[Filter]]


class DeltaTable:
    """A table, open at a version. Reading and metadata stay at it; verbs that change the table move on.

    Args:
        table_uri: a path, or a ``file:`` URI.
        version: default the latest.
        storage_options: of the store.
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
        self.store: ObjectStore = open_store(table_uri, storage_options)
        self._engine = engine
        self._snapshot = load_snapshot(self.store, version, timestamp=timestamp)

    def __repr__(self) -> str:
        return f"DeltaTable({self.table_uri!r}, version={self.version()})"

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
            schema: a Delta ``Schema``, or an Arrow one.
            mode: for a table that is there: "error" and "append" raise, "ignore" opens it, "overwrite" empties it and
                gives it this schema.
            partition_by, name, description, configuration: as in ``write_deltalake``.
        """
        from lakehouse_lib.operations.create import create_table

        store = open_store(table_uri, storage_options)
        create_table(
            store,
            schema if isinstance(schema, Schema) else Schema.from_arrow(schema),
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

    @property
    def table_uri(self) -> str:
        """The table's location, absolute."""
        return self.store.root

    @property
    def snapshot(self) -> Snapshot:
        """The version it is open at."""
        return self._snapshot

    @cached_property
    def engine(self) -> Engine:
        """Who moves the bytes."""
        if self._engine is not None:
            return self._engine
        from lakehouse_lib.engine.arrow import ArrowEngine

        return ArrowEngine()

    # Metadata: from the log alone.

    def version(self) -> int:
        return self._snapshot.version

    def schema(self) -> Schema:
        return self._snapshot.schema

    def metadata(self) -> Metadata:
        return self._snapshot.metadata

    def protocol(self) -> Protocol:
        return self._snapshot.protocol

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits still in the log, newest first: commitInfo with ``version`` and ``timestamp`` (ms)."""
        return history(self.store, limit)

    def transaction_version(self, app_id: str) -> int | None:
        """The last version that an application has committed, or None."""
        found = self._snapshot.transactions.get(app_id)
        return found.version if found is not None else None

    def detail(self) -> dict[str, Any]:
        """What DESCRIBE DETAIL tells: sizes in bytes, times in UTC."""
        from lakehouse_lib.operations.describe import detail

        return detail(self._snapshot)

    def health(self, *, target_file_size: int | None = None, clustered_by: Sequence[str] = ()) -> Health:
        """How the table fares, from the log alone; see ``maintenance.health``."""
        from lakehouse_lib.maintenance.health import health

        return health(self._snapshot, target_file_size=target_file_size, clustered_by=clustered_by)

    def files(self, predicate: str | Filters | None = None) -> pa.Table:
        """The live files that may hold a row for which ``predicate`` is true, as an Arrow table; no data is read."""
        return self._snapshot.prune(self._predicate(predicate))

    def file_uris(self, partition_filters: Filters | None = None) -> list[str]:
        """Absolute locations of the live files of these partitions."""
        from lakehouse_lib import file_paths

        files = self._snapshot.prune(self._predicate(partition_filters))
        return [f"{self.table_uri}/{path}" for path in file_paths.decode_all(files["path"], self.store).to_pylist()]

    def get_add_actions(self, flatten: bool = False) -> pa.Table:
        """One row a live file: path, size_bytes, modification_time (ms), num_records, null_count, min, max, partition.

        Args:
            flatten: a column ``min.x`` instead of a member ``x`` of a struct ``min``.
        """
        from lakehouse_lib.operations.describe import add_actions

        return add_actions(self._snapshot, flatten=flatten)

    def count(self) -> int:
        """Rows, by the statistics where every file has them, else by the files' footers."""
        from lakehouse_lib.operations.files import record_count

        counted = record_count(self._snapshot.files)
        return counted if counted is not None else int(self.to_pyarrow_dataset().count_rows())

    # Reading.

    def to_pyarrow_table(
        self,
        partitions: Sequence[Filter] | None = None,
        columns: list[str] | None = None,
        *,
        filters: str | Filters | pads.Expression | None = None,
    ) -> pa.Table:
        """The rows, by the Arrow engine.

        Args:
            partitions: conditions on partition columns, all of which hold: ``[("day", "=", "2026-01-01")]``.
            columns: default all, in the schema's order.
            filters: a SQL condition, conditions as in ``partitions`` or a list of such lists one of which holds, or a
                pyarrow expression.
        """
        import pyarrow.dataset as pads

        from lakehouse_lib.engine.arrow import ArrowEngine

        if isinstance(filters, pads.Expression):
            return self.to_pyarrow_dataset(partitions).to_table(columns=columns, filter=filters)
        predicate = self._conjunction(partitions, filters)
        engine = self.engine if isinstance(self.engine, ArrowEngine) else ArrowEngine()
        return engine.read(self._snapshot, columns, predicate).read_all()

    def to_pyarrow_dataset(self, partitions: Sequence[Filter] | None = None) -> pads.Dataset:
        """The live files as a dataset that knows their partition values; reads happen in pyarrow."""
        from lakehouse_lib.engine.dataset import dataset

        return dataset(self._snapshot, self._snapshot.prune(self._predicate(partitions)))

    def to_pandas(
        self,
        partitions: Sequence[Filter] | None = None,
        columns: list[str] | None = None,
        *,
        filters: str | Filters | pads.Expression | None = None,
    ) -> Any:
        """``to_pyarrow_table`` as a pandas frame."""
        return self.to_pyarrow_table(partitions, columns, filters=filters).to_pandas()

    def to_spark(self, spark: Any) -> Any:
        """This version as a DataFrame: Spark's own scan over exactly its files. The session's settings stay."""
        from lakehouse_lib.engine.spark import SparkEngine

        return SparkEngine(spark).read(self._snapshot, None, None)

    def load_as_version(self, version: int | str | datetime) -> None:
        """Move to a version, or to the one of a time (a datetime, or ISO 8601 text; without a zone: UTC)."""
        if isinstance(version, str):
            try:
                version = datetime.fromisoformat(version)
            except ValueError:
                raise InvalidArgumentError(
                    f"{version!r} is no time", table=self.table_uri, hint="Write it as 2026-01-31T12:00:00Z"
                ) from None
        if version is None:
            raise InvalidArgumentError(
                "the version None", table=self.table_uri, hint="update_incremental() moves to the latest version"
            )
        if isinstance(version, datetime):
            moment = version if version.tzinfo is not None else version.replace(tzinfo=UTC)
            self._snapshot = load_snapshot(self.store, timestamp=moment)
        else:
            self._snapshot = load_snapshot(self.store, version)

    def update_incremental(self) -> None:
        """Move to the latest version, reading new commits only."""
        self._snapshot = self._snapshot.update()

    # Verbs.

    def delete(
        self, predicate: str | None = None, *, commit_properties: CommitProperties | None = None
    ) -> dict[str, Any]:
        """Delete the rows for which ``predicate`` is true (None: all); rows for which it is NULL stay."""
        from lakehouse_lib.operations.delete import delete

        if predicate is not None and not isinstance(predicate, str):
            # An empty list of filters would be no condition, and all rows would go.
            raise InvalidArgumentError(
                f"the predicate {predicate!r} is no text",
                table=self.table_uri,
                hint="Write it as SQL; None is all rows",
            )
        latest = self._latest()
        metrics = delete(latest, self._predicate(predicate), self.engine, commit_properties=commit_properties)
        return self._moved(metrics)

    @property
    def optimize(self) -> TableOptimizer:
        return TableOptimizer(self)

    def vacuum(
        self,
        retention_hours: float | None = None,
        dry_run: bool = True,
        enforce_retention_duration: bool = True,
    ) -> list[str]:
        """Delete files that no version within the retention needs; see ``operations.vacuum``. The files' paths."""
        from lakehouse_lib.operations.vacuum import vacuum

        deleted = vacuum(
            self._latest(),
            retention_hours=retention_hours,
            dry_run=dry_run,
            enforce_retention_duration=enforce_retention_duration,
        )
        self.update_incremental()
        return deleted

    def create_checkpoint(self) -> None:
        """Write a checkpoint of this version."""
        from lakehouse_lib.operations.checkpoint import checkpoint

        checkpoint(self._snapshot)

    def _latest(self) -> Snapshot:
        """Verbs work on the latest version, whichever the table is open at."""
        self._snapshot = load_snapshot(self.store) if self._is_behind() else self._snapshot.update()
        return self._snapshot

    def _is_behind(self) -> bool:
        newest = latest_version(self.store)
        if newest is None:
            raise TableNotFoundError("the table is gone", table=self.table_uri, hint="Create it again")
        return newest > self._snapshot.version

    def _moved(self, metrics: dict[str, Any]) -> dict[str, Any]:
        self.update_incremental()
        return metrics

    def _predicate(self, condition: str | Filters | None) -> Predicate | None:
        from lakehouse_lib.predicates import from_filters, parse

        if condition is None or (not isinstance(condition, str) and not len(condition)):
            return None
        if isinstance(condition, str):
            return parse(condition, self._snapshot.schema, table=self.table_uri)
        return from_filters(
            condition,
            self._snapshot.schema,
            partition_columns=self._snapshot.partition_columns,
            table=self.table_uri,
        )

    def _conjunction(self, partitions: Sequence[Filter] | None, filters: str | Filters | None) -> Predicate | None:
        from lakehouse_lib.predicates import Predicate
        from lakehouse_lib.predicates.nodes import conjunction

        first, second = self._predicate(partitions), self._predicate(filters)
        if first is None or second is None:
            return first or second
        return Predicate(f"({first.sql}) AND ({second.sql})", conjunction([first.root, second.root]))


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
        """Merge small files; see ``operations.compact``. ``target_size`` in bytes."""
        from lakehouse_lib.operations.compact import compact

        table = self.table
        metrics = compact(
            table._latest(),
            table.engine,
            target_size=target_size,
            predicate=table._predicate(partition_filters),
            commit_properties=commit_properties,
        )
        return table._moved(metrics)

    def z_order(
        self,
        columns: Iterable[str],
        partition_filters: Filters | None = None,
        target_size: int | None = None,
        *,
        commit_properties: CommitProperties | None = None,
    ) -> dict[str, Any]:
        """Lay rows out so that queries on any of ``columns`` skip most files; see ``operations.cluster``."""
        from lakehouse_lib.operations.cluster import z_order

        table = self.table
        metrics = z_order(
            table._latest(),
            table.engine,
            columns,
            target_size=target_size,
            predicate=table._predicate(partition_filters),
            commit_properties=commit_properties,
        )
        return table._moved(metrics)
