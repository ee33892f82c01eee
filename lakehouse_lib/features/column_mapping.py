"""The feature columnMapping: files store columns under physical names and ids (PROTOCOL.md, Column Mapping)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakehouse_lib.features.feature import Feature
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE, MAX_COLUMN_ID
from lakehouse_lib.schema import Schema, column_mapping


def _is_mapped(configuration: Mapping[str, str], _schema: Schema) -> bool:
    # An invalid mode counts as column mapping, so that it is refused and not ignored.
    return configuration.get(COLUMN_MAPPING_MODE.key, "none").strip().lower() != "none"


FEATURE = Feature(
    "columnMapping",
    True,
    True,
    True,
    _is_mapped,
    "new columns get ids and physical names; the mode of an existing table can change from none to name, and to none",
    legacy_versions=(2, 5),
)


def is_mode_without_feature(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether the property sets a mode that some engines ignore, because the protocol does not support the feature."""
    return _is_mapped(metadata.configuration, Schema([])) and not FEATURE.is_supported(protocol)


def with_physical_names(metadata: Metadata, before: Metadata | None = None, *, table: str | None = None) -> Metadata:
    """The metadata with an id and a physical name for each column; without both if the column mapping mode is none.

    Args:
        before: the table's metadata so far. Its columns keep their ids and physical names, and no id is used again.

    Raises:
        InvalidArgumentError: ``delta.columnMapping.mode`` is not a mode of the protocol.
    """
    schema = Schema.from_json(metadata.schema_string)
    if COLUMN_MAPPING_MODE.of(metadata.configuration, table) == "none":
        return replace(metadata, schema_string=column_mapping.without_mapping(schema).to_json())
    max_id, current = 0, None
    if before is not None:
        max_id = MAX_COLUMN_ID.of(before.configuration, table) or 0
        if COLUMN_MAPPING_MODE.of(before.configuration, table) != "none":
            current = Schema.from_json(before.schema_string)
    schema, max_id = column_mapping.with_physical_names(schema, max_id, current)
    configuration = {**metadata.configuration, MAX_COLUMN_ID.key: str(max_id)}
    return replace(metadata, schema_string=schema.to_json(), configuration=configuration)


def with_current_names(metadata: Metadata) -> Metadata:
    """The metadata of a table that gets column mapping: each column has an id, and its name as its physical name.

    Readers then find the columns in files that were written before.
    """
    max_id = MAX_COLUMN_ID.of(metadata.configuration) or 0
    schema, max_id = column_mapping.with_current_names(Schema.from_json(metadata.schema_string), max_id)
    configuration = {**metadata.configuration, MAX_COLUMN_ID.key: str(max_id)}
    return replace(metadata, schema_string=schema.to_json(), configuration=configuration)


def without_mapping(metadata: Metadata) -> Metadata:
    """The metadata without column mapping. The highest column id stays, so that no id is used again."""
    schema = column_mapping.without_mapping(Schema.from_json(metadata.schema_string))
    configuration = {key: value for key, value in metadata.configuration.items() if key != COLUMN_MAPPING_MODE.key}
    return replace(metadata, schema_string=schema.to_json(), configuration=configuration)


def mode_of(protocol: Protocol, metadata: Metadata, *, table: str | None = None) -> column_mapping.Mode:
    """The column mapping mode of a table; "none" if its protocol does not have the feature for readers.

    Raises:
        InvalidArgumentError: ``delta.columnMapping.mode`` is not a mode of the protocol.
    """
    has_mapping = protocol.min_reader_version == 2 or FEATURE.name in (protocol.reader_features or ())
    return COLUMN_MAPPING_MODE.of(metadata.configuration, table) if has_mapping else "none"
