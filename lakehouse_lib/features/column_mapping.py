"""Column mapping of a table: by what its columns are found in files (PROTOCOL.md, Column Mapping)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakehouse_lib.features.feature import Feature
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE, MAX_COLUMN_ID
from lakehouse_lib.schema import Schema, column_mapping
from lakehouse_lib.schema.column_mapping import Mode


def _is_mapped(configuration: Mapping[str, str], _schema: Schema) -> bool:
    # A mode that is not valid is one that no writer here keeps.
    return configuration.get(COLUMN_MAPPING_MODE.key, "none").strip().lower() != "none"


FEATURE = Feature(
    "columnMapping",
    True,
    True,
    True,
    _is_mapped,
    "columns of new tables and new columns get ids and physical names; the mode of a table does not change yet",
    legacy=(2, 5),
)


def is_unlisted(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether the property sets a mode that the protocol does not list, so that not every engine follows it."""
    return _is_mapped(metadata.configuration, Schema([])) and not FEATURE.is_supported(protocol)


def with_physical_names(metadata: Metadata, before: Metadata | None = None, *, table: str | None = None) -> Metadata:
    """The metadata with ids and physical names for columns that lack them, where its mode asks for them.

    Args:
        before: the table's metadata so far, whose ids are not given again.

    Raises:
        InvalidArgumentError: the property is not a mode of the protocol.
    """
    if COLUMN_MAPPING_MODE.of(metadata.configuration, table) == "none":
        return metadata
    max_id = 0 if before is None else MAX_COLUMN_ID.of(before.configuration, table) or 0
    schema, max_id = column_mapping.with_physical_names(Schema.from_json(metadata.schema_string), max_id)
    configuration = {**metadata.configuration, MAX_COLUMN_ID.key: str(max_id)}
    return replace(metadata, schema_string=schema.to_json(), configuration=configuration)


def mode_of(protocol: Protocol, metadata: Metadata, *, table: str | None = None) -> Mode:
    """The mode of the table's properties; "none" where readers do not have the feature.

    Raises:
        InvalidArgumentError: the property is not a mode of the protocol.
    """
    has_mapping = protocol.min_reader_version == 2 or FEATURE.name in (protocol.reader_features or ())
    return COLUMN_MAPPING_MODE.of(metadata.configuration, table) if has_mapping else "none"
