"""The feature rowTracking: ids of rows, and the materialized columns that store them (PROTOCOL.md, Row Tracking).

A commit gives each added file a range of row ids. No id is used twice in a table. Rows that are copied to another file
keep their ids in materialized columns of that file.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import bools, int64s, literal
from lakehouse_lib.errors import (
    DeltaProtocolError,
    InvalidArgumentError,
    LogCorruptedError,
    UnsupportedFeatureError,
)
from lakehouse_lib.features.feature import Feature, HasProperty
from lakehouse_lib.json_text import excerpt, parse_json
from lakehouse_lib.protocol.actions import FILE_SCHEMA, DomainMetadata, Metadata, Protocol
from lakehouse_lib.protocol.table_properties import (
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
    ROW_TRACKING,
    ROW_TRACKING_SUSPENDED,
)
from lakehouse_lib.schema import RowIdColumns, Schema
from lakehouse_lib.statistics import num_records

FEATURE = Feature(
    "rowTracking",
    False,
    True,
    True,
    HasProperty(ROW_TRACKING),
    f"new rows get row ids; copied rows keep their ids if {ROW_TRACKING.key} is true",
    requires=("domainMetadata",),
    needs_backfill=True,
)

#: The properties that users set.
PROPERTIES = frozenset({ROW_TRACKING.key, ROW_TRACKING_SUSPENDED.key})
DOMAIN = "delta.rowTracking"
_HIGH_WATER_MARK = "rowIdHighWaterMark"
#: The fields of an ``add`` action that give row ids to a file.
IDS = ("baseRowId", "defaultRowCommitVersion")
#: The properties that name the materialized columns.
COLUMN_PROPERTIES = (ROW_ID_COLUMN.key, ROW_COMMIT_VERSION_COLUMN.key)
_MAX_ROW_ID = 2**63 - 1


class FileIds(NamedTuple):
    """The row ids of a file's action: ``baseRowId``, the id of its first row, and ``defaultRowCommitVersion``."""

    base: int
    version: int

    @classmethod
    def of(cls, files: pa.Table) -> list[FileIds | None]:
        """The ids of each file of a files table; None for a file without them."""
        pairs = zip(*(files[name].to_pylist() for name in IDS), strict=True)
        return [None if base is None or version is None else cls(base, version) for base, version in pairs]

    def complete(
        self, ids: pa.ChunkedArray, versions: pa.ChunkedArray, positions: NDArray[np.int64]
    ) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """The row ids and row commit versions of rows: the materialized values, else the values of the file.

        Args:
            ids, versions: the materialized values, null for rows that have never been copied.
            positions: the positions of the rows in the file.
        """
        return pc.coalesce(ids, int64s(self.base + positions)), pc.coalesce(versions, literal(self.version, pa.int64()))


def have_ids(files: pa.Table) -> bool:
    """Whether a file of a files table has row ids."""
    return any(files[name].null_count < len(files) for name in IDS)


def with_ids(files: pa.Table) -> pa.Table:
    """The files of a files table that have row ids."""
    return files.filter(pc.or_(*(files[name].is_valid() for name in IDS)))


def without_ids(files: pa.Table) -> pa.Table:
    """The files of a files table, without their row ids."""
    for name in IDS:
        place = FILE_SCHEMA.get_field_index(name)
        files = files.set_column(place, FILE_SCHEMA.field(place), pa.nulls(len(files), pa.int64()))
    return files


def assigns_row_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether files that are added to the table get row ids."""
    return FEATURE.is_supported(protocol) and not ROW_TRACKING_SUSPENDED.is_on(metadata.configuration)


def is_enabled(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether a row of the table keeps its id when it is copied to another file."""
    return FEATURE.is_supported(protocol) and ROW_TRACKING.is_on(metadata.configuration)


def with_columns(configuration: Mapping[str, str], *, table: str | None = None) -> dict[str, str]:
    """A table's properties with the names of the materialized columns, if the properties enable row tracking.

    Names that are already set are kept. New names contain a UUID, so no other column has them.

    Raises:
        InvalidArgumentError: the properties both enable and suspend row tracking.
    """
    if not ROW_TRACKING.is_on(configuration):
        return dict(configuration)
    if ROW_TRACKING_SUSPENDED.is_on(configuration):
        raise InvalidArgumentError(
            f"{ROW_TRACKING.key} and {ROW_TRACKING_SUSPENDED.key} are both true",
            table=table,
            hint="Leave out one of them",
            code="DELTA_INVALID_TABLE_PROPERTY",
        )
    names = (f"_row-id-col-{uuid.uuid4()}", f"_row-commit-version-col-{uuid.uuid4()}")
    return {**dict(zip(COLUMN_PROPERTIES, names, strict=True)), **configuration}


def columns_of(protocol: Protocol, metadata: Metadata, *, table: str, version: int) -> RowIdColumns | None:
    """The materialized columns in which copied rows keep their ids; None if copied rows get new ids.

    Raises:
        DeltaProtocolError: row tracking is both enabled and suspended, or the names of the columns are not valid.
    """
    if not is_enabled(protocol, metadata):
        return None
    ids, versions = (metadata.configuration.get(key) for key in COLUMN_PROPERTIES)
    if (
        ids
        and versions
        and ids.lower() != versions.lower()
        and not ROW_TRACKING_SUSPENDED.is_on(metadata.configuration)
    ):
        return RowIdColumns(ids, versions)
    if ROW_TRACKING_SUSPENDED.is_on(metadata.configuration):
        problem = f"{ROW_TRACKING.key} and {ROW_TRACKING_SUSPENDED.key} are both true"
    elif ids and versions:
        problem = f"{COLUMN_PROPERTIES[0]} and {COLUMN_PROPERTIES[1]} name the same column, {ids!r}"
    else:
        problem = f"{ROW_TRACKING.key} is true, but {COLUMN_PROPERTIES[1] if ids else COLUMN_PROPERTIES[0]} is not set"
    raise DeltaProtocolError(
        f"the materialized columns of row tracking are not known: {problem}",
        table=table,
        version=version,
        hint=f"Set {ROW_TRACKING.key} to false and to true again with the engine that set it, or append and delete "
        "whole files",
        code="DELTA_ROW_TRACKING",
    )


def with_preserved_tag(info: Mapping[str, Any]) -> dict[str, Any]:
    """The commitInfo with the tag delta.rowTracking.preserved: all rows of the commit keep their ids."""
    tags = info.get("tags")
    return {**info, "tags": {**(tags if isinstance(tags, dict) else {}), "delta.rowTracking.preserved": "true"}}


def check_table(protocol: Protocol, metadata: Metadata, schema: Schema, *, table: str, version: int) -> None:
    """Refuse a table with row tracking whose row ids cannot be stored.

    Raises:
        DeltaProtocolError: the protocol lacks domainMetadata, which the high water mark needs, or a column of the
            schema has the name of a materialized column.
    """
    if not FEATURE.is_supported(protocol):
        return
    if not set(FEATURE.requires) <= (protocol.writer_features or set()):
        raise DeltaProtocolError(
            "the protocol has rowTracking without domainMetadata, which stores the row id high water mark",
            table=table,
            version=version,
            hint="Add the feature domainMetadata, or drop rowTracking, with the engine that added it",
            code="DELTA_ROW_TRACKING",
        )
    for key in COLUMN_PROPERTIES:
        name = metadata.configuration.get(key)
        if name is not None and schema.get(name) is not None:
            raise DeltaProtocolError(
                f"the column {name!r} has the name that {key} gives to a materialized column",
                table=table,
                version=version,
                hint="Give the column another name",
                code="DELTA_ROW_TRACKING",
            )


def check_row_ids_preserved(protocol: Protocol, metadata: Metadata, *, table: str, version: int) -> None:
    """Refuse a commit that replaces files without preserving row ids.

    Raises:
        UnsupportedFeatureError: copied rows of the table must keep their ids.
    """
    if is_enabled(protocol, metadata):
        raise UnsupportedFeatureError(
            f"the commit replaces files without preserving row ids (rowTracking), although {ROW_TRACKING.key} is true",
            table=table,
            version=version,
            hint="Rewrite files with the verbs of DeltaTable, which preserve row ids",
        )


def highest(domains: Iterable[DomainMetadata], *, table: str, version: int) -> int | None:
    """The row id high water mark in a table's domains: the highest id of any row; None if no domain has it.

    Raises:
        LogCorruptedError: the value is not a valid row id.
    """
    action = next((domain for domain in domains if domain.domain == DOMAIN and not domain.removed), None)
    if action is None:
        return None
    try:
        body = parse_json(action.configuration)
    except ValueError:
        body = None
    high_water_mark = body.get(_HIGH_WATER_MARK) if isinstance(body, dict) else None
    if (
        not isinstance(high_water_mark, int)
        or isinstance(high_water_mark, bool)
        or not -1 <= high_water_mark <= _MAX_ROW_ID
    ):
        raise LogCorruptedError(
            f"the domain {DOMAIN} is {excerpt(action.configuration)}; expected a {_HIGH_WATER_MARK} from -1 "
            f"to {_MAX_ROW_ID}",
            table=table,
            version=version,
            hint="Restore the latest commit with this domain from a backup",
        )
    return high_water_mark


def assign(adds: pa.Table, highest: int, *, table: str, version: int) -> tuple[pa.Table, DomainMetadata | None]:
    """Files with row ids, and the domain with the new high water mark (None if no row got an id).

    Args:
        adds: a files table; a file that has row ids already keeps them.
        highest: the high water mark so far, -1 if no row has an id.
        version: the version that adds the files.

    Raises:
        DeltaProtocolError: a file has no row count, or there are not enough row ids left.
    """
    needs_ids = adds["baseRowId"].is_null().to_numpy()
    counted = num_records(adds.filter(bools(needs_ids)))
    if counted.null_count:
        raise DeltaProtocolError(
            "an added file has no row count, which row tracking needs",
            table=table,
            version=version,
            hint="Give it statistics with numRecords",
            code="DELTA_ROW_TRACKING",
        )
    counts = np.zeros(len(adds), np.int64)
    counts[needs_ids] = counted.to_numpy(zero_copy_only=False)
    total = sum(counts.tolist())
    if highest + total >= _MAX_ROW_ID:
        raise DeltaProtocolError(
            f"{total} rows need row ids above {highest}; expected row ids below {_MAX_ROW_ID} (rowTracking)",
            table=table,
            version=version,
            hint="Copy the rows into a new table",
            code="DELTA_ROW_TRACKING",
        )
    first = highest + 1 + np.cumsum(counts) - counts
    ids = pc.coalesce(adds["baseRowId"], int64s(first))
    versions = pc.coalesce(adds["defaultRowCommitVersion"], pa.scalar(version, pa.int64()))
    for name, values in zip(IDS, (ids, versions), strict=True):
        adds = adds.set_column(adds.column_names.index(name), adds.schema.field(name), values)
    if not total:
        return adds, None
    return adds, DomainMetadata(DOMAIN, json.dumps({_HIGH_WATER_MARK: highest + total}, separators=(",", ":")))


def with_current_row_ids(removes: pa.Table, files: pa.Table) -> pa.Table:
    """The remove actions with the row ids that their files got after the removes were planned.

    Args:
        removes: a table of TOMBSTONE_SCHEMA.
        files: the files with their current row ids, as a files table; the newest action of a path is first.
    """
    places = pc.index_in(removes["path"], value_set=files["path"].combine_chunks())
    for name in IDS:
        values = pc.coalesce(files[name].combine_chunks().take(places.combine_chunks()), removes[name].combine_chunks())
        removes = removes.set_column(removes.column_names.index(name), removes.schema.field(name), values)
    return removes
