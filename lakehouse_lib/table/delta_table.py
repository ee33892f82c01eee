"""``DeltaTable``: a table at a version, with the methods of the ``deltalake`` package."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakehouse_lib.log import latest_version
from lakehouse_lib.schema import Schema, StructType
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from lakehouse_lib.table.arguments.positional import also_by_position
from lakehouse_lib.table.arguments.predicates import check_label, check_predicate_text
from lakehouse_lib.table.deltalake_metrics import delete_metrics, update_metrics
from lakehouse_lib.table.upkeep import UpkeepTable
from lakehouse_lib.transaction.commit_properties import CommitProperties, commit_properties_of

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine
    from lakehouse_lib.engine.writer_properties import WriterProperties
    from lakehouse_lib.operations.write.add_actions import AddAction
    from lakehouse_lib.operations.write.file_actions import RemoveAction
    from lakehouse_lib.operations.write.planned_write import Mode
    from lakehouse_lib.table.description import Filters
    from lakehouse_lib.table.verbs.alterer import TableAlterer
    from lakehouse_lib.table.verbs.merger import TableMerger
    from lakehouse_lib.table.verbs.optimizer import TableOptimizer
    from lakehouse_lib.transaction.hook_properties import PostCommitHookProperties

logger = logging.getLogger(__name__)


class DeltaTable(UpkeepTable):
    """A table, open at a version. Reads read this version. A verb that changes the table moves to the new version.

    Arguments of several verbs: ``writer_properties`` sets how the Parquet files are written; ``commit_properties`` sets
    custom metadata and application transactions of the commit; ``post_commithook_properties`` sets which hooks run
    after the commit.

    Args:
        table_uri: a path, a ``file:`` URI, or a location of another store (docs/stores.md).
        version: the version to open; default: the latest.
        storage_options: the options of the store (docs/stores.md).
        without_files, log_buffer_size, skip_stats: ignored with a DeprecationWarning, as in ``deltalake``. Files and
            statistics are read on first use.
        timestamp: open the latest version that was committed at or before this time (without a zone: UTC), instead of
            ``version``.
        engine: the execution engine; default: ``ArrowEngine()``, this process. ``SparkEngine(spark)`` runs the same
            verbs on a cluster.

    Raises:
        TableNotFoundError: the location has no table.
        VersionNotFoundError: the version or time does not exist, or was cleaned up.
        LogCorruptedError: a file of the log is missing or not valid.
        UnsupportedFeatureError: the table uses a feature that this library cannot read.
    """

    def __init__(
        self,
        table_uri: str | os.PathLike[str],
        version: int | None = None,
        storage_options: dict[str, str] | None = None,
        without_files: bool = False,
        log_buffer_size: int | None = None,
        skip_stats: bool = False,
        *,
        timestamp: datetime | None = None,
        engine: Engine | None = None,
    ) -> None:
        ignored = {
            "without_files": without_files,
            "log_buffer_size": log_buffer_size is not None,
            "skip_stats": skip_stats,
        }
        for name in (name for name, is_given in ignored.items() if is_given):
            warnings.warn(f"{name} is deprecated and ignored", DeprecationWarning, stacklevel=2)
        store = open_store(table_uri, storage_options)
        super().__init__(store, load_snapshot(store, version, timestamp=timestamp), engine)

    @classmethod
    @also_by_position("commit_properties", "post_commithook_properties", "raise_if_key_not_exists")
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
        post_commithook_properties: PostCommitHookProperties | None = None,
        raise_if_key_not_exists: bool = True,
        cluster_by: Sequence[str] | str | None = None,
    ) -> DeltaTable:
        """Create a table without rows, and open it.

        Args:
            schema: a Delta ``Schema`` or ``StructType``, or an Arrow schema.
            mode: if the table exists, "error" and "append" raise, "ignore" only opens it, and "overwrite" removes all
                rows and replaces the schema, the partitioning and the properties.
            partition_by, name, description, configuration, storage_options: as in ``write_deltalake``.
            raise_if_key_not_exists: refuse properties that begin with ``delta.`` and are not known.
            cluster_by: the columns by which ``optimize.z_order()`` clusters the table, as in ``alter.cluster_by``.

        Raises:
            InvalidArgumentError: the table exists, or an argument is not valid.
            DeltaError: as ``operations.write.create.create_table``.
        """
        from lakehouse_lib.operations.write.create import create_table

        store = open_store(table_uri, storage_options)
        properties = commit_properties_of(commit_properties, post_commithook_properties, table=store.root)
        create_table(
            store,
            Schema(schema.fields) if isinstance(schema, StructType) else Schema.from_arrow(schema),
            mode=mode,
            partition_by=[partition_by] if isinstance(partition_by, str) else partition_by,
            name=name,
            description=description,
            configuration=configuration,
            cluster_by=[cluster_by] if isinstance(cluster_by, str) else cluster_by,
            known_only=raise_if_key_not_exists,
            commit_properties=properties,
        )
        return cls(table_uri, storage_options=storage_options)

    @staticmethod
    def is_deltatable(table_uri: str | os.PathLike[str], storage_options: dict[str, str] | None = None) -> bool:
        """Whether the location has a table: a log with a commit or a checkpoint."""
        return latest_version(open_store(table_uri, storage_options)) is not None

    # Verbs.

    @also_by_position("post_commithook_properties", "commit_properties")
    def delete(
        self,
        predicate: str | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        label: str | None = None,
        rewrite: bool = False,
    ) -> dict[str, Any]:
        """Delete the rows for which ``predicate`` is true (None: all rows). Rows for which it is NULL stay.

        If ``delta.enableDeletionVectors`` is true, the delete writes deletion vectors, and rewrites no data file.

        Args:
            rewrite: copy the remaining rows to new files even if this property is true, so that no file of the new
                version has a deleted row. Erasures use this.
            label: text of 1 to 200 characters that the history, commitInfo and errors show instead of the predicate.
                The log keeps the predicate of a delete as long as the commit (``delta.logRetentionDuration``). A label
                such as ``"erasure 7f3a"`` keeps a person's keys out of the log.

        Returns:
            ``deltalake``'s metrics, ``num_deletion_vectors`` (the number of files that got a deletion vector) and
            ``version``, the table's version after the delete. ``num_deleted_rows`` is None if a file without
            statistics is removed with all rows.

        Raises:
            InvalidArgumentError: the predicate or the label is not text, the label is empty or too long, or a label is
                given without a predicate.
            DeltaError: as ``operations.dml.delete``.
        """
        from lakehouse_lib.engine.writer_properties import check_writer_properties
        from lakehouse_lib.operations.dml.delete import delete

        check_predicate_text(predicate, table=self.table_uri)
        check_label(label, predicate, table=self.table_uri)
        check_writer_properties(writer_properties, table=self.table_uri)
        properties = commit_properties_of(commit_properties, post_commithook_properties, table=self.table_uri)
        latest = self._latest()
        result = delete(
            latest,
            self._predicate(predicate, label),
            self.engine,
            rewrite=rewrite,
            writer_properties=writer_properties,
            commit_properties=properties,
        )
        self._move_on(result.version)
        return delete_metrics(result)

    @also_by_position("post_commithook_properties", "commit_properties")
    def update(
        self,
        updates: Mapping[str, str] | None = None,
        new_values: Mapping[str, Any] | None = None,
        predicate: str | None = None,
        writer_properties: WriterProperties | None = None,
        error_on_type_mismatch: bool = True,  # noqa: ARG002
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Set columns to new values in the rows for which ``predicate`` is true (None: all rows).

        Rows for which ``predicate`` is NULL stay.

        Args:
            updates: column -> SQL expression, such as ``{"price": "price * 2"}``. An expression may use the old values
                of all columns.
            new_values: column -> Python value, such as ``{"name": "Ann"}``; instead of ``updates``.
            error_on_type_mismatch: ignored. A value that does not fit its column is always an error.

        Returns:
            ``deltalake``'s metrics, ``num_deletion_vectors`` (the number of files that got a deletion vector) and
            ``version``, the table's version after the update.

        Raises:
            InvalidArgumentError: neither or both of ``updates`` and ``new_values`` are given, a column does not exist
                or is named twice, or the predicate is not text.
            InvalidPredicateError: an expression or the predicate is not valid, or the engine cannot evaluate it.
            DeltaError: as ``operations.dml.update``.
        """
        from lakehouse_lib.engine.writer_properties import check_writer_properties
        from lakehouse_lib.operations.dml.update import update
        from lakehouse_lib.table.arguments.assignments import check_assignments, update_values

        table = self.table_uri
        check_assignments(updates, new_values, table=table)
        check_predicate_text(predicate, table=table)
        check_writer_properties(writer_properties, table=table)
        properties = commit_properties_of(commit_properties, post_commithook_properties, table=table)
        latest = self._latest()
        result = update(
            latest,
            update_values(updates, new_values, latest),
            self._predicate(predicate),
            self.engine,
            writer_properties=writer_properties,
            commit_properties=properties,
        )
        self._move_on(result.version)
        return update_metrics(result)

    @also_by_position("post_commithook_properties", "commit_properties")
    def merge(
        self,
        source: Any,
        predicate: str,
        source_alias: str | None = None,
        target_alias: str | None = None,
        merge_schema: bool = False,
        error_on_type_mismatch: bool = True,  # noqa: ARG002
        writer_properties: WriterProperties | None = None,
        streamed_exec: bool = True,  # noqa: ARG002
        max_spill_size: int | None = None,  # noqa: ARG002
        max_temp_directory_size: int | None = None,  # noqa: ARG002
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> TableMerger:
        """Prepare a merge of a source into the table. Add clauses to the result, then call its ``execute()``.

        Args:
            source: data as in ``write_deltalake``. It is read into memory, even if it is a Spark DataFrame.
            predicate: the SQL condition for matching rows, such as ``target.id = source.id``.
            source_alias, target_alias: names of the source and of the table in SQL; default ``source`` and ``target``.
            merge_schema: the table gets the columns and nested fields that only the source has, if a clause assigns a
                value to them.
            error_on_type_mismatch: ignored. A value that does not fit its column is always an error.
            streamed_exec, max_spill_size, max_temp_directory_size: ignored. They tune how ``deltalake`` executes.

        Raises:
            InvalidPredicateError: the predicate is not valid.
            InvalidArgumentError: the source cannot be read, or another argument is not valid.
        """
        from lakehouse_lib.engine.writer_properties import check_writer_properties
        from lakehouse_lib.table.verbs.merger import TableMerger

        check_writer_properties(writer_properties, table=self.table_uri)
        properties = commit_properties_of(commit_properties, post_commithook_properties, table=self.table_uri)
        aliases = (target_alias or "target", source_alias or "source")
        return TableMerger(self, source, predicate, aliases, merge_schema, writer_properties, properties)

    @also_by_position("commit_properties", "post_commithook_properties")
    def create_write_transaction(
        self,
        actions: Sequence[AddAction | RemoveAction],
        mode: str,
        schema: Any,
        partition_by: list[str] | str | None = None,
        partition_filters: Filters | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Commit files that another program has written, in one commit. No data file is read.

        Args:
            actions: an ``AddAction`` for each new file. A ``RemoveAction`` removes a file, with mode "append" only.
            mode: "append"; or "overwrite", which removes all other files, or with ``partition_filters`` the files of
                these partitions.
            schema: the schema of the new files, as a Delta ``Schema`` or ``StructType``, or an Arrow schema. The files
                are not compared with it. After an overwrite of all rows, the table has this schema.
            partition_by: None, or the partition columns of the table.
            partition_filters: filters or SQL on partition columns; they must be true for the new files.

        Raises:
            DeltaError: as ``operations.write.file_actions.commit_actions``.
        """
        from lakehouse_lib.operations.write.file_actions import commit_actions

        properties = commit_properties_of(commit_properties, post_commithook_properties, table=self.table_uri)
        result = commit_actions(
            self._latest(),
            actions,
            mode,
            Schema(schema.fields) if isinstance(schema, StructType) else Schema.from_arrow(schema),
            partition_by=[partition_by] if isinstance(partition_by, str) else partition_by,
            predicate=self._predicate(partition_filters),
            commit_properties=properties,
        )
        self._move_on(result.version)

    @property
    def optimize(self) -> TableOptimizer:
        """The verbs ``compact()``, ``z_order(columns)``, ``purge()`` and ``statistics()``."""
        from lakehouse_lib.table.verbs.optimizer import TableOptimizer

        return TableOptimizer(self)

    @property
    def alter(self) -> TableAlterer:
        """The verbs that change columns, constraints, properties and features, such as ``add_constraint``."""
        from lakehouse_lib.table.verbs.alterer import TableAlterer

        return TableAlterer(self)

    def clone(
        self,
        target: str | os.PathLike[str],
        *,
        is_shallow: bool = False,
        storage_options: dict[str, str] | None = None,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> DeltaTable:
        """Create a new table with the rows of the open version, and return it; see ``operations.clone.clone``.

        Args:
            target: an empty location.
            is_shallow: refer to the files of this table instead of copying them. Readers of the clone need the storage
                option ``allowed_roots`` with the location of this table. The returned table has this option.
            storage_options: the options of the target's store.
        """
        from lakehouse_lib.operations.clone.clone import clone
        from lakehouse_lib.store.schemes import with_allowed_root

        properties = commit_properties_of(commit_properties, post_commithook_properties, table=self.table_uri)
        location = os.fspath(target)
        options = with_allowed_root(location, storage_options, self.store.root) if is_shallow else storage_options
        store = open_store(location, options)
        clone(self._snapshot, store, self.engine, is_shallow=is_shallow, commit_properties=properties)
        return DeltaTable(location, storage_options=options, engine=self.engine)
