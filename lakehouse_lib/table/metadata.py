"""Metadata, protocol and features of a table, in the form of the ``deltalake`` package."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from lakehouse_lib.protocol import actions


@dataclass(frozen=True)
class Metadata:
    """The result of ``DeltaTable.metadata()``.

    ``created_time`` is in ms since the epoch, and ``configuration`` has the table properties.
    """

    id: str
    name: str | None
    description: str | None
    partition_columns: list[str]
    created_time: int | None
    configuration: dict[str, str]
    schema_string: str = field(repr=False)

    @classmethod
    def of(cls, action: actions.Metadata) -> Metadata:
        """The result for a metaData action."""
        return cls(
            action.id,
            action.name,
            action.description,
            list(action.partition_columns),
            action.created_time,
            dict(action.configuration),
            action.schema_string,
        )

    def __str__(self) -> str:
        shown = ("id", "name", "description", "partition_columns", "created_time", "configuration")
        return f"Metadata({', '.join(f'{name}: {getattr(self, name)}' for name in shown)})"


class ProtocolVersions(NamedTuple):
    """The result of ``DeltaTable.protocol()``: the protocol versions that readers and writers must support.

    ``reader_features`` is None below reader version 3, and ``writer_features`` is None below writer version 7, because
    such a protocol does not list them.
    """

    min_reader_version: int
    min_writer_version: int
    writer_features: list[str] | None
    reader_features: list[str] | None

    @classmethod
    def of(cls, action: actions.Protocol) -> ProtocolVersions:
        """The result for a protocol action."""
        writers, readers = (
            sorted(features) if features is not None else None
            for features in (action.writer_features, action.reader_features)
        )
        return cls(action.min_reader_version, action.min_writer_version, writers, readers)


class TableFeatures(Enum):
    """Table features for ``alter.add_feature``, with the names of ``deltalake`` and the protocol's names as values."""

    AppendOnly = "appendOnly"
    ChangeDataFeed = "changeDataFeed"
    CheckConstraints = "checkConstraints"
    ColumnMapping = "columnMapping"
    DeletionVectors = "deletionVectors"
    DomainMetadata = "domainMetadata"
    GeneratedColumns = "generatedColumns"
    IcebergCompatV1 = "icebergCompatV1"
    IdentityColumns = "identityColumns"
    Invariants = "invariants"
    RowTracking = "rowTracking"
    TimestampNanos = "timestampNanos"
    TimestampWithoutTimezone = "timestampNtz"
    V2Checkpoint = "v2Checkpoint"
    VariantType = "variantType"
    VariantTypePreview = "variantType-preview"
