"""The properties of a new table: as every engine reads them, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError, UnsupportedFeatureError
from lakehouse_lib.protocol.table_properties import (
    COLUMN_MAPPING_MODE,
    DELETION_VECTORS,
    ICEBERG_COMPAT_V1,
    ICEBERG_COMPAT_V2,
    ICEBERG_COMPAT_V3,
    PROPERTIES,
    ROW_TRACKING,
    ROW_TRACKING_SUSPENDED,
    TYPE_WIDENING,
    TableProperty,
)

# Properties that switch on a feature this library cannot keep.
_NEED_MORE: Mapping[TableProperty[Any], str] = {
    COLUMN_MAPPING_MODE: "columnMapping",
    DELETION_VECTORS: "deletionVectors",
    TYPE_WIDENING: "typeWidening",
    ICEBERG_COMPAT_V1: "icebergCompatV1",
    ICEBERG_COMPAT_V2: "icebergCompatV2",
    ICEBERG_COMPAT_V3: "icebergCompatV3",
}
_CONSTRAINT, _FEATURE = "delta.constraints.", "delta.feature."
#: Names of properties, by how another case spells them.
_NAMES = {key.lower(): key for key in PROPERTIES}


def new_properties(configuration: Mapping[str, str | None] | None, *, table: str | None = None) -> dict[str, str]:
    """The properties as the log is to have them. ``True`` is "true": delta-rs takes "True" for off; and nothing has
    spaces around it, at which delta-spark fails.

    Args:
        configuration: table properties (``delta.*``); None values are left out.

    Raises:
        InvalidArgumentError: a value that is not valid, or a name that would say nothing because of its case.
        UnsupportedFeatureError: a property that needs a feature this library cannot keep.
    """
    properties = {key: str(value).strip() for key, value in (configuration or {}).items() if value is not None}
    for key, text in properties.items():
        _check_name(key, table)
        if key in PROPERTIES:
            properties[key] = PROPERTIES[key].spell(text, table)
    if ROW_TRACKING.is_on(properties) and ROW_TRACKING_SUSPENDED.is_on(properties):
        raise InvalidArgumentError(
            f"{ROW_TRACKING.key} and {ROW_TRACKING_SUSPENDED.key} are both true",
            table=table,
            hint="Leave out one of them",
            code="DELTA_INVALID_TABLE_PROPERTY",
        )
    asked = {feature for need, feature in _NEED_MORE.items() if need.of(properties, table) != need.default}
    asked |= {"checkConstraints" for key in properties if key.startswith(_CONSTRAINT)}
    asked |= {key.removeprefix(_FEATURE) for key in properties if key.startswith(_FEATURE)}
    if asked:
        raise UnsupportedFeatureError(
            f"the properties ask for {', '.join(sorted(asked))}, which this library cannot keep yet",
            table=table,
            hint="Leave these properties out",
        )
    return properties


def _check_name(key: str, table: str | None) -> None:
    if key in ("delta.minReaderVersion", "delta.minWriterVersion"):
        raise InvalidArgumentError(
            f"{key} is not a property that a table keeps",
            table=table,
            hint="Leave it out: a table gets the least protocol that its schema and properties need",
        )
    lower = key.lower()
    prefix = next((known for known in (_CONSTRAINT, _FEATURE) if lower.startswith(known)), None)
    meant = _NAMES.get(lower, key) if prefix is None else prefix + key[len(prefix) :]
    if key != meant:
        raise InvalidArgumentError(
            f"the property {key!r} would say nothing, for its name is spelled otherwise",
            table=table,
            hint=f"Write {meant}",
        )
