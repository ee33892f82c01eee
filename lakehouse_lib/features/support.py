"""Whether a table can be read and written here, and which rules of its features a verb has to follow."""

from __future__ import annotations

from lakehouse_lib.errors import DeltaProtocolError, InvalidSchemaError, UnsupportedFeatureError
from lakehouse_lib.features import append_only, change_data_feed, column_mapping
from lakehouse_lib.features.protocol_versions import reader_features, writer_features
from lakehouse_lib.features.table_features import CATALOG, FEATURES
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import APPEND_ONLY, CHANGE_DATA_FEED, COLUMN_MAPPING_MODE, SET_BY
from lakehouse_lib.schema import PrimitiveType, Schema

_MAX_READER, _MAX_WRITER = 3, 7


def check_read(protocol: Protocol, metadata: Metadata, schema: Schema, *, table: str, version: int) -> None:
    """Refuse a table that cannot be read correctly.

    Raises:
        UnsupportedFeatureError: names every feature that stands in the way, or a file format other than Parquet.
        InvalidSchemaError: a partition column is not in the schema or not of a primitive type.
    """
    if protocol.min_reader_version > _MAX_READER:
        raise _too_new("reader", protocol.min_reader_version, table, version)
    listed = reader_features(protocol)
    # A feature of writers alone may take the log out of a reader's hands, too; those that are known say so.
    beside = {name for name in writer_features(protocol) - listed if name in FEATURES and not FEATURES[name].reader}
    blocked = [name for name in sorted(listed | beside) if _blocks(name, "read", metadata, schema)]
    if blocked:
        raise _unsupported("read", blocked, table, version)
    if metadata.format_provider.lower() != "parquet":
        raise UnsupportedFeatureError(
            f"the files are in the format {metadata.format_provider[:100]!r}",
            table=table,
            version=version,
            hint="Only Parquet is read; use the engine that wrote them",
        )
    columns = {field.name: field.type for field in schema.fields}
    for name in metadata.partition_columns:
        if not isinstance(columns.get(name), PrimitiveType):
            what = "no column" if name not in columns else f"a column of the type {columns[name].type}"
            raise InvalidSchemaError(
                f"the table is partitioned by {name[:100]!r}, which is {what}",
                table=table,
                version=version,
                hint="Restore the commit with the table's last metaData action from a backup",
            )


def check_write(protocol: Protocol, metadata: Metadata, schema: Schema, *, table: str, version: int) -> None:
    """Refuse to write (or vacuum) a table whose rules cannot all be kept.

    Raises:
        UnsupportedFeatureError: names every feature that stands in the way.
    """
    check_read(protocol, metadata, schema, table=table, version=version)
    if protocol.min_writer_version > _MAX_WRITER:
        raise _too_new("writer", protocol.min_writer_version, table, version)
    blocked = [name for name in sorted(writer_features(protocol)) if _blocks(name, "write", metadata, schema)]
    if blocked:
        raise _unsupported("write", blocked, table, version)
    if column_mapping.is_unlisted(protocol, metadata):
        raise UnsupportedFeatureError(
            f"{COLUMN_MAPPING_MODE.key} is set, but the protocol does not list columnMapping, so that engines would "
            "find columns by different names",
            table=table,
            version=version,
            hint="Add the feature columnMapping with the engine that set the property",
        )


def check_removal(before: Metadata, after: Metadata, *, table: str | None, version: int | None) -> None:
    """Whether a commit may remove rows from a table: of append-only tables what they promised before it counts.

    Raises:
        DeltaProtocolError: it is append-only, or has a change data feed.
    """
    for feature, switch, forbids in (
        (append_only.FEATURE, APPEND_ONLY, append_only.forbids_removal(before)),
        (change_data_feed.FEATURE, CHANGE_DATA_FEED, change_data_feed.has_change_data_feed(after)),
    ):
        if forbids:
            raise DeltaProtocolError(
                f"rows cannot be removed: the table uses {feature.name} ({feature.why})",
                table=table,
                version=version,
                hint=f"Append only, or first set {switch.key} to false by {SET_BY}",
                code="DELTA_APPEND_ONLY",
            )


def _blocks(name: str, verb: str, metadata: Metadata, schema: Schema) -> bool:
    feature = FEATURES.get(name)
    if feature is None:
        return True
    if feature.reads if verb == "read" else feature.writes:
        return False
    return feature.is_used(metadata, schema)


def _too_new(side: str, number: int, table: str, version: int) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the table needs {side} version {number}, newer than any this library knows",
        table=table,
        version=version,
        hint="Use the engine that wrote it",
        code="DELTA_UNSUPPORTED_PROTOCOL_VERSION",
    )


def _unsupported(verb: str, names: list[str], table: str, version: int) -> UnsupportedFeatureError:
    reasons = "; ".join(f"{n}: {FEATURES[n].why}" if n in FEATURES else f"{n}: unknown here" for n in names)
    if any(n in FEATURES and FEATURES[n].why == CATALOG for n in names):
        hint = "Ask the catalog: use an engine that is connected to it, or have that engine copy the table elsewhere"
    else:
        hint = "Drop the feature with the engine that added it, or use that engine"
    return UnsupportedFeatureError(
        f"cannot {verb} a table that uses {', '.join(names)} ({reasons})",
        table=table,
        version=version,
        hint=hint,
    )
