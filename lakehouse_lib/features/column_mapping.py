"""Column mapping of a table: by what its columns are found in files (PROTOCOL.md, Column Mapping)."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse_lib.features.feature import Feature
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE
from lakehouse_lib.schema import Schema
from lakehouse_lib.schema.column_mapping import Mode


def _is_mapped(configuration: Mapping[str, str], _schema: Schema) -> bool:
    # A mode that is not valid is one that no writer here keeps.
    return configuration.get(COLUMN_MAPPING_MODE.key, "none").strip().lower() != "none"


FEATURE = Feature(
    "columnMapping",
    True,
    True,
    False,
    _is_mapped,
    "physical names and field ids are not written yet",
    legacy=(2, 5),
)


def mode_of(protocol: Protocol, metadata: Metadata, *, table: str | None = None) -> Mode:
    """The mode of the table's properties; "none" where readers do not have the feature.

    Raises:
        InvalidArgumentError: the property is not a mode of the protocol.
    """
    has_mapping = protocol.min_reader_version == 2 or FEATURE.name in (protocol.reader_features or ())
    return COLUMN_MAPPING_MODE.of(metadata.configuration, table) if has_mapping else "none"
