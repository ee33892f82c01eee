"""The feature columnMapping: files store columns under physical names and ids (PROTOCOL.md, Column Mapping)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakehouse_lib.features.feature import Feature
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE, MAX_COLUMN_ID
from lakehouse_lib.schema import Schema, column_mapping
from lakehouse_lib.schema.column_mapping import Mode


def _is_mapped(configuration: Mapping[str, str], _schema: Schema) -> bool:
    # An invalid mode counts as column mapping, so that it is refused and not ignored.
    return configuration.get(COLUMN_MAPPING_MODE.key, "none").strip().lower() != "none"


FEATURE = Feature(
    "columnMapping",
    True,
    True,
    True,
    _is_mapped,
    "new columns get ids and physical names; the mode of an existing table cannot be changed yet",
    legacy=(2, 5),
)


def is_unlisted(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether the property sets a mode, but the protocol does not list the feature, so that some engines ignore it."""
    return _is_mapped(metadata.configuration, Schema([])) and not FEATURE.is_supported(protocol)


def with_physical_names(metadata: Metadata, before: Metadata | None = None, *, table: str | None = None) -> Metadata:
    """The metadata with ids and physical names for columns that lack them, if its mode is ``name`` or ``id``.

    Args:
        before: the table's current metadata, whose ids are not used again.

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
    """The column mapping mode of a table; "none" if its protocol does not have the feature for readers.

    Raises:
        InvalidArgumentError: the property is not a mode of the protocol.
    """
    has_mapping = protocol.min_reader_version == 2 or FEATURE.name in (protocol.reader_features or ())
    return COLUMN_MAPPING_MODE.of(metadata.configuration, table) if has_mapping else "none"
