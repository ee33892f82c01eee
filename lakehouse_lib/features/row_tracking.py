"""Ids of rows: ranges of numbers that files get as they are committed, each number once in a table's life, and columns
of data files in which copied rows keep theirs (PROTOCOL.md, section Row Tracking)."""

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
from lakehouse_lib.features.feature import Feature, PropertySet
from lakehouse_lib.json_text import excerpt, parse_json
from lakehouse_lib.protocol.actions import DomainMetadata, Metadata, Protocol
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
    PropertySet(ROW_TRACKING),
    f"rows get ids, and where they keep them ({ROW_TRACKING.key}) copied rows take theirs along",
    requires=("domainMetadata",),
    needs_backfill=True,
)

#: The properties that users set.
PROPERTIES = frozenset({ROW_TRACKING.key, ROW_TRACKING_SUSPENDED.key})
DOMAIN = "delta.rowTracking"
_HIGHEST = "rowIdHighWaterMark"
_IDS = ("baseRowId", "defaultRowCommitVersion")
_COLUMNS = (ROW_ID_COLUMN.key, ROW_COMMIT_VERSION_COLUMN.key)
_MOST = 2**63 - 1


class FileIds(NamedTuple):
    """What a file's action says of its rows: ``baseRowId``, the first one's id, and ``defaultRowCommitVersion``."""

    base: int
    version: int

    @classmethod
    def of(cls, files: pa.Table) -> list[FileIds | None]:
        """The ids of each file of a files table; None for a file without them."""
        pairs = zip(*(files[name].to_pylist() for name in _IDS), strict=True)
        return [None if base is None or version is None else cls(base, version) for base, version in pairs]

    def complete(
        self, ids: pa.ChunkedArray, versions: pa.ChunkedArray, positions: NDArray[np.int64]
    ) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """The ids and commit versions of rows of the file, which rows that are copied take along.

        Args:
            ids, versions: what the file has in its columns for them, null where the row has not been copied before.
            positions: of the rows in the file.
        """
        return pc.coalesce(ids, int64s(self.base + positions)), pc.coalesce(versions, literal(self.version, pa.int64()))


def are_assigned(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether files of this table get ids for their rows."""
    return FEATURE.is_supported(protocol) and not ROW_TRACKING_SUSPENDED.is_on(metadata.configuration)


def are_stable(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether a row of this table keeps its id when it is copied to another file."""
    return FEATURE.is_supported(protocol) and ROW_TRACKING.is_on(metadata.configuration)


def with_columns(configuration: Mapping[str, str], *, table: str | None = None) -> dict[str, str]:
    """A table's properties; if they enable row tracking, with the columns in which rows keep ids: those that they
    name, else some that no other column has.

    Raises:
        InvalidArgumentError: they enable row tracking and suspend it at the same time.
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
    return {**dict(zip(_COLUMNS, names, strict=True)), **configuration}


def columns_of(protocol: Protocol, metadata: Metadata, *, table: str, version: int) -> RowIdColumns | None:
    """Where rows keep their ids when they are copied to another file; None when they get new ones.

    Raises:
        DeltaProtocolError: they keep their ids, and the table does not say where, or gives none at the same time.
    """
    if not are_stable(protocol, metadata):
        return None
    ids, versions = (metadata.configuration.get(key) for key in _COLUMNS)
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
        problem = f"{_COLUMNS[0]} and {_COLUMNS[1]} name the same column, {ids!r}"
    else:
        problem = f"{ROW_TRACKING.key} is true, and no {_COLUMNS[1] if ids else _COLUMNS[0]} names the column for it"
    raise DeltaProtocolError(
        f"the columns in which rows keep their ids (rowTracking) are not known: {problem}",
        table=table,
        version=version,
        hint=f"Set {ROW_TRACKING.key} to false and to true again with the engine that set it, or append and delete "
        "whole files",
        code="DELTA_ROW_TRACKING",
    )


def say_preserved(info: Mapping[str, Any]) -> dict[str, Any]:
    """A commitInfo of a table in which rows keep their ids, saying that all did."""
    tags = info.get("tags")
    return {**info, "tags": {**(tags if isinstance(tags, dict) else {}), "delta.rowTracking.preserved": "true"}}


def check_table(protocol: Protocol, metadata: Metadata, schema: Schema, *, table: str, version: int) -> None:
    """Refuse a table whose ids could not be kept.

    Raises:
        DeltaProtocolError: nothing may be written that tells the highest id, or a column of the schema has the name of
            one that holds ids.
    """
    if not FEATURE.is_supported(protocol):
        return
    if not set(FEATURE.requires) <= (protocol.writer_features or set()):
        raise DeltaProtocolError(
            "the protocol has rowTracking without domainMetadata, where the highest id is kept",
            table=table,
            version=version,
            hint="Add the feature domainMetadata, or drop rowTracking, with the engine that added it",
            code="DELTA_ROW_TRACKING",
        )
    for key in _COLUMNS:
        name = metadata.configuration.get(key)
        if name is not None and schema.get(name) is not None:
            raise DeltaProtocolError(
                f"the column {name!r} has the name that {key} keeps for what rows keep",
                table=table,
                version=version,
                hint="Give the column another name",
                code="DELTA_ROW_TRACKING",
            )


def check_kept(protocol: Protocol, metadata: Metadata, *, table: str, version: int) -> None:
    """Refuse rows that were copied to other files without what they keep.

    Raises:
        UnsupportedFeatureError: rows keep their ids.
    """
    if are_stable(protocol, metadata):
        raise UnsupportedFeatureError(
            "files are replaced, and nothing says that their rows have kept their ids (rowTracking, "
            f"{ROW_TRACKING.key} = true)",
            table=table,
            version=version,
            hint="Rewrite files with the verbs of DeltaTable, which write the ids beside the rows",
        )


def highest(domains: Iterable[DomainMetadata], *, table: str, version: int) -> int | None:
    """The highest id that any row has got, by some domains; None where they do not say.

    Raises:
        LogCorruptedError: what they say is not a valid id.
    """
    action = next((domain for domain in domains if domain.domain == DOMAIN and not domain.removed), None)
    if action is None:
        return None
    try:
        body = parse_json(action.configuration)
    except ValueError:
        body = None
    high_water_mark = body.get(_HIGHEST) if isinstance(body, dict) else None
    if not isinstance(high_water_mark, int) or isinstance(high_water_mark, bool) or not -1 <= high_water_mark <= _MOST:
        raise LogCorruptedError(
            f"the domain {DOMAIN} is {excerpt(action.configuration)}, without a {_HIGHEST}",
            table=table,
            version=version,
            hint="Restore the commit with the table's last such domain from a backup",
        )
    return high_water_mark


def assign(adds: pa.Table, highest: int, *, table: str, version: int) -> tuple[pa.Table, DomainMetadata | None]:
    """Files with ids for their rows, and what says which id is the highest now; None when it is the same as before.

    Args:
        adds: a files table; a file that has ids already keeps them.
        highest: the highest id so far, -1 when there is none.
        version: that adds them.

    Raises:
        DeltaProtocolError: a file does not say how many rows it has, or no number is left.
    """
    fresh = adds["baseRowId"].is_null().to_numpy()
    counted = num_records(adds.filter(bools(fresh)))
    if counted.null_count:
        raise DeltaProtocolError(
            "a file to be added does not say how many rows it has, which get ids (rowTracking)",
            table=table,
            version=version,
            hint="Give it statistics with numRecords",
            code="DELTA_ROW_TRACKING",
        )
    counts = np.zeros(len(adds), np.int64)
    counts[fresh] = counted.to_numpy(zero_copy_only=False)
    total = sum(counts.tolist())
    if highest + total >= _MOST:
        raise DeltaProtocolError(
            f"{total} rows need ids after {highest}, and there is no such number (rowTracking)",
            table=table,
            version=version,
            hint="Copy the rows into a new table",
            code="DELTA_ROW_TRACKING",
        )
    first = highest + 1 + np.cumsum(counts) - counts
    ids = pc.coalesce(adds["baseRowId"], int64s(first))
    versions = pc.coalesce(adds["defaultRowCommitVersion"], pa.scalar(version, pa.int64()))
    for name, values in zip(_IDS, (ids, versions), strict=True):
        adds = adds.set_column(adds.column_names.index(name), adds.schema.field(name), values)
    if not total:
        return adds, None
    return adds, DomainMetadata(DOMAIN, json.dumps({_HIGHEST: highest + total}, separators=(",", ":")))


def renewed(removes: pa.Table, files: pa.Table) -> pa.Table:
    """Removes with the ids that their files got after they were planned.

    Args:
        removes: a table of TOMBSTONE_SCHEMA.
        files: a files table, the newest first.
    """
    places = pc.index_in(removes["path"], value_set=files["path"].combine_chunks())
    for name in _IDS:
        values = pc.coalesce(files[name].combine_chunks().take(places.combine_chunks()), removes[name].combine_chunks())
        removes = removes.set_column(removes.column_names.index(name), removes.schema.field(name), values)
    return removes
