"""The actions of the log (PROTOCOL.md, section Actions).

Data files are rows of an Arrow table (``FILE_SCHEMA``), because a table has many data files. Other actions are frozen
dataclasses, because a table has few of them. ``from_json`` and ``to_json`` use the names in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError
from lakehouse_lib.json_text import excerpt, parse_json

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

#: One row for each data file. Paths are percent-encoded, as in the log.
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

#: One row for each tombstone in the log.
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

#: One row for each change data file (PROTOCOL.md, section Add CDC File).
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
    """The metaData action: id, schema, partition columns, properties and names of the table.

    ``configuration`` has the table properties, ``delta.*`` and others; ``created_time`` is ms since the epoch or None.
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
        """The metadata in a JSON body; LogCorruptedError names a field that is missing or has another type."""
        form = _value(body, "metaData", "format", dict, {})
        columns = _value(body, "metaData", "partitionColumns", list)
        if not all(isinstance(name, str) for name in columns) or len(set(columns)) < len(columns):
            raise LogCorruptedError(f"a metaData action whose partitionColumns are {excerpt(columns)}")
        return cls(
            id=_value(body, "metaData", "id", str),
            schema_string=_value(body, "metaData", "schemaString", str),
            partition_columns=tuple(columns),
            configuration=_strings(body, "metaData", "configuration"),
            name=_value(body, "metaData", "name", str, None),
            description=_value(body, "metaData", "description", str, None),
            created_time=_value(body, "metaData", "createdTime", int, None),
            format_provider=_value(form, "metaData format", "provider", str, "parquet"),
            format_options=_strings(form, "metaData format", "options"),
        )

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
    """The protocol action: the versions and features that readers and writers need.

    Attributes:
        reader_features: None below reader version 3.
        writer_features: None below writer version 7.
    """

    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Protocol:
        """The protocol in a JSON body; LogCorruptedError names a field that is missing or not valid."""
        reader = _value(body, "protocol", "minReaderVersion", int)
        writer = _value(body, "protocol", "minWriterVersion", int)
        if reader < 1 or writer < 1:
            raise LogCorruptedError(f"a protocol action of minReaderVersion {reader} and minWriterVersion {writer}")
        readers, writers = _names(body, "readerFeatures"), _names(body, "writerFeatures")
        # If a version needs a feature list and has none, or the reverse, the features of the table are unknown.
        for number, since, features, key in (
            (reader, 3, readers, "readerFeatures"),
            (writer, 7, writers, "writerFeatures"),
        ):
            if number == since and features is None:
                raise LogCorruptedError(f"a protocol action of the versions {reader} and {writer} without {key}")
            if number < since and features:
                raise LogCorruptedError(
                    f"a protocol action of the versions {reader} and {writer} with {key} {excerpt(sorted(features))}"
                )
        return cls(reader, writer, readers if reader >= 3 else None, writers if writer >= 7 else None)

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
    """The txn action: the last version that an application (a source, a stream) has written, for idempotent writes.

    Args:
        app_id: the id of the application.
        version: a whole number of 64 bits.
        last_updated: ms since the epoch; None: a commit sets its own time.

    Raises:
        InvalidArgumentError: the application is not a string, or the version or the time does not fit 64 bits.
    """

    app_id: str
    version: int
    last_updated: int | None = None

    def __post_init__(self) -> None:
        # No reader could open a table with a txn action that is not valid.
        if not isinstance(self.app_id, str):
            raise InvalidArgumentError(
                f"the application of a transaction is {excerpt(self.app_id)}; expected text",
                hint="Give the name of the job or the stream",
                code="DELTA_INVALID_COMMIT_PROPERTIES",
            )
        if type(self.version) is not int or self.version not in _INT64:
            raise InvalidArgumentError(
                f"the version of a transaction of {excerpt(self.app_id)} is {excerpt(self.version)}; expected a whole "
                "number of 64 bits",
                hint="Give for example the number of the batch",
                code="DELTA_INVALID_COMMIT_PROPERTIES",
            )
        if self.last_updated is not None and (type(self.last_updated) is not int or self.last_updated not in _INT64):
            raise InvalidArgumentError(
                f"last_updated of a transaction of {excerpt(self.app_id)} is {excerpt(self.last_updated)}; expected "
                "milliseconds since the epoch",
                hint="Leave it out for the time of the commit",
                code="DELTA_INVALID_COMMIT_PROPERTIES",
            )

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Transaction:
        """The transaction in a JSON body; LogCorruptedError names a field that is missing or has another type."""
        return cls(
            _value(body, "txn", "appId", str),
            _value(body, "txn", "version", int),
            _value(body, "txn", "lastUpdated", int, None),
        )

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"appId": self.app_id, "version": self.version}
        if self.last_updated is not None:
            body["lastUpdated"] = self.last_updated
        return body


@dataclass(frozen=True)
class DomainMetadata:
    """The domainMetadata action: a named configuration string of a feature or an application."""

    domain: str
    configuration: str
    removed: bool = False

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> DomainMetadata:
        """The domain in a JSON body; LogCorruptedError names a field that is missing or has another type."""
        return cls(
            _value(body, "domainMetadata", "domain", str),
            _value(body, "domainMetadata", "configuration", str, ""),
            _value(body, "domainMetadata", "removed", bool, False),
        )

    def to_json(self) -> dict[str, Any]:
        return {"domain": self.domain, "configuration": self.configuration, "removed": self.removed}


#: The names of all actions; lines with other names are ignored, as the protocol requires.
ACTIONS = frozenset(
    (
        "add",
        "remove",
        "cdc",
        "metaData",
        "protocol",
        "txn",
        "domainMetadata",
        "commitInfo",
        "sidecar",
        "checkpointMetadata",
    )
)

_MISSING: Any = object()
_INT64 = range(-(2**63), 2**63)


def parse_line(line: bytes | str) -> tuple[str, Any]:
    """The name and body of the action in a line of a commit; ('', {}) if the line has no action of the protocol.

    Raises:
        ValueError: the line is not a JSON object, has two actions, or has an action that is not an object.
    """
    value = parse_json(line)
    if not isinstance(value, dict):
        raise ValueError(f"it is not a JSON object: {excerpt(value)}")
    actions = [(name, body) for name, body in value.items() if name in ACTIONS and body is not None]
    if not actions:
        return "", {}
    if len(actions) > 1:
        raise ValueError(f"it has {len(actions)} actions: {', '.join(name for name, _ in actions)}")
    name, body = actions[0]
    if not isinstance(body, dict):
        raise ValueError(f"the {name} is {excerpt(body)}; expected an object")
    return name, body


def _value(body: Mapping[str, Any], action: str, key: str, kind: type, default: Any = _MISSING) -> Any:
    value = body.get(key)
    if value is None:
        if default is _MISSING:
            raise LogCorruptedError(f"a {action} action without {key}")
        return default
    # In Python a bool is an int, but in JSON it is not a number.
    is_valid = type(value) is kind and (kind is not int or value in _INT64)
    if not is_valid:
        raise LogCorruptedError(f"a {action} action whose {key} is {excerpt(value)}")
    return value


def _strings(body: Mapping[str, Any], action: str, key: str) -> dict[str, str]:
    # Older versions of delta-rs wrote null for a property without a value.
    pairs = _value(body, action, key, dict, {})
    values: dict[str, str] = {name: value for name, value in pairs.items() if value is not None}
    for name, value in values.items():
        if not isinstance(value, str):
            raise LogCorruptedError(f"a {action} action whose {key} has {excerpt(value)} for {excerpt(name)}")
    return values


def _names(body: Mapping[str, Any], key: str) -> frozenset[str] | None:
    values = _value(body, "protocol", key, list, None)
    if values is None:
        return None
    if not all(isinstance(value, str) for value in values):
        raise LogCorruptedError(f"a protocol action whose {key} are {excerpt(values)}")
    return frozenset(values)
