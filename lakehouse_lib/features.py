"""Table features: what we read, what we write, what we refuse and why (PROTOCOL.md, Appendix: Valid Feature Names).

A feature that a table merely lists but does not use costs nothing: it is refused only where using it would need code
that is not here. A legacy protocol version implies its features, and the same question of use decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lakehouse_lib.actions import Metadata, Protocol
from lakehouse_lib.errors import UnsupportedFeatureError
from lakehouse_lib.schema import Field, Schema

#: Whether a table uses the feature, judged by its properties and schema.
Use = Callable[[Mapping[str, str], "Schema"], bool]


@dataclass(frozen=True)
class Feature:
    """``reads``/``writes``: supported even when in use. ``used``: None when it cannot be told from the metadata."""

    name: str
    reader: bool
    reads: bool
    writes: bool
    used: Use | None
    why: str


def _property(name: str) -> Use:
    return lambda properties, _: properties.get(name, "").lower() == "true"


def _field_metadata(prefix: str) -> Use:
    return lambda _, schema: any(key.startswith(prefix) for f in _all_fields(schema) for key in (f.metadata or {}))


def _constraints(properties: Mapping[str, str], _: Schema) -> bool:
    return any(key.startswith("delta.constraints.") for key in properties)


def _mapped(properties: Mapping[str, str], _: Schema) -> bool:
    return properties.get("delta.columnMapping.mode", "none").lower() != "none"


_ALWAYS: Use = lambda _properties, _schema: True  # noqa: E731 - a value among values
_NEVER: Use = lambda _properties, _schema: False  # noqa: E731

FEATURES: Mapping[str, Feature] = {
    f.name: f
    for f in (
        Feature("appendOnly", False, True, True, _property("delta.appendOnly"), "removing rows is refused"),
        Feature("invariants", False, True, False, _field_metadata("delta.invariants"), "not evaluated yet"),
        Feature("checkConstraints", False, True, False, _constraints, "not evaluated yet"),
        Feature(
            "changeDataFeed",
            False,
            True,
            True,
            _property("delta.enableChangeDataFeed"),
            "appends need no change files; deleting or overwriting rows is refused until they are written",
        ),
        Feature(
            "generatedColumns", False, True, False, _field_metadata("delta.generationExpression"), "not computed yet"
        ),
        Feature("identityColumns", False, True, False, _field_metadata("delta.identity."), "not generated yet"),
        Feature("columnMapping", True, False, False, _mapped, "physical names are not resolved yet"),
        Feature("deletionVectors", True, True, True, _NEVER, "a file that has one is refused; none is written"),
        Feature("timestampNtz", True, True, True, _ALWAYS, ""),
        Feature("vacuumProtocolCheck", True, True, True, _ALWAYS, "vacuum makes the write check"),
        Feature("domainMetadata", False, True, True, _ALWAYS, "domains are kept as they are"),
        Feature(
            "allowColumnDefaults",
            False,
            True,
            False,
            _field_metadata("CURRENT_DEFAULT"),
            "defaults are not applied yet",
        ),
        Feature(
            "inCommitTimestamp",
            False,
            True,
            False,
            _property("delta.enableInCommitTimestamps"),
            "read for time travel; not written yet",
        ),
        Feature("v2Checkpoint", True, False, False, _ALWAYS, "v2 checkpoints are not read yet"),
        Feature("typeWidening", True, False, False, _field_metadata("delta.typeChanges"), "files are not upcast yet"),
        Feature(
            "typeWidening-preview", True, False, False, _field_metadata("delta.typeChanges"), "files are not upcast yet"
        ),
        Feature("rowTracking", False, True, False, _ALWAYS, "row ids are not assigned yet"),
        Feature("clustering", False, True, False, _ALWAYS, "the clustering domain is not kept up yet"),
        Feature("checkpointProtection", False, True, False, _ALWAYS, "its checkpoint rules are not kept yet"),
        Feature("icebergCompatV1", False, True, False, _property("delta.enableIcebergCompatV1"), "not kept yet"),
        Feature("icebergCompatV2", False, True, False, _property("delta.enableIcebergCompatV2"), "not kept yet"),
        Feature("icebergCompatV3", False, True, False, _property("delta.enableIcebergCompatV3"), "not kept yet"),
        Feature("variantType", True, False, False, _ALWAYS, "variants are not read yet"),
        Feature("catalogManaged", True, False, False, _ALWAYS, "ask the table's catalog, which owns its commits"),
    )
}

# What a version without feature lists implies, cumulatively.
_WRITER_IMPLIES: Mapping[int, tuple[str, ...]] = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
_MAX_READER, _MAX_WRITER = 3, 7


def check_read(protocol: Protocol, metadata: Metadata, schema: Schema, *, table: str, version: int) -> None:
    """Refuse a table that cannot be read right.

    Raises:
        UnsupportedFeatureError: names every feature that stands in the way.
    """
    if protocol.min_reader_version > _MAX_READER:
        raise _too_new("reader", protocol.min_reader_version, table, version)
    if protocol.min_reader_version == 3:
        listed = sorted(protocol.reader_features or ())
    else:
        listed = ["columnMapping"] if protocol.min_reader_version == 2 else []
    blocked = [name for name in listed if _blocks(name, "read", metadata, schema)]
    if blocked:
        raise _unsupported("read", blocked, table, version)


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


def writer_features(protocol: Protocol) -> frozenset[str]:
    """The features a protocol lists, or those that its version implies."""
    if protocol.min_writer_version >= 7:
        return protocol.writer_features or frozenset()
    implied = (names for version, names in _WRITER_IMPLIES.items() if version <= protocol.min_writer_version)
    return frozenset(name for names in implied for name in names)


def is_append_only(metadata: Metadata) -> bool:
    return _property("delta.appendOnly")(metadata.configuration, Schema([]))


def has_change_data_feed(metadata: Metadata) -> bool:
    return _property("delta.enableChangeDataFeed")(metadata.configuration, Schema([]))


def _blocks(name: str, verb: str, metadata: Metadata, schema: Schema) -> bool:
    feature = FEATURES.get(name)
    if feature is None:
        return True
    if feature.reads if verb == "read" else feature.writes:
        return False
    return feature.used is None or feature.used(metadata.configuration, schema)


def _too_new(side: str, number: int, table: str, version: int) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the table needs {side} version {number}, newer than any this library knows",
        table=table,
        version=version,
        hint="Use the engine that wrote it",
    )


def _unsupported(verb: str, names: list[str], table: str, version: int) -> UnsupportedFeatureError:
    reasons = "; ".join(f"{n}: {FEATURES[n].why}" if n in FEATURES else f"{n}: unknown here" for n in names)
    return UnsupportedFeatureError(
        f"cannot {verb} a table that uses {', '.join(names)} ({reasons})",
        table=table,
        version=version,
        hint="Drop the feature with the engine that added it, or use that engine",
    )


def _all_fields(schema: Schema) -> Iterator[Field]:
    from lakehouse_lib.schema import StructType

    pending = list(schema.fields)
    while pending:
        field = pending.pop()
        yield field
        kinds = [field.type]
        while kinds:
            kind = kinds.pop()
            if isinstance(kind, StructType):
                pending.extend(kind.fields)
            kinds.extend(
                child
                for name in ("element_type", "key_type", "value_type")
                if (child := getattr(kind, name, None)) is not None
            )
