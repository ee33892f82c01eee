"""Validation of table properties: the properties after a change, or the reason why the change is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakehouse_lib.errors import InvalidArgumentError, UnsupportedFeatureError
from lakehouse_lib.features import row_tracking
from lakehouse_lib.features.constraints import check_constraints
from lakehouse_lib.features.table_features import FEATURES
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE, DELETION_VECTORS, PROPERTIES, SYMLINK_MANIFESTS
from lakehouse_lib.schema import Schema

#: ``delta.feature.NAME = supported`` adds a feature to the protocol; it is not stored as a property.
FEATURE_PREFIX = "delta.feature."
#: The properties that raise the versions of the protocol, with the highest version. They are not stored as properties.
_PROTOCOL_VERSIONS = {"delta.minReaderVersion": 3, "delta.minWriterVersion": 7}
_KEYS = {key.lower(): key for key in (*PROPERTIES, *_PROTOCOL_VERSIONS)}


def changed_configuration(
    current: Mapping[str, str],
    change: Mapping[str, str | None],
    schema: Schema,
    *,
    known_only: bool = True,
    table: str | None = None,
) -> dict[str, str]:
    """A table's properties after a change, in a spelling that every engine reads.

    ``True`` becomes "true", because delta-rs reads "True" as false. Spaces around a value are removed, because
    delta-spark fails on them. In a constraint, names in double quotes get backquotes. If row tracking is enabled, the
    names of its materialized columns are added.

    Args:
        current: the properties before the change; empty for a new table.
        change: the new values; None removes a property.
        schema: the table's schema; its columns may enable features, too.
        known_only: refuse unknown names that begin with ``delta.``. Known names in another case are always refused. A
            property in ``current`` can be removed whatever its name.

    Raises:
        InvalidArgumentError: a name or a value is not valid, only engines may set the property, a new constraint has
            the name of another one in another case, or row tracking is both enabled and suspended.
        InvalidPredicateError: a constraint does not parse, or names a column that does not exist.
        UnsupportedFeatureError: the change or the schema enables a feature that this library does not write; or
            manifests are enabled together with deletion vectors or column mapping.
    """
    values = {key: str(value).strip() for key, value in change.items() if value is not None}
    for key, value in change.items():
        _check_settable(key, table)
        if value is not None or key not in current:  # another engine may have stored any name
            _check_name(key, known_only, table)
    for key in values.keys() & PROPERTIES.keys():
        values[key] = PROPERTIES[key].log_text(values[key], table)
    for key in values:
        if key.startswith(check_constraints.PREFIX):
            name = check_constraints.name_of(key)
            values[key] = check_constraints.spark_condition(name, values[key], schema, table=table)
    names = {feature.name for feature in FEATURES.values() if feature.is_required_by(values, schema)}
    _check_written(names | requested_features(change, table=table), table)
    unchanged_values = {key: value for key, value in current.items() if key not in change}
    requested_versions(change, table=table)
    stored = {key: value for key, value in values.items() if not key.startswith(FEATURE_PREFIX)}
    configuration = unchanged_values | {key: value for key, value in stored.items() if key not in _PROTOCOL_VERSIONS}
    for key in check_constraints.constraints(values).keys() - current.keys():
        _check_spelling(key, configuration, table)
    _check_manifests(configuration, table)
    if row_tracking.PROPERTIES & values.keys():
        return row_tracking.with_columns(configuration, table=table)
    return configuration


def requested_features(change: Mapping[str, str | None], *, table: str | None = None) -> frozenset[str]:
    """The features that the properties ``delta.feature.NAME`` of a change add to the protocol.

    Raises:
        InvalidArgumentError: a value is not "supported" (or "enabled", which means the same in delta-spark).
    """
    entries = {key: value for key, value in change.items() if key.startswith(FEATURE_PREFIX) and value is not None}
    for key, value in entries.items():
        if str(value).strip().lower() not in ("supported", "enabled"):
            raise InvalidArgumentError(
                f"{key} = {excerpt(value)} is not valid; expected supported",
                table=table,
                hint="Set it to supported, or leave it out",
                code="DELTA_INVALID_TABLE_PROPERTY",
            )
    return frozenset(key.removeprefix(FEATURE_PREFIX) for key in entries)


def requested_versions(change: Mapping[str, str | None], *, table: str | None = None) -> tuple[int, int]:
    """The reader version and the writer version that a change requests for the protocol; 1 if it requests none.

    Raises:
        InvalidArgumentError: a value is not a version of the protocol.
    """
    versions = []
    for key, highest in _PROTOCOL_VERSIONS.items():
        text = str(change.get(key) or 1).strip()
        if not text.isdecimal() or not 1 <= int(text) <= highest:
            raise InvalidArgumentError(
                f"{key} = {excerpt(text)} is not valid; expected a whole number from 1 to {highest}",
                table=table,
                hint="Leave it out: a table gets the lowest protocol that its schema and properties require",
                code="DELTA_INVALID_TABLE_PROPERTY",
            )
        versions.append(int(text))
    return versions[0], versions[1]


def _check_manifests(configuration: Mapping[str, str], table: str | None) -> None:
    """Refuse manifests together with deletion vectors or column mapping, which readers of manifests ignore."""
    if not SYMLINK_MANIFESTS.is_on(configuration):
        return
    for name, is_on in (
        (DELETION_VECTORS.key, DELETION_VECTORS.is_on(configuration)),
        (COLUMN_MAPPING_MODE.key, COLUMN_MAPPING_MODE.of(configuration, table) != "none"),
    ):
        if is_on:
            raise UnsupportedFeatureError(
                f"{SYMLINK_MANIFESTS.key} and {name} cannot be enabled together, because programs that read manifests "
                "read only Parquet",
                table=table,
                hint="Leave out one of them",
                code="DELTA_MANIFEST_UNSUPPORTED",
            )


def _check_spelling(key: str, configuration: Mapping[str, str], table: str | None) -> None:
    """Refuse a constraint whose name differs only in case from another one's; dropping one would drop both."""
    name = check_constraints.name_of(key)
    others = sorted(check_constraints.constraints_of(name, configuration).keys() - {key})
    if others:
        raise InvalidArgumentError(
            f"the property {excerpt(key)} names the same constraint as {excerpt(others[0])}",
            table=table,
            hint="Use another name, because names of constraints do not depend on case",
            code="DELTA_CONSTRAINT_ALREADY_EXISTS",
        )


def _check_written(names: Iterable[str], table: str | None) -> None:
    blockers = sorted(name for name in names if name not in FEATURES or not FEATURES[name].writes)
    if blockers:
        raise UnsupportedFeatureError(
            f"the table would use {', '.join(blockers)}, which this library does not write",
            table=table,
            hint="Leave out the properties and columns that enable it, or use an engine that writes it",
        )


def _check_settable(key: str, table: str | None) -> None:
    if key in PROPERTIES and not PROPERTIES[key].settable:
        raise InvalidArgumentError(
            f"the property {key} cannot be set by users, only by engines",
            table=table,
            hint="Leave it out",
            code="DELTA_INVALID_TABLE_PROPERTY",
        )


def _check_name(key: str, known_only: bool, table: str | None) -> None:
    lower = key.lower()
    prefix = next((start for start in (check_constraints.PREFIX, FEATURE_PREFIX) if lower.startswith(start)), None)
    if not lower.startswith("delta.") or key in _KEYS.values() or (prefix is not None and key.startswith(prefix)):
        return
    spelling = _KEYS.get(lower) if prefix is None else prefix + key[len(prefix) :]
    if spelling is None and not known_only:
        return
    expected = "" if spelling is None else f"; expected {spelling}"
    raise InvalidArgumentError(
        f"the property {excerpt(key)} is not known{expected}",
        table=table,
        hint=f"Write {spelling}" if spelling else "Leave it out: names that begin with delta. belong to the protocol",
        code="DELTA_INVALID_TABLE_PROPERTY",
    )
