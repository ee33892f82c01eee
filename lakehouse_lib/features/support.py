"""Checks that this library supports a table, and that a commit may remove rows from it."""

from __future__ import annotations

from lakehouse_lib.errors import DeltaProtocolError, InvalidSchemaError, UnsupportedFeatureError
from lakehouse_lib.features import append_only, column_mapping
from lakehouse_lib.features.protocol_upgrade import reader_features, writer_features
from lakehouse_lib.features.table_features import CATALOG, FEATURES
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import APPEND_ONLY, COLUMN_MAPPING_MODE, SET_BY
from lakehouse_lib.schema import PrimitiveType, Schema

_MAX_READER, _MAX_WRITER = 3, 7


def check_read(protocol: Protocol, metadata: Metadata, schema: Schema, *, table: str, version: int) -> None:
    """Refuse a table that cannot be read correctly.

    Raises:
        UnsupportedFeatureError: the table uses unsupported features (the error names all of them), needs a reader
            version above 3, or has files of another format than Parquet.
        InvalidSchemaError: a partition column is not in the schema or not of a primitive type.
    """
    if protocol.min_reader_version > _MAX_READER:
        raise _too_new("reader", protocol.min_reader_version, table, version)
    listed = reader_features(protocol)
    # Some writer features also prevent reading: the log of a catalog-managed table, for example, may lack commits.
    writer_only = {
        name for name in writer_features(protocol) - listed if name in FEATURES and not FEATURES[name].reader
    }
    blocked = [name for name in sorted(listed | writer_only) if _blocks(name, "read", metadata, schema)]
    if blocked:
        raise _unsupported("read", blocked, table, version)
    if metadata.format_provider.lower() != "parquet":
        raise UnsupportedFeatureError(
            f"the format of the files is {metadata.format_provider[:100]!r}; expected 'parquet'",
            table=table,
            version=version,
            hint="Use the engine that wrote the files",
        )
    columns = {field.name: field.type for field in schema.fields}
    for name in metadata.partition_columns:
        if not isinstance(columns.get(name), PrimitiveType):
            problem = (
                "not a column"
                if name not in columns
                else f"a column of the type {columns[name].type}; expected a primitive type"
            )
            raise InvalidSchemaError(
                f"the table is partitioned by {name[:100]!r}, which is {problem}",
                table=table,
                version=version,
                hint="Restore the commit with the table's last metaData action from a backup",
            )


def check_write(protocol: Protocol, metadata: Metadata, schema: Schema, *, table: str, version: int) -> None:
    """Refuse a table that cannot be written (or vacuumed) correctly.

    Raises:
        UnsupportedFeatureError: the table uses unsupported features (the error names all of them), needs a reader
            version above 3 or a writer version above 7, has files of another format than Parquet, or has a column
            mapping mode without the feature columnMapping.
        InvalidSchemaError: as ``check_read``.
    """
    check_read(protocol, metadata, schema, table=table, version=version)
    if protocol.min_writer_version > _MAX_WRITER:
        raise _too_new("writer", protocol.min_writer_version, table, version)
    blocked = [name for name in sorted(writer_features(protocol)) if _blocks(name, "write", metadata, schema)]
    if blocked:
        raise _unsupported("write", blocked, table, version)
    if column_mapping.is_mode_without_feature(protocol, metadata):
        raise UnsupportedFeatureError(
            f"{COLUMN_MAPPING_MODE.key} is set, but the protocol does not list columnMapping; engines would find "
            "columns by different names",
            table=table,
            version=version,
            hint="Add the feature columnMapping with the engine that set the property",
        )


def check_removal(before: Metadata, *, table: str | None, version: int | None) -> None:
    """Refuse a commit that removes rows from an append-only table.

    Args:
        before: the metadata before the commit.

    Raises:
        DeltaProtocolError: the table was append-only before the commit.
    """
    if append_only.forbids_removal(before):
        feature = append_only.FEATURE
        raise DeltaProtocolError(
            f"rows cannot be removed: the table uses {feature.name} ({feature.support_note})",
            table=table,
            version=version,
            hint=f"Only append rows, or first set {APPEND_ONLY.key} to false with {SET_BY}",
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
        f"the table needs {side} version {number}, which this library does not support",
        table=table,
        version=version,
        hint="Use the engine that wrote the table",
        code="DELTA_UNSUPPORTED_PROTOCOL_VERSION",
    )


def _unsupported(verb: str, names: list[str], table: str, version: int) -> UnsupportedFeatureError:
    reasons = "; ".join(
        f"{n}: {FEATURES[n].support_note}" if n in FEATURES else f"{n}: unknown to this library" for n in names
    )
    if any(n in FEATURES and FEATURES[n].support_note == CATALOG for n in names):
        hint = "Use an engine that is connected to the catalog, or copy the table elsewhere with that engine"
    else:
        hint = "Drop the feature with the engine that added it, or use that engine"
    return UnsupportedFeatureError(
        f"cannot {verb} a table that uses {', '.join(names)} ({reasons})",
        table=table,
        version=version,
        hint=hint,
    )
