"""The actions of the log (PROTOCOL.md, section Actions).

Data files are rows of an Arrow table (``FILE_SCHEMA``), because a table has many; every other action is a frozen
dataclass, because a table has few. ``from_json``/``to_json`` speak the log's names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakehouse_lib.errors import LogCorruptedError

DELETION_VECTOR = pa.struct(
    [
        pa.field("storageType", pa.string()),
        pa.field("pathOrInlineDv", pa.string()),
        pa.field("offset", pa.int32()),
        pa.field("sizeInBytes", pa.int32()),
        pa.field("cardinality", pa.int64()),
    ]
)

STRING_MAP = pa.map_(pa.string(), pa.string())

#: One row a data file, as in the log. Paths are encoded as in the log.
FILE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partitionValues", STRING_MAP),
        pa.field("size", pa.int64()),
        pa.field("modificationTime", pa.int64()),
        pa.field("dataChange", pa.bool_()),
        pa.field("stats", pa.string()),
        pa.field("tags", STRING_MAP),
        pa.field("deletionVector", DELETION_VECTOR),
        pa.field("baseRowId", pa.int64()),
        pa.field("defaultRowCommitVersion", pa.int64()),
        pa.field("clusteringProvider", pa.string()),
    ]
)

#: One row a file that was removed and is still remembered by the log.
TOMBSTONE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("deletionTimestamp", pa.int64()),
        pa.field("dataChange", pa.bool_()),
        pa.field("extendedFileMetadata", pa.bool_()),
        pa.field("partitionValues", STRING_MAP),
        pa.field("size", pa.int64()),
        pa.field("stats", pa.string()),
        pa.field("tags", STRING_MAP),
        pa.field("deletionVector", DELETION_VECTOR),
        pa.field("baseRowId", pa.int64()),
        pa.field("defaultRowCommitVersion", pa.int64()),
    ]
)

#: One row a change data file (PROTOCOL.md, section Add CDC File).
CHANGE_FILE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partitionValues", STRING_MAP),
        pa.field("size", pa.int64()),
        pa.field("tags", STRING_MAP),
    ]
)


@dataclass(frozen=True)
class Metadata:
    """metaData: what the table is.

    ``configuration`` holds the table properties (``delta.*``); ``created_time`` is ms since the epoch or None.
    """

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    created_time: int | None = None
    format_provider: str = "parquet"
    format_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Metadata:
        try:
            form = body.get("format") or {}
            return cls(
                id=str(body["id"]),
                schema_string=_typed(body, "schemaString", str),
                partition_columns=tuple(_typed(body, "partitionColumns", list)),
                configuration=dict(body.get("configuration") or {}),
                name=body.get("name"),
                description=body.get("description"),
                created_time=body.get("createdTime"),
                format_provider=form.get("provider", "parquet"),
                format_options=dict(form.get("options") or {}),
            )
        except (KeyError, AttributeError, ValueError) as error:
            raise LogCorruptedError(f"a metaData action without a valid {error}") from error

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "format": {"provider": self.format_provider, "options": dict(self.format_options)},
            "schemaString": self.schema_string,
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
            "createdTime": self.created_time,
        }
        return {key: value for key, value in body.items() if value is not None}

    def with_schema(self, schema_string: str) -> Metadata:
        return replace(self, schema_string=schema_string)


@dataclass(frozen=True)
class Protocol:
    """protocol: which readers and writers may touch the table. Feature sets are None unless the version is 3 / 7."""

    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Protocol:
        try:
            readers, writers = body.get("readerFeatures"), body.get("writerFeatures")
            return cls(
                int(body["minReaderVersion"]),
                int(body["minWriterVersion"]),
                frozenset(readers) if readers is not None else None,
                frozenset(writers) if writers is not None else None,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LogCorruptedError(f"a protocol action without a valid {error}") from error

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
        }
        if self.min_reader_version >= 3:
            body["readerFeatures"] = sorted(self.reader_features or ())
        if self.min_writer_version >= 7:
            body["writerFeatures"] = sorted(self.writer_features or ())
        return body


@dataclass(frozen=True)
class Transaction:
    """txn: the last version an application (a source, a stream) has written; makes a write idempotent."""

    app_id: str
    version: int
    last_updated: int | None = None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Transaction:
        try:
            return cls(str(body["appId"]), int(body["version"]), body.get("lastUpdated"))
        except (KeyError, TypeError, ValueError) as error:
            raise LogCorruptedError(f"a txn action without a valid {error}") from error

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"appId": self.app_id, "version": self.version}
        if self.last_updated is not None:
            body["lastUpdated"] = self.last_updated
        return body


@dataclass(frozen=True)
class DomainMetadata:
    """domainMetadata: a named configuration string of a feature or an application."""

    domain: str
    configuration: str
    removed: bool = False

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> DomainMetadata:
        try:
            return cls(str(body["domain"]), str(body.get("configuration") or ""), bool(body.get("removed", False)))
        except KeyError as error:
            raise LogCorruptedError(f"a domainMetadata action without a valid {error}") from error

    def to_json(self) -> dict[str, Any]:
        return {"domain": self.domain, "configuration": self.configuration, "removed": self.removed}


@dataclass(frozen=True)
class CommitProperties:
    """What a caller may say about a commit.

    Args:
        custom_metadata: put as it is into commitInfo.
        max_commit_retries: attempts after a lost race; default 50.
        app_transactions: txn actions to put into the same commit (idempotent writes).
    """

    custom_metadata: Mapping[str, Any] = field(default_factory=dict)
    max_commit_retries: int | None = None
    app_transactions: tuple[Transaction, ...] = ()


def parse_line(line: bytes | str) -> tuple[str, Any]:
    """The name and body of one action line of a commit; ('', {}) for a line without a known shape."""
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    for name, body in value.items():
        if isinstance(body, dict):
            return name, body
    return "", {}


def _typed(body: Mapping[str, Any], key: str, kind: type) -> Any:
    value = body[key]
    if not isinstance(value, kind):
        raise ValueError(f"{key}: {value!r}")
    return value
