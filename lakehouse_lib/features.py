"""Table features: what we read, what we write, what we refuse and why (PROTOCOL.md, Appendix: Valid Feature Names).

A feature that a table merely lists but does not use costs nothing: it is refused only where using it would need code
that is not here. A legacy protocol version implies its features, and the same question of use decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from lakehouse_lib.actions import Metadata, Protocol
from lakehouse_lib.errors import InvalidSchemaError, UnsupportedFeatureError
from lakehouse_lib.schema import Field, PrimitiveType, Schema, StructType, all_types

#: Whether a table uses the feature, judged by its properties and schema.
Use = Callable[[Mapping[str, str], "Schema"], bool]


#: Where a name comes from: released features are those of PROTOCOL.md; the others turn up in tables all the same.
Status = Literal["released", "preview", "proposal"]


@dataclass(frozen=True)
class Feature:
    """``reads``/``writes``: supported even when in use. ``used``: whether the metadata puts it to use.

    ``reader`` features are listed in readerFeatures and writerFeatures, the others in writerFeatures only.
    """

    name: str
    reader: bool
    reads: bool
    writes: bool
    used: Use
    why: str
    status: Status = "released"

    @property
    def always_used(self) -> bool:
        """Whether listing the feature is using it."""
        return self.used is _ALWAYS


def _property(name: str) -> Use:
    return lambda properties, _: properties.get(name, "").lower() == "true"


def _any_property(prefix: str) -> Use:
    return lambda properties, _: any(key.startswith(prefix) for key in properties)


def _field_metadata(prefix: str) -> Use:
    return lambda _, schema: any(key.startswith(prefix) for f in _all_fields(schema) for key in (f.metadata or {}))


def _type(*prefixes: str) -> Use:
    return lambda _, schema: any(name.startswith(prefixes) for name in _primitives(schema))


def _mapped(properties: Mapping[str, str], _: Schema) -> bool:
    return properties.get("delta.columnMapping.mode", "none").lower() != "none"


_ALWAYS: Use = lambda _properties, _schema: True  # noqa: E731 - a value among values
_NEVER: Use = lambda _properties, _schema: False  # noqa: E731

_CATALOG = "the table's catalog decides which commits count, and the folder alone does not say"
_ICEBERG = "values are those of any table; files must be written as Iceberg wants them, which is not kept yet"
_WIDENING = "old files are upcast; a change the protocol does not know is refused; files are not written yet"
_VARIANT = "a struct of the binaries metadata and value; not written yet"
_SHREDDED = "a file that is shredded is read by Spark only; not written yet"
_REDIRECT = "the table has moved, and where to only its redirect says"

FEATURES: Mapping[str, Feature] = {
    f.name: f
    for f in (
        Feature("appendOnly", False, True, True, _property("delta.appendOnly"), "removing rows is refused"),
        Feature("invariants", False, True, False, _field_metadata("delta.invariants"), "not evaluated yet"),
        Feature("checkConstraints", False, True, False, _any_property("delta.constraints."), "not evaluated yet"),
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
        Feature("columnMapping", True, True, False, _mapped, "physical names and field ids are not written yet"),
        Feature("identityColumns", False, True, False, _field_metadata("delta.identity."), "not generated yet"),
        Feature(
            "deletionVectors",
            True,
            True,
            True,
            _NEVER,
            "rows are read and rewritten without those; written only where a compaction carries others' marks over",
        ),
        Feature("timestampNtz", True, True, True, _ALWAYS, ""),
        Feature("v2Checkpoint", True, True, True, _ALWAYS, "delta.checkpointPolicy says which checkpoints are written"),
        Feature("vacuumProtocolCheck", True, True, True, _ALWAYS, "vacuum makes the write check"),
        Feature("domainMetadata", False, True, True, _ALWAYS, "domains are kept as they are"),
        Feature(
            "rowTracking",
            False,
            True,
            True,
            _ALWAYS,
            "rows get ids, and where they keep them (delta.enableRowTracking) copied rows take theirs along",
        ),
        Feature("clustering", False, True, False, _ALWAYS, "the clustering domain is not kept up yet"),
        Feature(
            "inCommitTimestamp",
            False,
            True,
            True,
            _property("delta.enableInCommitTimestamps"),
            "a commit's time is inside it, and rises with the versions whatever clocks do",
        ),
        Feature(
            "allowColumnDefaults",
            False,
            True,
            False,
            _field_metadata("CURRENT_DEFAULT"),
            "defaults are not applied yet",
        ),
        Feature("typeWidening", True, True, False, _field_metadata("delta.typeChanges"), _WIDENING),
        Feature("typeWidening-preview", True, True, False, _field_metadata("delta.typeChanges"), _WIDENING, "preview"),
        Feature("variantType", True, True, False, _type("variant"), _VARIANT),
        Feature("variantType-preview", True, True, False, _type("variant"), _VARIANT, "preview"),
        Feature("variantShredding", True, True, False, _type("variant"), _SHREDDED),
        Feature("variantShredding-preview", True, True, False, _type("variant"), _SHREDDED, "preview"),
        Feature("icebergCompatV1", False, True, False, _property("delta.enableIcebergCompatV1"), _ICEBERG),
        Feature("icebergCompatV2", False, True, False, _property("delta.enableIcebergCompatV2"), _ICEBERG),
        Feature("icebergCompatV3", False, True, False, _property("delta.enableIcebergCompatV3"), _ICEBERG, "proposal"),
        Feature(
            "icebergWriterCompatV1",
            False,
            True,
            False,
            _property("delta.enableIcebergWriterCompatV1"),
            _ICEBERG,
            "proposal",
        ),
        Feature(
            "icebergWriterCompatV3",
            False,
            True,
            False,
            _property("delta.enableIcebergWriterCompatV3"),
            _ICEBERG,
            "proposal",
        ),
        Feature(
            "materializePartitionColumns",
            False,
            True,
            False,
            _ALWAYS,
            "partition values are read from the log; they are not written into files yet",
            "proposal",
        ),
        Feature(
            "checkpointProtection", False, True, False, _ALWAYS, "its checkpoint rules are not kept yet", "proposal"
        ),
        Feature("catalogManaged", True, False, False, _ALWAYS, _CATALOG),
        Feature("catalogOwned-preview", True, False, False, _ALWAYS, _CATALOG, "preview"),
        Feature(
            "coordinatedCommits-preview",
            False,
            False,
            False,
            _any_property("delta.coordinatedCommits.commitCoordinator-preview"),
            _CATALOG,
            "preview",
        ),
        Feature(
            "redirectReaderWriter-preview",
            True,
            False,
            False,
            _any_property("delta.redirectReaderWriter-preview"),
            _REDIRECT,
            "preview",
        ),
        Feature(
            "redirectWriterOnly-preview",
            False,
            True,
            False,
            _any_property("delta.redirectWriterOnly-preview"),
            f"reading here stays right; for writers {_REDIRECT}",
            "preview",
        ),
        Feature(
            "columnMappingUsageTracking",
            False,
            True,
            False,
            _ALWAYS,
            "renames and drops are not tracked yet",
            "proposal",
        ),
        Feature(
            "collations",
            False,
            True,
            False,
            _field_metadata("__COLLATIONS"),
            "text compares by its bytes here, whatever collation a column has",
            "proposal",
        ),
        Feature(
            "collations-preview",
            False,
            True,
            False,
            _field_metadata("__COLLATIONS"),
            "text compares by its bytes here, whatever collation a column has",
            "preview",
        ),
        Feature(
            "geospatial",
            True,
            False,
            False,
            _type("geometry", "geography"),
            "geometries have no type here",
            "proposal",
        ),
        Feature(
            "geospatial-dev",
            True,
            False,
            False,
            _type("geometry", "geography"),
            "geometries have no type here",
            "preview",
        ),
        Feature(
            "timestampNanos",
            True,
            False,
            False,
            _type("timestamp_nanos", "timestamp_ntz_nanos", "timestamp("),
            "timestamps end at microseconds here",
            "proposal",
        ),
        Feature(
            "adaptiveMetadata-preview",
            True,
            False,
            False,
            _ALWAYS,
            "its metadata is Iceberg's, not the log's",
            "preview",
        ),
    )
}

#: Types of columns beyond those of every table, by the name the schema has them under: (read, written, why).
TYPES: Mapping[str, tuple[bool, bool, str]] = {
    "void": (True, True, "all null; no feature lists it, and no file holds it"),
    "timestamp_ntz": (True, True, "needs the feature timestampNtz"),
    "variant": (True, False, "needs the feature variantType; a struct of the binaries metadata and value"),
    "interval ...": (False, False, "no feature lists it; the other columns can be read"),
    "geometry(...), geography(...)": (False, False, "needs the feature geospatial"),
}

#: What a version without feature lists implies, cumulatively.
READER_IMPLIES: Mapping[int, tuple[str, ...]] = {2: ("columnMapping",)}
WRITER_IMPLIES: Mapping[int, tuple[str, ...]] = {
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
        UnsupportedFeatureError: names every feature that stands in the way, or a file format other than Parquet.
        InvalidSchemaError: the table is partitioned by what is no column of a primitive type.
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
    columns = {one.name: one.type for one in schema.fields}
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
    # Columns go by other names where the property says so, and that is read by everybody, whatever the protocol says.
    asked = writer_features(protocol) | {"columnMapping"}
    blocked = [name for name in sorted(asked) if _blocks(name, "write", metadata, schema)]
    if blocked:
        raise _unsupported("write", blocked, table, version)


def reader_features(protocol: Protocol) -> frozenset[str]:
    """The features a reader must know: those that a protocol lists, or those that its versions imply.

    A legacy feature of readers and writers is implied only where both versions reach it, as in delta-spark.
    """
    if protocol.min_reader_version >= 3:
        return protocol.reader_features or frozenset()
    return _implied(READER_IMPLIES, protocol.min_reader_version) & writer_features(protocol)


def writer_features(protocol: Protocol) -> frozenset[str]:
    """The features a protocol lists, or those that its versions imply (as of ``reader_features``)."""
    if protocol.min_writer_version >= 7:
        return protocol.writer_features or frozenset()
    by_readers = _implied(READER_IMPLIES, protocol.min_reader_version)
    implied = _implied(WRITER_IMPLIES, protocol.min_writer_version)
    return frozenset(name for name in implied if name in by_readers or not FEATURES[name].reader)


def is_append_only(metadata: Metadata) -> bool:
    return _property("delta.appendOnly")(metadata.configuration, Schema([]))


def has_change_data_feed(metadata: Metadata) -> bool:
    return _property("delta.enableChangeDataFeed")(metadata.configuration, Schema([]))


def _implied(by_version: Mapping[int, tuple[str, ...]], version: int) -> frozenset[str]:
    return frozenset(name for since, names in by_version.items() if since <= version for name in names)


def _blocks(name: str, verb: str, metadata: Metadata, schema: Schema) -> bool:
    feature = FEATURES.get(name)
    if feature is None:
        return True
    if feature.reads if verb == "read" else feature.writes:
        return False
    return feature.used(metadata.configuration, schema)


def _too_new(side: str, number: int, table: str, version: int) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the table needs {side} version {number}, newer than any this library knows",
        table=table,
        version=version,
        hint="Use the engine that wrote it",
    )


def _unsupported(verb: str, names: list[str], table: str, version: int) -> UnsupportedFeatureError:
    reasons = "; ".join(f"{n}: {FEATURES[n].why}" if n in FEATURES else f"{n}: unknown here" for n in names)
    if any(n in FEATURES and FEATURES[n].why == _CATALOG for n in names):
        hint = "Ask the catalog: use an engine that is connected to it, or have that engine copy the table elsewhere"
    else:
        hint = "Drop the feature with the engine that added it, or use that engine"
    return UnsupportedFeatureError(
        f"cannot {verb} a table that uses {', '.join(names)} ({reasons})",
        table=table,
        version=version,
        hint=hint,
    )


def _all_fields(schema: Schema) -> Iterator[Field]:
    for kind in all_types(schema):
        if isinstance(kind, StructType):
            yield from kind.fields


def _primitives(schema: Schema) -> Iterator[str]:
    return (kind.type for kind in all_types(schema) if isinstance(kind, PrimitiveType))
