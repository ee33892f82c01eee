"""The feature clustering: columns by which a table is clustered, in the domain delta.clustering (PROTOCOL.md, Clustered
Table).

The domain has the physical names of the columns. A clustered table has no partition columns, and all of its files have
statistics of the clustering columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import bools
from lakehouse_lib.errors import DeltaProtocolError, InvalidArgumentError, LogCorruptedError
from lakehouse_lib.features import column_mapping
from lakehouse_lib.features.feature import Feature, is_never_enabled
from lakehouse_lib.json_text import excerpt, parse_json
from lakehouse_lib.protocol.actions import DomainMetadata, Metadata, Protocol
from lakehouse_lib.protocol.table_properties import NUM_INDEXED_COLUMNS, STATS_COLUMNS
from lakehouse_lib.schema import DataType, Field, PrimitiveType, Schema, StructType, TableLayout
from lakehouse_lib.statistics import ColumnPath, WrittenStatistics, indexed_columns

FEATURE = Feature(
    "clustering",
    False,
    True,
    True,
    is_never_enabled,
    "z_order clusters by the clustering columns; it does not rewrite files that another engine has clustered",
    requires=("domainMetadata",),
)
DOMAIN = "delta.clustering"
#: The name of this library's clustering, as ``clusteringProvider`` of the files that it has clustered.
PROVIDER = "lakehouse"

_COLUMNS = "clusteringColumns"
#: The largest number of clustering columns, as in delta-spark.
_MOST_COLUMNS = 4
#: The types whose bounds all engines write, except decimals, whose names contain a precision. delta-spark requires that
#: clustering columns have bounds.
_ORDERED = frozenset(
    ("byte", "short", "integer", "long", "float", "double", "string", "date", "timestamp", "timestamp_ntz")
)
_UNCLUSTER = "alter.cluster_by(None)"


def clustering_domain(
    names: Sequence[str], layout: TableLayout, configuration: Mapping[str, str], *, table: str | None
) -> DomainMetadata:
    """The domain of a table that is clustered by these columns; no columns: the table is not clustered.

    Raises:
        InvalidArgumentError: a column is unknown, repeated, a member of a struct, of a type without bounds, or has no
            statistics by the table's properties; there are more than four; or the table has partition columns.
    """

    def error(problem: str, hint: str, code: str) -> InvalidArgumentError:
        return InvalidArgumentError(problem, table=table, hint=hint, code=code)

    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(
            f"the clustering columns are {excerpt(names)}; expected a list of column names",
            table=table,
            hint='Write ["customer", "day"]; None or [] removes the clustering columns',
        )
    if names and layout.partition_columns:
        raise error(
            f"the table is partitioned by {', '.join(layout.partition_columns)}; expected a table without partitions, "
            "because a clustered table has none",
            "Z-order the partitions by optimize.z_order(columns), or copy the rows into a table without partitions",
            code="DELTA_CLUSTER_BY_WITH_PARTITIONED_BY",
        )
    if len(names) > _MOST_COLUMNS:
        raise error(
            f"{len(names)} clustering columns are given; expected at most {_MOST_COLUMNS}, as in delta-spark",
            "Name the columns that queries filter by most often",
            code="DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS",
        )
    fields = [_column(name, layout, table) for name in names]
    if len({field.name for field in fields}) < len(fields):
        raise InvalidArgumentError(
            f"the clustering columns are {list(names)}; expected different names",
            table=table,
            hint="Name each column once",
        )
    indexed = indexed_columns(layout, configuration)
    for field in fields:
        if not _has_bounds(field.type):
            raise error(
                f"the column {field.name!r} has the type {field.type}; expected a number, text, a date or a timestamp",
                "Cluster by other columns",
                code="DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED",
            )
        if (field.name,) not in indexed:
            raise error(*_unindexed((field.name,)))
    return _domain([(layout.physical_name(field),) for field in fields])


def renamed_domain(
    domains: Mapping[str, DomainMetadata], before: TableLayout, after: TableLayout, *, table: str, version: int
) -> tuple[DomainMetadata, ...]:
    """The domain for a commit that changes the physical names of columns; empty if the table has no such domain.

    Args:
        domains: the table's domains before the commit.
        before, after: the layouts before and after the commit.
    """
    if DOMAIN not in domains:
        return ()
    paths = [_logical(before, path) for path in physical_columns(domains, table=table, version=version)]
    return (_domain([after.physical_path(path) for path in paths if path is not None]),)


def domain_after(
    domains: Mapping[str, DomainMetadata], following: Mapping[str, DomainMetadata] | None = None
) -> tuple[DomainMetadata, ...]:
    """The domain that a commit writes if it restores an older version or replaces the table; empty: it is unchanged.

    As in delta-spark, the domain of a clustered table is not removed: without clustering columns, it lists no column.

    Args:
        domains: the table's domains before the commit.
        following: the domains of the restored version; None: the commit replaces the table by one without clustering.
    """
    later = (following or {}).get(DOMAIN) or (_domain([]) if DOMAIN in domains else None)
    return () if later is None or later == domains.get(DOMAIN) else (later,)


def physical_columns(domains: Mapping[str, DomainMetadata], *, table: str, version: int) -> tuple[ColumnPath, ...]:
    """The physical paths of the clustering columns in a table's domains; empty if the domain is missing.

    Raises:
        LogCorruptedError: the domain is not valid.
    """
    domain = domains.get(DOMAIN)
    if domain is None or domain.removed:
        return ()
    try:
        body = parse_json(domain.configuration)
    except ValueError:
        body = None
    columns = body.get(_COLUMNS) if isinstance(body, dict) else None
    # Engines write a list of names for each column. The example of the protocol has a single name.
    paths = [_path(column) for column in columns] if isinstance(columns, list) else [None]
    valid = tuple(path for path in paths if path is not None)
    if len(valid) < len(paths):
        raise LogCorruptedError(
            f"the domain {DOMAIN} is {excerpt(domain.configuration)}; expected {_COLUMNS} as a list of names",
            table=table,
            version=version,
            hint="Restore the latest commit with this domain from a backup",
        )
    return valid


def clustering_columns(
    protocol: Protocol, domains: Mapping[str, DomainMetadata], layout: TableLayout, *, table: str, version: int
) -> tuple[ColumnPath, ...]:
    """The paths of the columns by which a table is clustered; empty if it is not clustered.

    Raises:
        LogCorruptedError: the domain is not valid.
    """
    if not FEATURE.is_supported(protocol):
        return ()
    paths = physical_columns(domains, table=table, version=version)
    return tuple(_logical(layout, path) or path for path in paths)


def check_commit(
    protocol: Protocol,
    metadata: Metadata,
    domains: Mapping[str, DomainMetadata],
    *,
    table: str,
    version: int,
) -> None:
    """Refuse a commit after which the table would break the rules of a clustered table.

    Args:
        protocol, metadata, domains: of the table after the commit.

    Raises:
        DeltaProtocolError: the table has partition columns; or a clustering column is not in the schema, or has no
            statistics by the table's properties.
    """
    if not FEATURE.is_supported(protocol):
        return

    def error(problem: str, hint: str, code: str) -> DeltaProtocolError:
        return DeltaProtocolError(problem, table=table, version=version, hint=hint, code=code)

    if metadata.partition_columns:
        raise error(
            f"the table is partitioned by {', '.join(metadata.partition_columns)} and has the feature clustering; "
            "expected only one of them",
            "First call alter.drop_feature('clustering')",
            "DELTA_CLUSTER_BY_WITH_PARTITIONED_BY",
        )
    paths = physical_columns(domains, table=table, version=version)
    if not paths:
        return
    mapping = column_mapping.mode_of(protocol, metadata, table=table)
    layout = TableLayout(Schema.from_json(metadata.schema_string), (), mapping)
    indexed = indexed_columns(layout, metadata.configuration)
    for path in paths:
        column = _logical(layout, path)
        if column is None:
            raise error(
                f"the clustering column {'.'.join(path)!r} is not in the schema; expected all clustering columns",
                f"First call {_UNCLUSTER}, or cluster by other columns",
                "DELTA_COLUMN_IN_USE",
            )
        if column not in indexed:
            raise error(*_unindexed(column))


def check_statistics(
    protocol: Protocol,
    domains: Mapping[str, DomainMetadata],
    added: pa.Table,
    live: Callable[[], pa.ChunkedArray],
    *,
    table: str,
    version: int,
) -> None:
    """Refuse new files of a clustered table without statistics of a clustering column.

    Args:
        added: a files table.
        live: returns the paths of the files before the commit. A commit may add these files again without statistics.

    Raises:
        DeltaProtocolError: a new file has no statistics of a clustering column.
    """
    paths = physical_columns(domains, table=table, version=version) if FEATURE.is_supported(protocol) else ()
    if not paths or not len(added):
        return
    counts = null_counts(paths)
    refused_paths = added["path"].filter(bools(counts.without_counts(counts.from_json(added["stats"]))))
    if len(refused_paths):
        refused_paths = refused_paths.filter(pc.invert(pc.is_in(refused_paths, value_set=live().combine_chunks())))
    if len(refused_paths):
        raise DeltaProtocolError(
            f"{len(refused_paths)} new files have no statistics of a clustering column; expected them in each file",
            table=table,
            version=version,
            hint="Enable the statistics of the clustering columns in the writer properties",
            code="DELTA_CLUSTERING_COLUMN_MISSING_STATS",
        )


def null_counts(paths: Sequence[ColumnPath]) -> WrittenStatistics:
    """The null counts of these columns, as a selection of statistics; each file with statistics has them."""
    members: dict[str, Any] = {}
    for path in paths:
        inner = members
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = None
    return WrittenStatistics(_longs(members), StructType([]))


def columns_text(paths: Iterable[ColumnPath]) -> str:
    """The columns as delta-spark writes them, such as ``a,b.c``."""
    return ",".join(".".join(path) for path in paths)


def _domain(paths: Sequence[ColumnPath]) -> DomainMetadata:
    body = {_COLUMNS: [list(path) for path in paths], "domainName": DOMAIN}
    return DomainMetadata(DOMAIN, json.dumps(body, separators=(",", ":"), ensure_ascii=False))


def _column(name: str, layout: TableLayout, table: str | None) -> Field:
    field = layout.schema.get(name)
    if field is not None:
        return field
    raise InvalidArgumentError(
        f"the column {name!r} does not exist; expected one of {', '.join(layout.schema.names)}",
        table=table,
        hint="Name columns; members of structs cannot be clustering columns in this library",
        code="DELTA_COLUMN_NOT_FOUND",
    )


def _has_bounds(kind: DataType) -> bool:
    return isinstance(kind, PrimitiveType) and (kind.type in _ORDERED or kind.type.startswith("decimal"))


def _unindexed(path: ColumnPath) -> tuple[str, str, str]:
    return (
        f"the clustering column {'.'.join(path)!r} has no statistics; expected a column with statistics",
        f"Add it to {STATS_COLUMNS.key}, or raise {NUM_INDEXED_COLUMNS.key}",
        "DELTA_CLUSTERING_COLUMN_MISSING_STATS",
    )


def _path(column: object) -> ColumnPath | None:
    parts = [column] if isinstance(column, str) else column
    if not isinstance(parts, list) or not parts or not all(isinstance(part, str) for part in parts):
        return None
    return tuple(parts)


def _logical(layout: TableLayout, path: ColumnPath) -> ColumnPath | None:
    """The names on a path of physical names; None if the schema has no such column."""
    names: list[str] = []
    kind: DataType = layout.schema
    for part in path:
        members = kind.fields if isinstance(kind, StructType) else ()
        field = next((member for member in members if layout.physical_name(member) == part), None)
        if field is None:
            return None
        names.append(field.name)
        kind = field.type
    return tuple(names)


def _longs(members: Mapping[str, Any]) -> StructType:
    return StructType(
        [Field(name, PrimitiveType("long") if inner is None else _longs(inner)) for name, inner in members.items()]
    )
