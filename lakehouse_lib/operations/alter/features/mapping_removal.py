"""Remove the column mapping of a table: rewrite its files with logical column names (REMOVE COLUMN MAPPING)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet.reader import COPIED_COLUMNS
from lakehouse_lib.errors import CommitFailedError, InvalidSchemaError
from lakehouse_lib.features import column_mapping
from lakehouse_lib.features.file_layout import clustering
from lakehouse_lib.operations.files import discard, record_count, total_size
from lakehouse_lib.operations.optimize.compact import BIN, CompactTask, write_bins
from lakehouse_lib.operations.optimize.rewrite import rewrite_target
from lakehouse_lib.operations.optimize.z_order.tags import TAG_COLUMNS
from lakehouse_lib.operations.replanning import commit_change
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.protocol.actions import DomainMetadata, Metadata
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE
from lakehouse_lib.schema import Schema
from lakehouse_lib.schema.usable import all_names
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import OptimisticTransaction
from lakehouse_lib.transaction.commit_properties import CommitProperties

#: The characters that no column name of a table without column mapping may have, as in delta-spark.
_FORBIDDEN = " ,;{}()\n\t="


def plan_removal(snapshot: Snapshot) -> Metadata:
    """The metadata without column mapping. Reads no data.

    Raises:
        InvalidSchemaError: columns have names that only a table with column mapping can have.
    """
    invalid_names = [
        ".".join(path) for path in all_names(snapshot.schema) if set(_FORBIDDEN) & set(path[-1]) or "\0" in path[-1]
    ]
    if invalid_names:
        raise InvalidSchemaError(
            f"{COLUMN_MAPPING_MODE.key} cannot become none, because columns are named "
            f"{', '.join(map(repr, invalid_names))}; expected names without NUL and without any of {_FORBIDDEN!r}",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Rename the columns first, with alter.rename_column",
            code="DELTA_INVALID_COLUMN_NAME",
        )
    return column_mapping.without_mapping(snapshot.metadata)


def remove_mapping(
    snapshot: Snapshot, engine: Engine, *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Write every file again with logical column names, and commit the files and the metadata together.

    The new files have neither deleted rows nor values of dropped columns. The feature stays in the protocol. Older
    versions keep their column mapping. Change data of older versions cannot be read under the new names.

    Raises:
        InvalidSchemaError: as ``plan_removal``.
        DeltaError: a file cannot be read or written; the new files are deleted.
        CommitFailedError: another writer committed first; the new files are deleted.
    """
    started = time.monotonic()
    metadata = plan_removal(snapshot)
    source = snapshot.layout_with_row_ids()
    schema = Schema.from_json(metadata.schema_string)
    layout = replace(source, schema=schema, partition_columns=metadata.partition_columns, mapping="none")
    target = replace(rewrite_target(snapshot), layout=layout, configuration=metadata.configuration)
    files = snapshot.files
    copied = files.select([*COPIED_COLUMNS, *TAG_COLUMNS])
    tasks = [CompactTask(row, target, copied.take([row]), source) for row in range(len(files))]
    added = write_bins(engine, tasks).drop_columns([BIN]) if tasks else files
    table, version = snapshot.store.root, snapshot.version
    domains = clustering.renamed_domain(snapshot.domains, source, layout, table=table, version=version)
    change = _Removal(snapshot.store, metadata, domains, files, added, started)
    return OperationResult(snapshot.store.root, *commit_change(snapshot, change, commit_properties))


class _Removal:
    """The ``Change`` that replaces all files and the metadata. Any concurrent commit is a conflict."""

    replans: tuple[type[CommitFailedError], ...] = ()

    def __init__(
        self,
        store: ObjectStore,
        metadata: Metadata,
        domains: tuple[DomainMetadata, ...],
        removed: pa.Table,
        added: pa.Table,
        started: float,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._domains = domains
        self._removed = removed
        self._added = added
        self._started = started

    def plan(self, snapshot: Snapshot, lost: CommitFailedError | None) -> OptimisticTransaction:
        if lost is not None:
            raise lost
        return TableChange(
            "REMOVE COLUMN MAPPING",
            {},
            added=self._added,
            removed=self._removed,
            metadata=self._metadata,
            domains=self._domains,
            reads=(None,),
            moves_rows=True,
            keeps_row_ids=True,
            is_exclusive=True,
            metrics=self._metrics(),
        ).on(snapshot, snapshot.store)

    def discard(self, *, committed: bool) -> None:
        if not committed:
            discard(self._store, self._added)

    def _metrics(self) -> Mapping[str, Any]:
        """The operationMetrics, under delta-spark's names."""
        vectors = self._removed["deletionVector"]
        return {
            "numRewrittenFiles": len(self._removed),
            "numOutputBytes": total_size(self._added),
            "numRemovedBytes": total_size(self._removed),
            "numCopiedRows": record_count(self._added),
            "numDeletionVectorsRemoved": len(vectors) - vectors.null_count,
            "executionTimeMs": int((time.monotonic() - self._started) * 1000),
        }
