"""Every feature there is a name for: what we read, what we write, and why not (PROTOCOL.md, Appendix: Valid Feature
Names)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

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
    # Regardless of case, as delta-spark looks for constraints.
    return lambda properties, _: any(key.lower().startswith(prefix.lower()) for key in properties)


def _field_metadata(prefix: str) -> Use:
    return lambda _, schema: any(key.startswith(prefix) for f in _all_fields(schema) for key in (f.metadata or {}))


def _type(*prefixes: str) -> Use:
    return lambda _, schema: any(name.startswith(prefixes) for name in _primitives(schema))


def _mapped(properties: Mapping[str, str], _: Schema) -> bool:
    return properties.get("delta.columnMapping.mode", "none").lower() != "none"


_ALWAYS: Use = lambda _properties, _schema: True  # noqa: E731 - a value among values
_NEVER: Use = lambda _properties, _schema: False  # noqa: E731

#: Why a catalog's table is refused.
CATALOG = "the table's catalog decides which commits count, and the folder alone does not say"
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
            "a delete hides rows by them where delta.enableDeletionVectors is true",
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
        Feature("catalogManaged", True, False, False, _ALWAYS, CATALOG),
        Feature("catalogOwned-preview", True, False, False, _ALWAYS, CATALOG, "preview"),
        Feature(
            "coordinatedCommits-preview",
            False,
            False,
            False,
            _any_property("delta.coordinatedCommits.commitCoordinator-preview"),
            CATALOG,
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


def _all_fields(schema: Schema) -> Iterator[Field]:
    for kind in all_types(schema):
        if isinstance(kind, StructType):
            yield from kind.fields


def _primitives(schema: Schema) -> Iterator[str]:
    return (kind.type for kind in all_types(schema) if isinstance(kind, PrimitiveType))
