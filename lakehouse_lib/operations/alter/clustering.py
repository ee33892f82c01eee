"""Change the columns by which a table is clustered (ALTER TABLE ... CLUSTER BY). No data file is read or written."""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.features import with_features
from lakehouse_lib.features.file_layout import clustering
from lakehouse_lib.operations.alter.metadata_change import commit_change
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.protocol.actions import DomainMetadata
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties


def plan_cluster_by(snapshot: Snapshot, columns: Sequence[str]) -> DomainMetadata:
    """The domain metadata with these clustering columns. Reads no data file.

    Raises:
        InvalidArgumentError: a column cannot be a clustering column, or files have no statistics of it; there are more
            than four; or the table has partition columns.
    """
    table = snapshot.store.root
    domain = clustering.clustering_domain(columns, snapshot.layout, snapshot.configuration, table=table)
    if not columns:
        return domain
    counts = clustering.null_counts(
        clustering.physical_columns({domain.domain: domain}, table=table, version=snapshot.version)
    )
    missing = int(counts.without_counts(snapshot.statistics(counts, ())[0]).sum())
    if missing:
        raise InvalidArgumentError(
            f"{missing} of {snapshot.file_count} files have no statistics of {', '.join(columns)}; expected "
            "statistics in each file of a clustered table",
            table=table,
            version=snapshot.version,
            hint="First call optimize.statistics(), which computes them",
            code="DELTA_CLUSTERING_COLUMN_MISSING_STATS",
        )
    return domain


def cluster_by(
    snapshot: Snapshot, columns: Sequence[str] | None, *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Set the columns by which ``z_order`` clusters the table. Existing files stay until the next ``z_order``.

    The protocol gets the writer features clustering and domainMetadata. If the table is already clustered by these
    columns, nothing is committed.

    Args:
        columns: at most four columns; None or []: the table is not clustered any more. The features stay.

    Raises:
        InvalidArgumentError: as ``plan_cluster_by``.
        ConcurrentTransactionError: another writer changed the clustering columns first.
        MetadataChangedError: another writer changed the metadata first.
    """
    snapshot.check_writable()
    domain = plan_cluster_by(snapshot, () if columns is None else columns)
    before = snapshot.clustering_columns
    after = tuple((snapshot.field(name).name,) for name in columns or ())
    if after == before:
        return OperationResult(snapshot.store.root, snapshot.version, None)
    is_clustered = clustering.FEATURE.is_supported(snapshot.protocol)
    return commit_change(
        snapshot,
        "CLUSTER BY",
        {
            "oldClusteringColumns": clustering.columns_text(before),
            "newClusteringColumns": clustering.columns_text(after),
        },
        protocol=None if is_clustered else with_features(snapshot.protocol, [clustering.FEATURE.name]),
        domains=(domain,),
        commit_properties=commit_properties,
    )
