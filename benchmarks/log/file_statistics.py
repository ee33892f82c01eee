"""Made-up statistics of data files that do not exist: six columns, as structs and as Spark's JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Rows of a file; ``id`` ascends over the whole table, so that a point predicate selects one file.
ROWS_A_FILE = 1000

COLUMNS = ("id", "customer", "amount", "day", "at", "name")
_NAMES = (
    "Abbott",
    "Bauer",
    "Castro",
    "Dubois",
    "Eriksen",
    "Fischer",
    "Garcia",
    "Hughes",
    "Ivanov",
    "Jensen",
    "Kowalski",
)

_BOUNDS = pa.struct(
    [
        ("id", pa.int64()),
        ("customer", pa.int64()),
        ("amount", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
    ]
)
_PARSED = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", _BOUNDS),
        ("maxValues", _BOUNDS),
        ("nullCount", pa.struct([(name, pa.int64()) for name in COLUMNS])),
    ]
)


def statistics(random: np.random.Generator, numbers: np.ndarray[Any, Any]) -> pa.StructArray:
    """The statistics of the files with these numbers, as a checkpoint's ``stats_parsed``."""
    count = len(numbers)
    first = numbers * ROWS_A_FILE
    day = (18_000 + numbers // 2000).astype(np.int32)
    moment = day.astype(np.int64) * 86_400_000_000 + random.integers(0, 43_200_000, count) * 1000
    names = pa.array(_NAMES)
    low = [
        pa.array(first),
        pa.array(random.integers(0, 5_000, count)),
        pa.array(np.round(random.uniform(0, 20, count), 2)),
        pa.array(day).cast(pa.date32()),
        pa.array(moment).cast(pa.timestamp("us", "UTC")),
        names.take(pa.array(random.integers(0, 3, count))),
    ]
    high = [
        pa.array(first + ROWS_A_FILE - 1),
        pa.array(random.integers(995_000, 1_000_000, count)),
        pa.array(np.round(random.uniform(900, 999, count), 2)),
        pa.array(day).cast(pa.date32()),
        pa.array(moment + 40_000_000_000).cast(pa.timestamp("us", "UTC")),
        names.take(pa.array(random.integers(7, len(_NAMES), count))),
    ]
    zeros = [pa.array(np.zeros(count, np.int64))] * 5
    nulls = pa.StructArray.from_arrays([*zeros, pa.array(random.integers(0, 50, count))], list(COLUMNS))
    return pa.StructArray.from_arrays(
        [
            pa.array(np.full(count, ROWS_A_FILE)),
            pa.StructArray.from_arrays(low, fields=list(_BOUNDS)),
            pa.StructArray.from_arrays(high, fields=list(_BOUNDS)),
            nulls,
        ],
        fields=list(_PARSED),
    )


def as_json(structs: pa.StructArray) -> pa.Array:
    """The same statistics as Spark's JSON, with timestamps truncated to milliseconds."""
    records, low, high, nulls = structs.flatten()
    parts: list[Any] = ['{"numRecords":', records.cast(pa.string())]
    for title, bounds in (("minValues", low), ("maxValues", high), ("nullCount", nulls)):
        parts.append(f',"{title}":{{')
        for number, (name, values) in enumerate(zip(COLUMNS, bounds.flatten(), strict=True)):
            parts += [f'{"," if number else ""}"{name}":', *_quoted(values)]
        parts.append("}")
    parts.append("}")
    return pc.binary_join_element_wise(*parts, "")


def _quoted(values: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(values.type):
        text = values.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.timestamp("ms")).cast(pa.string())
        return ['"', pc.replace_substring(text, " ", "T"), 'Z"']
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return [values.cast(pa.string())]
    return ['"', values.cast(pa.string()), '"']
