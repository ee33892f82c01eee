"""Ids of rows: ranges of numbers that files get as they are committed, each number once in a table's life
(PROTOCOL.md, section Row Tracking)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import features
from lakehouse_lib.actions import DomainMetadata, Metadata, Protocol, excerpt, parse_json
from lakehouse_lib.arrow_values import bools, int64s
from lakehouse_lib.errors import DeltaProtocolError, LogCorruptedError, UnsupportedFeatureError
from lakehouse_lib.statistics import num_records

DOMAIN = "delta.rowTracking"
_HIGHEST = "rowIdHighWaterMark"
_STABLE = "delta.enableRowTracking"
_SUSPENDED = "delta.rowTrackingSuspended"
_MOST = 2**63 - 1


def are_assigned(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether files of this table get ids for their rows."""
    suspended = metadata.configuration.get(_SUSPENDED, "").lower() == "true"
    return "rowTracking" in features.writer_features(protocol) and not suspended


def are_stable(properties: Mapping[str, str]) -> bool:
    """Whether a row keeps its id when it is copied to another file."""
    return properties.get(_STABLE, "").lower() == "true"


def say_preserved(info: Mapping[str, Any]) -> dict[str, Any]:
    """A commitInfo of a table in which rows keep their ids, saying that all did: no row was copied."""
    tags = info.get("tags")
    return {**info, "tags": {**(tags if isinstance(tags, dict) else {}), "delta.rowTracking.preserved": "true"}}


def check_copies(metadata: Metadata, *, table: str, version: int) -> None:
    """Refuse to copy rows of a table in which they keep their ids: the columns that would hold those are not written.

    Raises:
        UnsupportedFeatureError: rows keep their ids.
    """
    if are_stable(metadata.configuration):
        raise UnsupportedFeatureError(
            f"rows cannot be copied to other files of a table that uses rowTracking ({_STABLE} = true: rows keep their "
            "ids, and the ids of copied rows are not written yet)",
            table=table,
            version=version,
            hint="Append, overwrite, or delete whole partitions or files; for the rest use the engine that set the "
            "property, or set it to false there, after which copied rows get new ids",
        )


def highest(domains: Iterable[DomainMetadata], *, table: str, version: int) -> int | None:
    """The highest id that any row has got, by some domains; None where they do not say.

    Raises:
        LogCorruptedError: they say what is no id.
    """
    told = next((domain for domain in domains if domain.domain == DOMAIN and not domain.removed), None)
    if told is None:
        return None
    try:
        body = parse_json(told.configuration)
    except ValueError:
        body = None
    found = body.get(_HIGHEST) if isinstance(body, dict) else None
    if not isinstance(found, int) or isinstance(found, bool) or not -1 <= found <= _MOST:
        raise LogCorruptedError(
            f"the domain {DOMAIN} is {excerpt(told.configuration)}, without a {_HIGHEST}",
            table=table,
            version=version,
            hint="Restore the commit with the table's last such domain from a backup",
        )
    return found


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
        )
    first = highest + 1 + np.cumsum(counts) - counts
    ids = pc.coalesce(adds["baseRowId"], int64s(first))
    versions = pc.coalesce(adds["defaultRowCommitVersion"], pa.scalar(version, pa.int64()))
    for name, values in (("baseRowId", ids), ("defaultRowCommitVersion", versions)):
        adds = adds.set_column(adds.column_names.index(name), adds.schema.field(name), values)
    if not total:
        return adds, None
    return adds, DomainMetadata(DOMAIN, json.dumps({_HIGHEST: highest + total}, separators=(",", ":")))
