"""All known table features: whether this library reads and writes them (PROTOCOL.md, Appendix: Valid Feature Names).

A feature that needs code has its own module.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse_lib.features import (
    append_only,
    change_data_feed,
    column_mapping,
    deletion_vectors,
    domain_metadata,
    in_commit_timestamp,
    row_tracking,
    type_widening,
)
from lakehouse_lib.features.checkpoints import checkpoint_protection, v2_checkpoint
from lakehouse_lib.features.computed_columns import column_defaults, generated_columns, identity_columns
from lakehouse_lib.features.constraints import check_constraints, invariants
from lakehouse_lib.features.feature import (
    Feature,
    HasProperty,
    always,
    field_metadata,
    is_never_enabled,
    primitive_type,
    property_prefix,
)
from lakehouse_lib.features.file_layout import clustering, materialize_partition_columns
from lakehouse_lib.protocol.table_properties import (
    ICEBERG_COMPAT_V1,
    ICEBERG_COMPAT_V2,
    ICEBERG_COMPAT_V3,
    ICEBERG_WRITER_COMPAT_V1,
    ICEBERG_WRITER_COMPAT_V3,
    VARIANT_SHREDDING,
)

#: The reason to refuse a table of a catalog.
CATALOG = "the table's catalog determines its commits, and the log alone may lack some of them"
_ICEBERG = "read like any other table; files that satisfy Iceberg's rules are not written yet"
_WIDENING = "values of old files are upcast; tables with changed types are written only with the released feature"
_VARIANTS = primitive_type("variant")
_VARIANT = "a variant is read and written as a struct of two binary members, metadata and value"
_SHREDDED = "only the Spark engine reads files with shredded values; variants are written without shredding"
_REDIRECT = "the table has moved, and this library does not follow its redirect"

FEATURES: Mapping[str, Feature] = {
    f.name: f
    for f in (
        append_only.FEATURE,
        invariants.FEATURE,
        check_constraints.FEATURE,
        change_data_feed.FEATURE,
        generated_columns.FEATURE,
        column_mapping.FEATURE,
        identity_columns.FEATURE,
        deletion_vectors.FEATURE,
        Feature("timestampNtz", True, True, True, primitive_type("timestamp_ntz"), ""),
        v2_checkpoint.FEATURE,
        Feature(
            "vacuumProtocolCheck",
            True,
            True,
            True,
            is_never_enabled,
            "vacuum refuses a table that this library cannot write",
        ),
        domain_metadata.FEATURE,
        row_tracking.FEATURE,
        clustering.FEATURE,
        in_commit_timestamp.FEATURE,
        column_defaults.FEATURE,
        type_widening.FEATURE,
        Feature(
            "typeWidening-preview",
            True,
            True,
            False,
            is_never_enabled,
            _WIDENING,
            "preview",
            in_use=type_widening.has_changes,
        ),
        Feature("variantType", True, True, True, _VARIANTS, _VARIANT),
        Feature("variantType-preview", True, True, True, is_never_enabled, _VARIANT, "preview", in_use=_VARIANTS),
        Feature("variantShredding", True, True, True, HasProperty(VARIANT_SHREDDING), _SHREDDED, in_use=_VARIANTS),
        Feature("variantShredding-preview", True, True, True, is_never_enabled, _SHREDDED, "preview", in_use=_VARIANTS),
        Feature("icebergCompatV1", False, True, False, HasProperty(ICEBERG_COMPAT_V1), _ICEBERG),
        Feature("icebergCompatV2", False, True, False, HasProperty(ICEBERG_COMPAT_V2), _ICEBERG),
        Feature("icebergCompatV3", False, True, False, HasProperty(ICEBERG_COMPAT_V3), _ICEBERG, "proposal"),
        Feature(
            "icebergWriterCompatV1",
            False,
            True,
            False,
            HasProperty(ICEBERG_WRITER_COMPAT_V1),
            _ICEBERG,
            "proposal",
        ),
        Feature(
            "icebergWriterCompatV3",
            False,
            True,
            False,
            HasProperty(ICEBERG_WRITER_COMPAT_V3),
            _ICEBERG,
            "proposal",
        ),
        materialize_partition_columns.FEATURE,
        checkpoint_protection.FEATURE,
        Feature("catalogManaged", True, False, False, is_never_enabled, CATALOG, in_use=always),
        Feature("catalogOwned-preview", True, False, False, is_never_enabled, CATALOG, "preview", in_use=always),
        Feature(
            "coordinatedCommits-preview",
            False,
            False,
            False,
            property_prefix("delta.coordinatedCommits.commitCoordinator-preview"),
            CATALOG,
            "preview",
        ),
        Feature(
            "redirectReaderWriter-preview",
            True,
            False,
            False,
            property_prefix("delta.redirectReaderWriter-preview"),
            _REDIRECT,
            "preview",
        ),
        Feature(
            "redirectWriterOnly-preview",
            False,
            True,
            False,
            property_prefix("delta.redirectWriterOnly-preview"),
            f"reads are correct; for writers {_REDIRECT}",
            "preview",
        ),
        Feature(
            "columnMappingUsageTracking",
            False,
            True,
            False,
            is_never_enabled,
            "renames and drops are not tracked yet",
            "proposal",
            in_use=always,
        ),
        Feature(
            "collations",
            False,
            True,
            False,
            field_metadata("__COLLATIONS"),
            "text is compared by its bytes, not by the collation of its column",
            "proposal",
        ),
        Feature(
            "collations-preview",
            False,
            True,
            False,
            is_never_enabled,
            "text is compared by its bytes, not by the collation of its column",
            "preview",
            in_use=field_metadata("__COLLATIONS"),
        ),
        Feature(
            "geospatial",
            True,
            False,
            False,
            primitive_type("geometry", "geography"),
            "geometries are not supported",
            "proposal",
        ),
        Feature(
            "geospatial-dev",
            True,
            False,
            False,
            is_never_enabled,
            "geometries are not supported",
            "preview",
            in_use=primitive_type("geometry", "geography"),
        ),
        Feature(
            "timestampNanos",
            True,
            False,
            False,
            primitive_type("timestamp_nanos", "timestamp_ntz_nanos", "timestamp("),
            "timestamps with nanoseconds are not supported",
            "proposal",
        ),
        Feature(
            "adaptiveMetadata-preview",
            True,
            False,
            False,
            is_never_enabled,
            "the table has the metadata of Iceberg, which this library does not read",
            "preview",
            in_use=always,
        ),
    )
}

#: Types of columns that need more than the base protocol, by their name in the schema: (read, written, note).
TYPES: Mapping[str, tuple[bool, bool, str]] = {
    "void": (True, True, "all values are null; needs no feature; not stored in data files"),
    "timestamp_ntz": (True, True, "needs the feature timestampNtz"),
    "variant": (
        True,
        True,
        "needs the feature variantType; read and written as a struct of two binary members, metadata and value",
    ),
    "interval ...": (False, False, "has no feature in the protocol"),
    "geometry(...), geography(...)": (False, False, "needs the feature geospatial"),
    "timestamp_nanos, timestamp_ntz_nanos, timestamp(...)": (False, False, "needs the feature timestampNanos"),
}
